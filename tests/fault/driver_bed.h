/*
 * driver_bed.h: an engine on the stubs of driver and compiler, a table whose chains are adds, and
 * what must hold of any call that failed. For cmocka; STG_TEST_STUB_CUDA and STG_TEST_STUB_NVRTC
 * name the files.
 */
#ifndef STG_TESTS_FAULT_DRIVER_BED_H
#define STG_TESTS_FAULT_DRIVER_BED_H

#include <string.h>

#include <steergraph/steergraph.h>

#include "runtime/driver.h"
#include "tests/stub/stub_cuda.h"

/* What a call of the driver is made to answer. */
struct driver_fault {
  CUresult result;
  const char *name;
  bool sticky;
};

static struct stub_cuda stub;

/** A group's setup, before the first engine: the stubs then have NVIDIA's names in this process. */
static inline int open_stubs(void **state) {
  (void)state;
  if (!stub_cuda_open(STG_TEST_STUB_CUDA, &stub) ||
      dlopen(STG_TEST_STUB_NVRTC, RTLD_NOW | RTLD_LOCAL) == NULL) {
    print_error("%s\n", dlerror());
    return -1;
  }
  return 0;
}

static inline void must_be_ok(const char *what, stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s: %s", what, stg_status_name(status), error->message);
  }
}

#endif

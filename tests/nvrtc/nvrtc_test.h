/*
 * nvrtc_test.h: what the tests of this suite share: skip without NVRTC, tiny kernels to compile.
 */
#ifndef STG_TESTS_NVRTC_NVRTC_TEST_H
#define STG_TESTS_NVRTC_NVRTC_TEST_H

#include <stdio.h>

#include "runtime/compile.h"

#define EXIT_SKIPPED 77

/* For main: 0 to go on, or the exit status after one line that says why. */
static inline int skip_without_nvrtc(void) {
  stg_error error = STG_ERROR_INIT;
  struct stg_nvrtc_info info;
  stg_status status = stg_nvrtc_info(&info, &error);
  if (status == STG_OK) {
    return 0;
  }
  printf("skipped: %s\n", error.message);
  return status == STG_E_NO_DEVICE ? EXIT_SKIPPED : 1;
}

/* A prelude and a kernel that uses it, for `arch`. */
static inline struct stg_kernel_request scale_request(const char *arch) {
  return (struct stg_kernel_request){
      .signature = "test: scale",
      .name = "test_scale",
      .prelude = "#define TEST_FACTOR 3.0f\n",
      .source = "extern \"C\" __global__ void test_scale(float *x, float offset, unsigned n) {\n"
                "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "  if (i < n) {\n"
                "    x[i] = x[i] * TEST_FACTOR + offset;\n"
                "  }\n"
                "}\n",
      .arch = arch,
      .threads = 128,
      .rows_per_block = 1,
  };
}

#endif

/*
 * driver.c: find libcuda, fill the table of entry points, start the driver.
 *
 * Every symbol is asked for by the version of its signature, so that the same binary runs on any
 * driver since 12.0 and with any header since 12.0. Knows no device and no context.
 */
#include "runtime/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cudaTypedefs.h>

#include "runtime/base/alloc.h"
#include "runtime/base/interrupt.h"

#if CUDA_VERSION < 12000
#error "steergraph needs the headers of CUDA 12.0 or later"
#endif

/* The rows are written by hand, so hold each against the toolkit's own type of that version. */
#define STG_DRIVER_FN(need, member, symbol, version, parameters)                                   \
  _Static_assert(__builtin_types_compatible_p(__typeof__(((struct stg_driver *)0)->member),        \
                                              PFN_##symbol##_v##version),                          \
                 #symbol ": the row differs from the header");
#include "runtime/driver_api.def"
#undef STG_DRIVER_FN

enum stg_driver_need { OPTIONAL, REQUIRED };

struct driver_row {
  const char *symbol;
  size_t offset;
  int version;
  enum stg_driver_need need;
};

static const struct driver_row driver_rows[] = {
#define STG_DRIVER_FN(need, member, symbol, version, parameters)                                   \
  {#symbol, offsetof(struct stg_driver, member), version, need},
#include "runtime/driver_api.def"
#undef STG_DRIVER_FN
};

/* Beside the loader's own search: container hosts and WSL mount the driver outside of it. */
static const char *const driver_files[] = {
    "libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
};

#define DRIVER_ADVICE "install the NVIDIA driver R525 or later, or use the CPU backend"

static struct stg_driver driver_table;
static stg_status driver_status;
static stg_error driver_error;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void count_fork(void) {
  atomic_fetch_add(&driver_table.forks, 1);
}

static stg_status find_library(void **ret_library, stg_error *reterr) {
  char reason[256] = "";
  for (size_t i = 0; i < sizeof driver_files / sizeof driver_files[0]; i++) {
    void *library = dlopen(driver_files[i], RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
      *ret_library = library;
      return STG_OK;
    }
    const char *text = dlerror();
    if (reason[0] == '\0' && text != NULL) {
      strncpy(reason, text, sizeof reason - 1);
    }
  }
  return stg_error_set(reterr, STG_E_NO_DEVICE, "no CUDA driver: %s; " DRIVER_ADVICE, reason);
}

/* dlsym gives an object pointer; ISO C has no cast from it to a function. */
static void store_function(void *slot, void *address) {
  memcpy(slot, &address, sizeof address);
}

static stg_status fill_table(struct stg_driver *table, void *library, stg_error *reterr) {
  PFN_cuGetProcAddress_v12000 get_proc_address = NULL;
  store_function(&get_proc_address, dlsym(library, "cuGetProcAddress_v2"));
  if (get_proc_address == NULL) {
    return stg_error_set(reterr, STG_E_NO_DEVICE,
                         "the CUDA driver is older than 12.0 (libcuda.so.1 has no "
                         "cuGetProcAddress_v2); " DRIVER_ADVICE);
  }
  for (size_t i = 0; i < sizeof driver_rows / sizeof driver_rows[0]; i++) {
    const struct driver_row *row = &driver_rows[i];
    void *address = NULL;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    /* a version above the driver's own answers INVALID_VALUE: absent, as far as we care */
    CUresult result = get_proc_address(row->symbol, &address, row->version,
                                       CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
    if (result != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS) {
      address = NULL;
    }
    if (address == NULL && row->need == REQUIRED) {
      return stg_error_set(reterr, STG_E_NO_DEVICE,
                           "the CUDA driver has no %s of version %d (CUresult %d); " DRIVER_ADVICE,
                           row->symbol, row->version, (int)result);
    }
    store_function((char *)table + row->offset, address);
  }
  return STG_OK;
}

static void load_driver(void) {
  void *library = NULL;
  driver_status = find_library(&library, &driver_error);
  if (driver_status == STG_OK) {
    driver_status = fill_table(&driver_table, library, &driver_error);
  }
  if (driver_status != STG_OK) {
    return;
  }
  /* cheaper than a getpid in every launch; a child that cannot be told apart is worse than none */
  if (pthread_atfork(NULL, NULL, count_fork) != 0) {
    driver_status = stg_error_memory(&driver_error, "a fork handler", sizeof(void *));
    return;
  }
  struct stg_interrupt_hold hold; /* see stg_device_open */
  stg_interrupt_hold(&hold);
  driver_table.started = driver_table.init(0);
  stg_interrupt_release(&hold);
  if (driver_table.driver_get_version(&driver_table.version) != CUDA_SUCCESS) {
    driver_table.version = 0;
  }
}

stg_status stg_driver_get(const struct stg_driver **ret_driver, stg_error *reterr) {
  pthread_once(&driver_once, load_driver);
  if (driver_status != STG_OK) {
    stg_error_set(reterr, driver_status, "%s", driver_error.message);
    return driver_status;
  }
  *ret_driver = &driver_table;
  return STG_OK;
}

const char *stg_driver_error_name(const struct stg_driver *driver, CUresult result) {
  const char *name = NULL;
  if (driver->get_error_name(result, &name) != CUDA_SUCCESS || name == NULL) {
    return "an error unknown to this driver";
  }
  return name;
}

const char *stg_driver_error_text(const struct stg_driver *driver, CUresult result) {
  const char *text = NULL;
  if (driver->get_error_string(result, &text) != CUDA_SUCCESS || text == NULL) {
    return "no description";
  }
  return text;
}

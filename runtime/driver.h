/*
 * driver.h: the CUDA driver behind dlopen: one table of entry points for the process.
 *
 * Private to the CUDA files of runtime/ (it includes cuda.h). The table is loaded once, never
 * unloaded, and knows nothing of devices or contexts.
 */
#ifndef STG_RUNTIME_DRIVER_H
#define STG_RUNTIME_DRIVER_H

#include <stdatomic.h>

#include <cuda.h>

#include "runtime/base/error.h"

struct stg_driver {
#define STG_DRIVER_FN(need, member, symbol, version, parameters)                                   \
  CUresult(CUDAAPI *member) parameters;
#include "runtime/driver_api.def"
#undef STG_DRIVER_FN
  int version;      /* 13000 for 13.0 */
  CUresult started; /* what cuInit answered */
  atomic_uint forks;
};

/**
 * The process's table, loaded on the first call; cuInit has been called, its answer is in
 * `started`. STG_E_NO_DEVICE when there is no driver (names the files tried) or it is older than
 * 12.0. Any thread.
 */
STG_NODISCARD stg_status stg_driver_get(const struct stg_driver **ret_driver, stg_error *reterr);

/** "CUDA_ERROR_X" and what it means; static text, never NULL. */
const char *stg_driver_error_name(const struct stg_driver *driver, CUresult result);
const char *stg_driver_error_text(const struct stg_driver *driver, CUresult result);

#endif

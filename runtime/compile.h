/*
 * compile.h: NVRTC behind dlopen: source text to cubin.
 *
 * The library is loaded on the first call that needs it, once per process, and never unloaded.
 */
#ifndef STG_RUNTIME_COMPILE_H
#define STG_RUNTIME_COMPILE_H

#include <stdbool.h>

#include "runtime/base/log.h"
#include "runtime/kernel.h"

/* What was found. `path` is static text of the process. */
struct stg_nvrtc_info {
  const char *path;
  char compiler[STG_COMPILER_CHARS]; /* "nvrtc-13.0.88" */
  int major, minor, build;
};

/**
 * Load NVRTC if needed and say which. STG_E_NO_DEVICE names the files that were tried and the
 * remedy. Any thread.
 */
STG_NODISCARD stg_status stg_nvrtc_info(struct stg_nvrtc_info *ret_info, stg_error *reterr);
/** True when NVRTC has been loaded in this process: a cache hit must leave it false. */
bool stg_nvrtc_is_loaded(void);
/**
 * The compiler string, if it is known without a compile and without loading anything; false (and
 * `ret` untouched) otherwise. It is known once this process has compiled a kernel.
 */
bool stg_nvrtc_known_compiler(char ret[STG_COMPILER_CHARS]);
/** Architectures that the loaded NVRTC knows, ascending (90 for sm_90). `ret` holds up to
 * `capacity`. */
STG_NODISCARD stg_status stg_nvrtc_archs(int *ret, size_t capacity, size_t *ret_count,
                                         stg_error *reterr);

/**
 * Compile one kernel to a cubin. Always passes --gpu-architecture, --std=c++17, --fmad=false,
 * --modify-stack-limit=false and --no-cache (12.9 and later) before the request's options, which
 * must not repeat them (NVRTC 12 refuses that). An option that begins with "env:" is part of the
 * key only: NVRTC reads it from the environment. STG_E_COMPILE carries the first diagnostic; the
 * whole log (error) and the numbered source (debug) go to `log`. STG_E_UNSUPPORTED names the
 * architectures that this NVRTC knows. STG_E_NO_DEVICE: NVRTC or its builtins library is missing.
 * STG_E_CANCELLED soon after the request's flag is set, where this NVRTC can be stopped (it has
 * nvrtcSetFlowCallback); another one compiles to the end first, and the result is dropped. So it is
 * when the process ends, which waits for that.
 * Says in the log (info) of each call which thread was in NVRTC, and from when to when, in seconds
 * of CLOCK_MONOTONIC; likewise, once in the process, of the library's load:
 *   "nvrtc: load on thread 71 from 12.000000000 to 12.300000000 (300.0 ms): PATH"
 *   "nvrtc: compile KEY on thread 71 from 12.300000000 to 12.600000000 (300.0 ms): SIGNATURE"
 * with ", STATUS" behind the duration of a compile that failed. Any thread; compiles run in
 * parallel.
 */
STG_NODISCARD stg_status stg_compile(const struct stg_kernel_request *request,
                                     const struct stg_log *log, struct stg_kernel_image *ret_image,
                                     stg_error *reterr);

#endif

/*
 * nvrtc.h: NVRTC behind dlopen: one table of entry points for the process, and which it is.
 *
 * Private to nvrtc.c, nvrtc_facts.c and compile.c (it includes the toolkit's nvrtc.h).
 */
#ifndef STG_RUNTIME_NVRTC_H
#define STG_RUNTIME_NVRTC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <nvrtc.h>

#include "runtime/base/error.h"
#include "runtime/kernel.h"

#define STG_NVRTC_BUILD_UNKNOWN (-1)

struct stg_nvrtc {
#define STG_NVRTC_FN(need, type, member, symbol, parameters) type(*member) parameters;
#include "runtime/nvrtc_api.def"
#undef STG_NVRTC_FN
  int major, minor;
  atomic_int build;    /* STG_NVRTC_BUILD_UNKNOWN until something was compiled */
  char *path;          /* file it was loaded from */
  char builtins[48];   /* file name of the library it needs beside it */
  bool builtins_found; /* and whether that was loaded */
};

/**
 * The process's table, loaded on the first call and never unloaded. STG_E_NO_DEVICE names the files
 * tried and the remedy. Any thread.
 */
STG_NODISCARD stg_status stg_nvrtc_get(struct stg_nvrtc **ret_nvrtc, stg_error *reterr);

/* When, and by which thread of the system, the library was loaded. */
struct stg_nvrtc_load {
  long thread;
  uint64_t from_ns, to_ns; /* of stg_clock_ns */
};
/** True for the first call after it was loaded, so that one log says it. Any thread. */
bool stg_nvrtc_take_load(struct stg_nvrtc_load *ret_load);

/**
 * Before and after all calls that concern a program. A process that ends waits for those inside,
 * which stg_nvrtc_is_ending tells to give up: NVRTC's own data must not go from under them. False:
 * the process ends, do not call.
 */
STG_NODISCARD bool stg_nvrtc_enter(void);
void stg_nvrtc_leave(void);
bool stg_nvrtc_is_ending(void);
/** Be ahead of destructors that NVRTC has registered by now. For its callbacks, and after a
 * compile.
 */
void stg_nvrtc_stay_ahead(void);

/**
 * nvrtcCompileProgram with Ctrl-C put off: NVRTC has handlers of its own for SIGINT and SIGTERM
 * meanwhile, which end the process with status 4 or lose the signal.
 */
nvrtcResult stg_nvrtc_compile(const struct stg_nvrtc *nvrtc, nvrtcProgram program, int n_options,
                              const char *const *options);

/** True when the version is at least major.minor. */
bool stg_nvrtc_since(const struct stg_nvrtc *nvrtc, int major, int minor);

/**
 * Learn the build number, if it is not known yet, from a compiled program's PTX ("V13.0.88"), which
 * NVRTC keeps beside the cubin: free, where asking for __CUDACC_VER_BUILD__ would be a compile.
 */
STG_NODISCARD stg_status stg_nvrtc_learn_build(struct stg_nvrtc *nvrtc, nvrtcProgram program,
                                               stg_error *reterr);
/** "nvrtc-13.0.88"; the build number must have been learnt. */
void stg_nvrtc_print_compiler(const struct stg_nvrtc *nvrtc, char ret[STG_COMPILER_CHARS]);

/** The architectures that it knows, ascending, 90 for sm_90; `*ret_archs` is stg_free'd. */
STG_NODISCARD stg_status stg_nvrtc_list_archs(const struct stg_nvrtc *nvrtc, int **ret_archs,
                                              size_t *ret_count, stg_error *reterr);
/**
 * STG_E_NO_MEMORY or STG_E_COMPILE: "`call` of NVRTC 13.0 failed: NVRTC_ERROR_X"; STG_E_NO_DEVICE
 * with file and remedy when the builtins library is missing.
 */
stg_status stg_nvrtc_fail(const struct stg_nvrtc *nvrtc, nvrtcResult result, const char *call,
                          stg_error *reterr);

#endif

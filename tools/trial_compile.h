/*
 * trial_compile.h: does compiling work here? The one answer that counts is a kernel that compiled.
 */
#ifndef STG_TOOLS_TRIAL_COMPILE_H
#define STG_TOOLS_TRIAL_COMPILE_H

#include "runtime/base/error.h"

struct stg_trial {
  char compiler[32]; /* "nvrtc-13.0.88" */
  double compile_ms;
};

/**
 * Compile a small kernel, of one op, for `arch` into a cache of its own, in a temporary folder that
 * is removed again.
 */
STG_NODISCARD stg_status stg_trial_compile(const char *arch, struct stg_trial *ret_trial,
                                           stg_error *reterr);

#endif

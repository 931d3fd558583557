/*
 * steer_env.h: one engine for a group of steer tests, on the CPU or on CUDA.
 *
 * The case groups are written once against the public API and take the backend from here: a group's
 * setup puts a steer_env into cmocka's state, and every test of the group finds it there.
 */
#ifndef STG_TESTS_SUPPORT_STEER_ENV_H
#define STG_TESTS_SUPPORT_STEER_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/hostmem.h"

struct steer_env {
  stg_engine *engine;
  bool cuda;
  bool quick;             /* STG_TEST_QUICK=1: smaller sweeps, for runs under a sanitizer */
  const char *cache_path; /* STG_TEST_CACHE_DIR, or the folder below; NULL on the CPU */
  void *folder;           /* gone with the group */
};

/* Group fixtures. Closing fails when a test left a table or a vector behind. */
int steer_env_cpu(void **state);
int steer_env_cuda(void **state);
int steer_env_close(void **state);

/** A further engine with other options (launch, compile, cache); the caller destroys it. */
stg_engine *steer_engine(const stg_options *options);
void steer_engine_close(stg_engine *engine);
stg_stats steer_engine_stats(const stg_engine *engine);

/** Fail the test unless `status` is `wanted`, showing the message that came with it. */
void expect_status(stg_status wanted, stg_status status, const stg_error *error);
/** The same, and the message must hold `part`. */
void expect_error(stg_status wanted, const char *part, stg_status status, const stg_error *error);

#endif

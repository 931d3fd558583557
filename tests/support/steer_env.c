/*
 * steer_env.c: engines for tests.
 */
#include "tests/support/steer_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/support/quick.h"
#include "tests/support/temp_folder.h"

void expect_status(stg_status wanted, stg_status status, const stg_error *error) {
  if (status != wanted) {
    fail_msg("%s instead of %s: %s", stg_status_name(status), stg_status_name(wanted),
             error->message);
  }
}

void expect_error(stg_status wanted, const char *part, stg_status status, const stg_error *error) {
  expect_status(wanted, status, error);
  assert_int_equal(wanted, error->code);
  if (strstr(error->message, part) == NULL) {
    fail_msg("no '%s' in '%s'", part, error->message);
  }
}

stg_engine *steer_engine(const stg_options *options) {
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = NULL;
  expect_status(STG_OK, stg_engine_create(options, &engine, &error), &error);
  assert_non_null(engine);
  return engine;
}

/* Kernels go to a folder, so that tables of one geometry compile once in a group. */
static const char *cache_folder(struct steer_env *env) {
  const char *kept = getenv("STG_TEST_CACHE_DIR");
  if (kept != NULL && kept[0] != '\0') {
    return kept;
  }
  assert_int_equal(0, temp_folder_setup(&env->folder));
  return env->folder;
}

static int open_env(void **state, stg_backend backend) {
  struct steer_env *env = stg_calloc(1, sizeof *env);
  stg_options options;
  assert_non_null(env);
  env->cuda = backend == STG_BACKEND_CUDA;
  env->quick = test_is_quick();
  stg_options_init(&options);
  options.backend = backend;
  env->cache_path = env->cuda ? cache_folder(env) : NULL;
  options.cache_path = env->cache_path;
  options.pack_path = "";              /* what is installed is not under test */
  options.compile = STG_COMPILE_BLOCK; /* so that a plan is what was declared, at once */
  env->engine = steer_engine(&options);
  *state = env;
  return 0;
}

int steer_env_cpu(void **state) {
  return open_env(state, STG_BACKEND_CPU);
}

int steer_env_cuda(void **state) {
  return open_env(state, STG_BACKEND_CUDA);
}

void steer_engine_close(stg_engine *engine) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_engine_destroy(engine, &error), &error);
}

stg_stats steer_engine_stats(const stg_engine *engine) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  return stats;
}

int steer_env_close(void **state) {
  struct steer_env *env = *state;
  stg_error error = STG_ERROR_INIT;
  const stg_stats stats = steer_engine_stats(env->engine);
  if (stats.vectors_live != 0) {
    fprintf(stderr, "%llu vectors are still interned\n", (unsigned long long)stats.vectors_live);
    return -1;
  }
  if (stg_engine_destroy(env->engine, &error) != STG_OK) {
    fprintf(stderr, "%s\n", error.message);
    return -1;
  }
  int failed = env->folder != NULL ? temp_folder_teardown(&env->folder) : 0;
  stg_free(env);
  return failed;
}

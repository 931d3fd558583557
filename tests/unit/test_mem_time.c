/*
 * test_mem_time.c: timing of any work: how often it is done, and what ends it. On the CPU; the GPU
 * suite times applies by the same loop.
 */
#include "engine/hostmem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <steergraph/engine.h>

#include "runtime/base/error.h"

#define UNTOUCHED (-1.0)

struct work {
  unsigned calls, fails_at; /* 0: never */
};

static stg_status do_it(void *user, stg_stream stream, stg_error *reterr) {
  struct work *work = user;
  assert_null(stream);
  work->calls++;
  return work->calls != work->fails_at
             ? STG_OK
             : stg_error_set(reterr, STG_E_IO, "call %u failed: a test said so", work->calls);
}

static stg_engine *open_engine(void) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_mode = STG_CACHE_OFF;
  assert_int_equal(STG_OK, stg_engine_create(&options, &engine, NULL));
  return engine;
}

static void repeats_are_timed_and_the_warm_up_is_not(void **state) {
  (void)state;
  stg_engine *engine = open_engine();
  struct work work = {0};
  double us[4] = {UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_mem_time_work(engine, do_it, &work, 2, 3, us, &error));
  assert_int_equal(5, work.calls);
  for (int i = 0; i < 3; i++) {
    assert_true(us[i] >= 0);
  }
  assert_true(us[3] == UNTOUCHED);
  assert_int_equal(STG_OK, stg_engine_destroy(engine, NULL));
}

static void the_first_failure_ends_it(void **state) {
  (void)state;
  stg_engine *engine = open_engine();
  struct work work = {.fails_at = 3};
  double us[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_IO, stg_mem_time_work(engine, do_it, &work, 1, 3, us, &error));
  assert_string_equal("call 3 failed: a test said so", error.message);
  assert_int_equal(3, work.calls);
  assert_true(us[0] >= 0 && us[1] == UNTOUCHED);
  assert_int_equal(STG_OK, stg_engine_destroy(engine, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(repeats_are_timed_and_the_warm_up_is_not),
      cmocka_unit_test(the_first_failure_ends_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

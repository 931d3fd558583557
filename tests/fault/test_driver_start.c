/*
 * test_driver_start.c: a driver that is there and does not start, on the stub. Each case in a
 * process of its own: the library asks once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fault/driver_bed.h"
#include "tests/support/test_fork.h"

/* In a child, where the driver was not asked for anything yet. 0: as it should be. */
static int start(size_t nth, stg_backend backend, stg_status wanted, const char *part) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = backend;
  options.cache_mode = STG_CACHE_OFF;
  stub.fail_at(nth, CUDA_ERROR_OUT_OF_MEMORY, false);
  const stg_status status = stg_engine_create(&options, &engine, &error);
  stg_engine_info info = {.struct_size = sizeof info};
  if (status == STG_OK) {
    stg_engine_get_info(engine, &info);
  }
  const char *text = status == STG_OK ? info.reason : error.message;
  if (status != wanted || strstr(text, part) == NULL) {
    fprintf(stderr, "%s: %s\n", stg_status_name(status), text);
    return 1;
  }
  return stg_engine_destroy(engine, NULL) == STG_OK ? 0 : 1;
}

static void a_driver_that_does_not_start_is_no_device(void **state) {
  static const struct {
    size_t nth;
    stg_backend backend;
    stg_status status;
    const char *part;
  } cases[] = {
      {1, STG_BACKEND_CUDA, STG_E_NO_DEVICE, "cuInit of driver 13.0 answered CUDA_ERROR_OUT_OF_ME"},
      {1, STG_BACKEND_AUTO, STG_OK, "cpu backend: no CUDA device: cuInit"},
      {2, STG_BACKEND_CUDA, STG_OK, "cuda backend: stub of a GPU (sm_90), driver 0.0"},
      {0, STG_BACKEND_AUTO, STG_OK, "cuda backend: stub of a GPU (sm_90), driver 13.0"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int result = 0;
    const pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
      _exit(start(cases[i].nth, cases[i].backend, cases[i].status, cases[i].part));
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_driver_that_does_not_start_is_no_device),
  };
  return cmocka_run_group_tests(tests, open_stubs, NULL);
}

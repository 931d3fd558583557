/*
 * test_driver_release.c: the driver's release is found in what the kernel's module says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/driver_release.h"

static bool find(void **state, const char *text, char *ret, size_t size) {
  const char *path = temp_path(state, "version");
  assert_int_equal(STG_OK, stg_file_write_atomic(path, text, strlen(text), 0644, NULL));
  return stg_bench_driver_release(path, ret, size);
}

static void finds_the_release_of_both_modules(void **state) {
  char release[32] = "";
  assert_true(find(state,
                   "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release "
                   "Build  (dvs-builder@U22)  Tue Nov 10 2026\nGCC version:  gcc version 12.3.0\n",
                   release, sizeof release));
  assert_string_equal("580.159.04", release);
  assert_true(find(state, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54\n", release,
                   sizeof release));
  assert_string_equal("535.54", release);
}

static void writes_nothing_where_there_is_none(void **state) {
  char release[32] = "before";
  assert_false(find(state, "", release, sizeof release));
  assert_false(find(state, "NVRM version: 580 580. .5 5x.1 in 2026\n", release, sizeof release));
  assert_false(find(state, "580.159.04", release, sizeof "580.159.04" - 1));
  assert_false(stg_bench_driver_release(temp_path(state, "absent"), release, sizeof release));
  assert_string_equal("before", release);
  assert_true(find(state, "580.159.04", release, sizeof "580.159.04"));
  assert_string_equal("580.159.04", release);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(finds_the_release_of_both_modules, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(writes_nothing_where_there_is_none, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

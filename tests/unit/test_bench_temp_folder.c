/*
 * test_bench_temp_folder.c: a temporary folder is new, empty, and gone with all that is in it.
 */
#include "tools/bench/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"

static int setup(void **state) {
  const int failed = temp_folder_setup(state);
  return failed != 0 ? failed : setenv("TMPDIR", *state, 1);
}

static int teardown(void **state) {
  unsetenv("TMPDIR");
  return temp_folder_teardown(state);
}

static char *make(void) {
  char *path = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_bench_temp_folder_make(&path, &err));
  return path;
}

static void put(const char *folder, const char *name) {
  char *path = stg_path_join(folder, name);
  stg_error err = STG_ERROR_INIT;
  assert_non_null(path);
  assert_int_equal(STG_OK, stg_file_write_atomic(path, "x", 1, 0600, &err));
  stg_free(path);
}

static void two_folders_are_two_and_under_tmpdir(void **state) {
  stg_error err = STG_ERROR_INIT;
  char *one = make();
  char *two = make();
  assert_string_not_equal(one, two);
  assert_memory_equal(one, *state, strlen(*state));
  assert_int_equal(0, rmdir(two)); /* it was empty */
  assert_int_equal(STG_OK, stg_bench_temp_folder_remove(one, &err));
  stg_free(one);
  stg_free(two);
}

static void all_that_is_in_it_goes_and_what_it_points_at_stays(void **state) {
  stg_error err = STG_ERROR_INIT;
  char *folder = make();
  char *deep = stg_path_join(folder, "v1/ab");
  char *link = stg_path_join(folder, "link");
  assert_non_null(deep);
  assert_non_null(link);
  put(*state, "outside");
  assert_int_equal(STG_OK, stg_mkdir_all(deep, 0700, &err));
  put(deep, "entry");
  put(folder, "stats");
  assert_int_equal(0, symlink(*state, link));
  assert_int_equal(STG_OK, stg_bench_temp_folder_remove(folder, &err));
  assert_int_not_equal(0, access(folder, F_OK));
  assert_int_equal(0, access(temp_path(state, "outside"), F_OK));
  stg_free(deep);
  stg_free(link);
  stg_free(folder);
}

static void a_folder_that_cannot_be_made_or_removed_is_named(void **state) {
  stg_error err = STG_ERROR_INIT;
  char *path = NULL;
  const char *missing = temp_path(state, "missing");
  assert_int_equal(0, setenv("TMPDIR", missing, 1));
  assert_int_equal(STG_E_IO, stg_bench_temp_folder_make(&path, &err));
  assert_null(path);
  assert_non_null(strstr(err.message, missing));
  assert_int_equal(STG_E_IO, stg_bench_temp_folder_remove(missing, &err));
  assert_non_null(strstr(err.message, "remove the temporary folder"));
  assert_int_equal(0, setenv("TMPDIR", *state, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_folders_are_two_and_under_tmpdir),
      cmocka_unit_test(all_that_is_in_it_goes_and_what_it_points_at_stays),
      cmocka_unit_test(a_folder_that_cannot_be_made_or_removed_is_named),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

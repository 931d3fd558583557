/*
 * test_engine_pack.c: the pack that an engine is given, or not, and what it says of it.
 *
 * What it finds there is tests/nvrtc/test_pack.c.
 */
#include <steergraph/engine.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/log_lines.h"
#include "tests/support/pack_fixture.h"
#include "tests/support/temp_folder.h"

static stg_status open_engine(const char *cache_path, const char *pack_path, stg_cache_mode mode,
                              struct log_lines *lines, stg_error *err) {
  stg_options options;
  stg_engine *engine = NULL;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_path = cache_path;
  options.pack_path = pack_path;
  options.cache_mode = mode;
  options.log = log_lines_add;
  options.log_user = lines;
  options.log_level = STG_LOG_WARN;
  stg_status status = stg_engine_create(&options, &engine, err);
  if (status == STG_OK) {
    assert_int_equal(stg_engine_destroy(engine, NULL), STG_OK);
  }
  return status;
}

static void takes_a_good_pack_in_silence(void **state) {
  const char *pack = temp_path(state, "a.sgp");
  struct stg_kernel_request request = fixture_request();
  struct log_lines lines = {0};
  pack_of_one(pack, &request, "nvrtc-13.0.88");
  assert_int_equal(open_engine(NULL, pack, STG_CACHE_DEFAULT, &lines, NULL), STG_OK);
  assert_int_equal(open_engine(*state, pack, STG_CACHE_DEFAULT, &lines, NULL), STG_OK);
  assert_int_equal(open_engine(NULL, "", STG_CACHE_DEFAULT, &lines, NULL), STG_OK);
  assert_int_equal(lines.count, 0);
}

static void needs_no_installed_pack(void **state) {
  (void)state;
  struct log_lines lines = {0};
  assert_int_equal(open_engine(NULL, NULL, STG_CACHE_DEFAULT, &lines, NULL), STG_OK);
  assert_int_equal(lines.count, 0);
}

static void warns_once_of_a_bad_pack_and_works(void **state) {
  const char *pack = temp_path(state, "a.sgp");
  struct log_lines lines = {0};
  pack_put(pack, "STGPACKS and no more", 20);
  assert_int_equal(open_engine(NULL, pack, STG_CACHE_DEFAULT, &lines, NULL), STG_OK);
  assert_int_equal(lines.level[0], STG_LOG_WARN);
  assert_non_null(strstr(log_lines_take_one(&lines), "/a.sgp': 20 bytes, a pack has at least 64"));
  assert_int_equal(open_engine(NULL, *state, STG_CACHE_DEFAULT, &lines, NULL), STG_OK);
  assert_non_null(strstr(log_lines_take_one(&lines), "is not a file; passed over"));
  assert_int_equal(open_engine(NULL, pack, STG_CACHE_OFF, &lines, NULL), STG_OK);
  assert_int_equal(lines.count, 0);
}

static void refuses_a_pack_where_kernels_would_be_stored(void **state) {
  const char *pack = temp_path(state, "a.sgp");
  struct stg_kernel_request request = fixture_request();
  struct log_lines lines = {0};
  stg_error err = STG_ERROR_INIT;
  pack_of_one(pack, &request, "nvrtc-13.0.88");
  assert_int_equal(open_engine(pack, "", STG_CACHE_DEFAULT, &lines, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "put a folder after a pack, as in PACK:FOLDER"));
  assert_int_equal(open_engine(pack, "", STG_CACHE_REFRESH, &lines, &err), STG_E_INVALID);
  assert_int_equal(open_engine(pack, "", STG_CACHE_READ_ONLY, &lines, &err), STG_OK);
  assert_int_equal(open_engine(pack, "", STG_CACHE_MEMORY, &lines, &err), STG_OK);
}

static void memory_alone_asks_nothing_of_folders(void **state) {
  struct log_lines lines = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(chmod(*state, 0777), 0);
  assert_int_equal(open_engine(*state, "", STG_CACHE_DEFAULT, &lines, &err), STG_E_INVALID);
  assert_int_equal(open_engine(*state, "", STG_CACHE_MEMORY, &lines, &err), STG_OK);
  assert_int_equal(open_engine(NULL, "", STG_CACHE_MEMORY, &lines, &err), STG_OK);
  assert_int_equal(lines.count, 0);
}

static void a_mode_that_is_none_is_refused(void **state) {
  struct log_lines lines = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(open_engine(*state, "", (stg_cache_mode)5, &lines, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "cache_mode 5"));
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(takes_a_good_pack_in_silence),
      IN_FOLDER(needs_no_installed_pack),
      IN_FOLDER(warns_once_of_a_bad_pack_and_works),
      IN_FOLDER(refuses_a_pack_where_kernels_would_be_stored),
      IN_FOLDER(memory_alone_asks_nothing_of_folders),
      IN_FOLDER(a_mode_that_is_none_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

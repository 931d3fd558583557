/*
 * test_cache_export.c: entries of cache folders and packs into a pack, all or nothing.
 */
#include <steergraph/cache.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/shipped_entries.h"
#include "tests/support/temp_folder.h"

static void exports_the_bytes_of_the_files_in_whatever_order(void **state) {
  static const size_t orders[][SHIPPED] = {{0, 1, 2}, {2, 0, 1}};
  char packs[2][512];
  shipped_fill(temp_path(state, "c"));
  stg_cache *cache = shipped_open(temp_path(state, "c"));
  for (size_t i = 0; i < 2; i++) {
    struct stat info;
    stg_cache_export_result result = {.struct_size = sizeof result};
    snprintf(packs[i], sizeof packs[i], "%s", temp_path(state, i == 0 ? "a.sgp" : "b.sgp"));
    assert_int_equal(stg_cache_export(cache, orders[i], SHIPPED, packs[i], NULL, &result, NULL),
                     STG_OK);
    assert_int_equal(result.entries, SHIPPED);
    assert_int_equal(stat(packs[i], &info), 0);
    assert_int_equal(info.st_size, result.bytes);
    assert_int_equal(info.st_mode & 0777, 0644);
  }
  stg_cache_close(cache);
  shipped_assert_same_files(packs[0], packs[1]);
  assert_int_equal(stg_cache_import(temp_path(state, "d"), packs[0], NULL, NULL, NULL), STG_OK);
  for (size_t i = 0; i < SHIPPED; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s", shipped_path(temp_path(state, "c"), i));
    shipped_assert_same_files(path, shipped_path(temp_path(state, "d"), i));
  }
}

static void exports_what_two_layers_have_once_and_what_was_read_stays_read(void **state) {
  const size_t indices[] = {0, 1, 2, 3, 4, 5, 0};
  char list[1100];
  stg_cache_entry entry;
  stg_cache_export_result result = {.struct_size = sizeof result};
  shipped_fill(temp_path(state, "c"));
  shipped_pack(temp_path(state, "b.sgp"));
  snprintf(list, sizeof list, "%s:%s", temp_path(state, "b.sgp"), temp_path(state, "c"));
  stg_cache *cache = shipped_open(list);
  assert_int_equal(stg_cache_count(cache), 2 * SHIPPED);
  assert_int_equal(stg_cache_get(cache, 0, &entry, NULL), STG_OK);
  assert_int_equal(
      stg_cache_export(cache, indices, 7, temp_path(state, "a.sgp"), NULL, &result, NULL), STG_OK);
  assert_int_equal(result.entries, SHIPPED);
  assert_memory_equal(entry.source, "// prelude\n", 11);
  stg_cache_close(cache);
  assert_int_equal(shipped_count(temp_path(state, "a.sgp")), SHIPPED);
}

static void exports_nothing_when_an_entry_is_bad(void **state) {
  const size_t indices[] = {0, 1, 2};
  stg_error err = STG_ERROR_INIT;
  shipped_fill(temp_path(state, "c"));
  pack_put(temp_path(state, "a.sgp"), "as it was", 9);
  stg_cache *cache = shipped_open(temp_path(state, "c"));
  assert_true(temp_flip_byte(shipped_path(temp_path(state, "c"), 2), 1000));
  assert_int_equal(unlink(shipped_path(temp_path(state, "c"), 1)), 0); /* after it was listed */
  assert_int_equal(stg_cache_export(cache, indices, 3, temp_path(state, "a.sgp"), NULL, NULL, &err),
                   STG_E_CORRUPT);
  assert_non_null(strstr(err.message, "no pack is written: of 3 entries 2 cannot be shipped"));
  assert_non_null(strstr(err.message, "--repair"));
  assert_non_null(strstr(err.message, temp_path(state, "c/v1/")));
  assert_int_equal(
      stg_cache_export(cache, indices, 3, temp_path(state, "new.sgp"), NULL, NULL, NULL),
      STG_E_CORRUPT);
  stg_cache_close(cache);
  assert_int_equal(access(temp_path(state, "new.sgp"), F_OK), -1);
  struct stg_strbuf bytes = shipped_bytes(temp_path(state, "a.sgp"));
  assert_string_equal(stg_strbuf_text(&bytes), "as it was");
  stg_strbuf_finish(&bytes);
}

static void says_what_is_wrong_with_an_export(void **state) {
  const size_t indices[] = {0, 3};
  char pack[512];
  stg_error err = STG_ERROR_INIT;
  stg_cache_export_result result = {.struct_size = 1};
  shipped_fill(temp_path(state, "c"));
  snprintf(pack, sizeof pack, "%s", temp_path(state, "a.sgp"));
  stg_cache *cache = shipped_open(temp_path(state, "c"));
  assert_int_equal(stg_cache_export(cache, indices, 0, pack, NULL, NULL, &err), STG_E_INVALID);
  assert_string_equal(err.message, "no entry was chosen, so no pack is written");
  assert_int_equal(stg_cache_export(cache, indices, 2, pack, NULL, NULL, &err), STG_E_INVALID);
  assert_string_equal(err.message, "no cache entry 3, the cache has 3");
  assert_int_equal(stg_cache_export(cache, indices, 1, pack, NULL, &result, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "a struct_size is not "));
  assert_int_equal(stg_cache_export(cache, NULL, 1, pack, NULL, NULL, NULL), STG_E_INVALID);
  assert_int_equal(stg_cache_export(NULL, indices, 1, pack, NULL, NULL, NULL), STG_E_INVALID);
  assert_int_equal(stg_cache_export(cache, indices, 1, NULL, NULL, NULL, NULL), STG_E_INVALID);
  assert_int_equal(access(pack, F_OK), -1);
  assert_int_equal(stg_cache_export(cache, indices, 1, *state, NULL, NULL, &err), STG_E_IO);
  assert_int_equal(
      stg_cache_export(cache, indices, 1, temp_path(state, "none/a.sgp"), NULL, NULL, &err),
      STG_E_IO);
  assert_non_null(strstr(err.message, "none"));
  stg_cache_close(cache);
}

static void it_says_how_far_it_has_come(void **state) {
  static const size_t indices[] = {2, 0};
  struct shipped_seen seen = {0};
  const stg_cache_export_options options = {
      .struct_size = sizeof options, .progress = shipped_see, .user = &seen};
  const stg_cache_export_options old = {.struct_size = 8};
  stg_error err = STG_ERROR_INIT;
  shipped_fill(temp_path(state, "c"));
  stg_cache *cache = shipped_open(temp_path(state, "c"));
  assert_int_equal(
      stg_cache_export(cache, indices, 2, temp_path(state, "a.sgp"), &options, NULL, NULL), STG_OK);
  assert_int_equal(seen.calls, 2);
  assert_int_equal(seen.total, 2);
  assert_int_equal(stg_cache_export(cache, indices, 2, temp_path(state, "a.sgp"), &old, NULL, &err),
                   STG_E_INVALID);
  assert_non_null(strstr(err.message, "stg_cache_export: a struct_size is not "));
  stg_cache_close(cache);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(exports_the_bytes_of_the_files_in_whatever_order),
      IN_FOLDER(exports_what_two_layers_have_once_and_what_was_read_stays_read),
      IN_FOLDER(exports_nothing_when_an_entry_is_bad),
      IN_FOLDER(says_what_is_wrong_with_an_export),
      IN_FOLDER(it_says_how_far_it_has_come),
  };
#undef IN_FOLDER
  return cmocka_run_group_tests(tests, NULL, NULL);
}

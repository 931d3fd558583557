/*
 * test_cache_totals.c: what the public inspector says of layers and of the last folder's totals.
 */
#include <steergraph/cache.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/disk_fixture.h"
#include "tests/support/pack_fixture.h"
#include "tests/support/temp_folder.h"

#define COMPILER "nvrtc-13.0.88"

static stg_cache *open_cache(const char *path_list) {
  stg_cache *cache = NULL;
  assert_int_equal(stg_cache_open(path_list, &cache, NULL), STG_OK);
  return cache;
}

static stg_cache_layer layer_of(stg_cache *cache, size_t index) {
  stg_cache_layer layer = {.struct_size = sizeof layer};
  assert_int_equal(stg_cache_layer_get(cache, index, &layer, NULL), STG_OK);
  return layer;
}

static void put(void **state, const char *name, size_t size, int64_t age_s) {
  const struct timespec stamps[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};
  char *folder = stg_path_folder(temp_path(state, name));
  assert_int_equal(stg_mkdir_all(folder, 0700, NULL), STG_OK);
  stg_free(folder);
  char *bytes = stg_calloc(size, 1);
  assert_int_equal(stg_file_write_atomic(temp_path(state, name), bytes, size, 0600, NULL), STG_OK);
  stg_free(bytes);
  assert_int_equal(utimensat(AT_FDCWD, temp_path(state, name), stamps, 0), 0);
}

static void a_folder_is_counted_by_names(void **state) {
  put(state, "v1/01/0123456789abcdef0123456789abcdef-nvrtc-13.0.88.sgc", 1000, 500);
  put(state, "v1/01/0123456789abcdef0123456789abcdef-nvrtc-12.4.127.sgc", 500, 900);
  put(state, "v1/01/notes", 7000, 9000);
  put(state, "v1/graphs/0123456789abcdef0123456789abcdef-0123456789abcdef0123456789abcdef.sgr", 200,
      9000);
  put(state, "v1/tmp/x.tmp", 30, 9000);
  put(state, "v1/quarantine/bad", 4, 9000);
  put(state, "v1/stats", 144, 9000);
  stg_cache *cache = open_cache(*state);
  assert_int_equal(stg_cache_layer_count(cache), 1);
  const stg_cache_layer layer = layer_of(cache, 0);
  assert_string_equal(layer.path, *state);
  assert_false(layer.is_pack);
  assert_true(layer.is_last);
  assert_int_equal(layer.entries, 2);
  assert_int_equal(layer.graphs, 1);
  assert_int_equal(layer.temporary, 1);
  assert_int_equal(layer.quarantined, 1);
  assert_int_equal(layer.entry_bytes, 1500);
  assert_int_equal(layer.bytes, 1734);
  assert_in_range(time(NULL) - layer.oldest_unix, 899, 960);
  stg_cache_close(cache);
}

static void the_layers_of_a_list_are_told_apart(void **state) {
  char pack[512], list[1200];
  struct stat info;
  struct stg_kernel_request request = fixture_request();
  snprintf(pack, sizeof pack, "%s", temp_path(state, "k.sgp"));
  snprintf(list, sizeof list, "%s:%s", pack, temp_path(state, "rw"));
  pack_of_one(pack, &request, COMPILER);
  assert_int_equal(stat(pack, &info), 0);
  stg_cache *cache = open_cache(list);
  assert_int_equal(stg_cache_layer_count(cache), 2);
  const stg_cache_layer first = layer_of(cache, 0);
  assert_string_equal(first.path, pack);
  assert_true(first.is_pack);
  assert_false(first.is_last);
  assert_int_equal(first.entries, 1);
  assert_int_equal(first.bytes, info.st_size);
  assert_int_equal(first.oldest_unix, 0);
  const stg_cache_layer last = layer_of(cache, 1);
  assert_string_equal(last.path, temp_path(state, "rw"));
  assert_false(last.is_pack);
  assert_true(last.is_last);
  assert_int_equal(last.entries, 0);
  assert_int_equal(last.bytes, 0);
  assert_int_equal(last.oldest_unix, 0);
  stg_cache_close(cache);
}

static void the_totals_are_those_of_the_last_folder(void **state) {
  char list[1200];
  stg_cache_totals totals = {.struct_size = sizeof totals};
  stg_error error = STG_ERROR_INIT;
  struct stg_kernel_request request = fixture_request();
  disk_fill(temp_path(state, "a"), &request, COMPILER);
  snprintf(list, sizeof list, "%s:%s", temp_path(state, "a"), temp_path(state, "b"));
  stg_cache *cache = open_cache(list);
  assert_int_equal(stg_cache_read_totals(cache, &totals, &error), STG_E_NOT_FOUND);
  assert_non_null(strstr(error.message, "/b/v1/stats'"));
  struct stg_disk_cache *disk = disk_open(list, STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(disk, &request, NULL), COMPILER);
  request.source = "// other\n";
  assert_string_equal(disk_found(disk, &request, NULL), "miss");
  assert_int_equal(disk_store(disk, &request, COMPILER), STG_OK);
  stg_disk_cache_note(disk, &(struct stg_disk_work){
                                .compiles = 2, .compile_us = 3, .load_us = 4, .memory_hits = 5});
  stg_disk_cache_close(disk);
  assert_int_equal(stg_cache_read_totals(cache, &totals, &error), STG_OK);
  assert_in_range(time(NULL) - totals.since_unix, 0, 60);
  assert_int_equal(totals.runs, 1);
  assert_int_equal(totals.disk_hits, 1);
  assert_int_equal(totals.pack_hits, 0);
  assert_int_equal(totals.misses, 1);
  assert_int_equal(totals.stores, 1);
  assert_int_equal(totals.store_failures, 0);
  assert_int_equal(totals.compiles, 2);
  assert_int_equal(totals.compile_us, 3);
  assert_int_equal(totals.load_us, 4);
  assert_int_equal(totals.memory_hits, 5);
  stg_cache_close(cache);
}

static void a_pack_has_no_totals(void **state) {
  stg_cache_totals totals = {.struct_size = sizeof totals};
  stg_error error = STG_ERROR_INIT;
  struct stg_kernel_request request = fixture_request();
  pack_of_one(temp_path(state, "k.sgp"), &request, COMPILER);
  stg_cache *cache = open_cache(temp_path(state, "k.sgp"));
  assert_int_equal(stg_cache_read_totals(cache, &totals, &error), STG_E_NOT_FOUND);
  assert_string_equal(error.message, "a pack keeps no statistics");
  stg_cache_close(cache);
}

static void totals_that_are_damaged_or_of_another_version_are_told(void **state) {
  unsigned char bytes[STG_DISK_STATS_BYTES];
  const struct stg_disk_totals sums = {.runs = 1};
  stg_cache_totals totals = {.struct_size = sizeof totals, .runs = 77};
  stg_error error = STG_ERROR_INIT;
  stg_disk_totals_encode(&sums, bytes);
  bytes[8] = 9;
  put(state, "v1/stats", 1, 0);
  const char *path = temp_path(state, "v1/stats");
  stg_cache *cache = open_cache(*state);
  assert_int_equal(stg_cache_read_totals(cache, &totals, &error), STG_E_CORRUPT);
  stg_key_store(stg_key_of(bytes, 128), bytes + 128);
  assert_int_equal(stg_file_write_atomic(path, bytes, sizeof bytes, 0600, NULL), STG_OK);
  assert_int_equal(stg_cache_read_totals(cache, &totals, &error), STG_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "statistics of version 9"));
  assert_int_equal(totals.runs, 77);
  stg_cache_close(cache);
}

static void what_makes_no_sense_is_refused(void **state) {
  stg_cache_layer layer = {.struct_size = sizeof layer};
  stg_cache_totals totals = {.struct_size = 5};
  stg_error error = STG_ERROR_INIT;
  stg_cache *cache = open_cache(*state);
  assert_int_equal(stg_cache_layer_count(NULL), 0);
  assert_int_equal(stg_cache_layer_get(NULL, 0, &layer, &error), STG_E_INVALID);
  assert_int_equal(stg_cache_layer_get(cache, 0, NULL, &error), STG_E_INVALID);
  assert_int_equal(stg_cache_layer_get(cache, 1, &layer, &error), STG_E_INVALID);
  assert_string_equal(error.message, "no cache layer 1, the cache has 1");
  layer.struct_size = 3;
  assert_int_equal(stg_cache_layer_get(cache, 0, &layer, &error), STG_E_INVALID);
  assert_non_null(strstr(error.message, "stg_cache_layer: struct_size is 3"));
  assert_int_equal(stg_cache_read_totals(cache, &totals, &error), STG_E_INVALID);
  assert_non_null(strstr(error.message, "stg_cache_totals: struct_size is 5"));
  assert_int_equal(stg_cache_read_totals(cache, NULL, &error), STG_E_INVALID);
  assert_int_equal(stg_cache_read_totals(NULL, &totals, &error), STG_E_INVALID);
  stg_cache_close(cache);
}

static void the_default_limits_are_those_that_stores_keep_to(void **state) {
  const uint64_t said[] = {STG_CACHE_DEFAULT_BYTES, STG_CACHE_DEFAULT_ENTRIES};
  const uint64_t kept[] = {STG_DISK_DEFAULT_BYTES, STG_DISK_DEFAULT_ENTRIES};
  (void)state;
  assert_memory_equal(said, kept, sizeof said);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_folder_is_counted_by_names),
      IN_FOLDER(the_layers_of_a_list_are_told_apart),
      IN_FOLDER(the_totals_are_those_of_the_last_folder),
      IN_FOLDER(a_pack_has_no_totals),
      IN_FOLDER(totals_that_are_damaged_or_of_another_version_are_told),
      IN_FOLDER(what_makes_no_sense_is_refused),
      cmocka_unit_test(the_default_limits_are_those_that_stores_keep_to),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

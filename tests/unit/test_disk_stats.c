/*
 * test_disk_stats.c: the sums of a cache folder: their bytes, what is counted, when it is added,
 * and what a bad file costs.
 */
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

/* Every sum another number, from 1 on. */
static struct stg_disk_totals numbered(void) {
  struct stg_disk_totals totals = {.since_unix = 1700000000};
  uint64_t next = 1;
#define NUMBER(name) totals.name = next++;
  STG_DISK_TOTALS_LIST(NUMBER)
#undef NUMBER
  return totals;
}

static stg_status read_sums(const char *folder, struct stg_disk_totals *ret, stg_error *reterr) {
  const struct stg_disk_layer layer = {.root = (char *)(uintptr_t)folder};
  return stg_disk_stats_read(&layer, ret, reterr);
}

static struct stg_disk_totals sums_of(const char *folder) {
  struct stg_disk_totals totals;
  assert_int_equal(read_sums(folder, &totals, NULL), STG_OK);
  return totals;
}

static void the_bytes_are_those_of_the_format(void **state) {
  (void)state;
  unsigned char bytes[STG_DISK_STATS_BYTES];
  const struct stg_disk_totals totals = numbered();
  stg_disk_totals_encode(&totals, bytes);
  assert_memory_equal(bytes, "STGSTATS\1\0\0\0\0\0\0\0", 16);
  assert_int_equal(stg_le_load(bytes + 16, 8), 1700000000);
  for (size_t i = 0; i < 13; i++) {
    assert_int_equal(stg_le_load(bytes + 24 + 8 * i, 8), i + 1);
  }
  assert_int_equal(totals.runs, 1);
  assert_int_equal(totals.pack_hits, 4);
  assert_int_equal(totals.load_us, 8);
  assert_int_equal(totals.quarantined, 13);
  assert_true(stg_key_equal(stg_key_load(bytes + 128), stg_key_of(bytes, 128)));
}

static void what_is_written_is_read_back(void **state) {
  (void)state;
  unsigned char bytes[STG_DISK_STATS_BYTES];
  struct stg_disk_totals totals = numbered(), back;
  totals.since_unix = -5;
  totals.compile_us = UINT64_MAX;
  stg_disk_totals_encode(&totals, bytes);
  assert_int_equal(stg_disk_totals_decode(bytes, sizeof bytes, &back, NULL), STG_OK);
  assert_memory_equal(&back, &totals, sizeof back);
}

static void any_other_bytes_are_refused(void **state) {
  (void)state;
  unsigned char bytes[STG_DISK_STATS_BYTES + 1] = {0};
  const struct stg_disk_totals totals = numbered();
  struct stg_disk_totals back = {.runs = 77};
  stg_disk_totals_encode(&totals, bytes);
  for (size_t bit = 0; bit < 8 * (size_t)STG_DISK_STATS_BYTES; bit++) {
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    assert_int_equal(stg_disk_totals_decode(bytes, STG_DISK_STATS_BYTES, &back, NULL),
                     STG_E_CORRUPT);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  for (size_t size = 0; size <= sizeof bytes; size++) {
    stg_status status = stg_disk_totals_decode(bytes, size, &back, NULL);
    assert_int_equal(status, size == STG_DISK_STATS_BYTES ? STG_OK : STG_E_CORRUPT);
  }
  assert_int_equal(back.runs, 1);
}

/* Change a number of the header and make the checksum right again. */
static stg_status decode_forged(size_t at, unsigned char value, stg_error *reterr) {
  unsigned char bytes[STG_DISK_STATS_BYTES];
  const struct stg_disk_totals totals = numbered();
  struct stg_disk_totals back;
  stg_disk_totals_encode(&totals, bytes);
  bytes[at] = value;
  stg_key_store(stg_key_of(bytes, 128), bytes + 128);
  return stg_disk_totals_decode(bytes, sizeof bytes, &back, reterr);
}

static void another_version_is_told_from_damage(void **state) {
  (void)state;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(decode_forged(8, 2, &error), STG_E_UNSUPPORTED);
  assert_string_equal(error.message, "statistics of version 2 with flags 0, this version reads 1");
  assert_int_equal(decode_forged(12, 4, &error), STG_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "with flags 4"));
  assert_int_equal(decode_forged(8, 1, &error), STG_OK);
}

static void a_sum_stops_at_the_largest_number(void **state) {
  (void)state;
  struct stg_disk_totals totals = numbered();
  struct stg_disk_totals more = numbered();
  more.misses = UINT64_MAX - totals.misses + 1;
  more.stores = UINT64_MAX - totals.stores;
  more.since_unix = 3;
  stg_disk_totals_add(&totals, &more);
  assert_int_equal(totals.misses, UINT64_MAX);
  assert_int_equal(totals.stores, UINT64_MAX);
  assert_int_equal(totals.runs, 2);
  assert_int_equal(totals.quarantined, 26);
  assert_int_equal(totals.since_unix, 1700000000);
}

/* A miss, a store, a hit, and what others note. */
static void work(const char *folder) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_note(cache, &(struct stg_disk_work){.compiles = 1, .compile_us = 1250});
  assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  stg_disk_cache_note(cache, &(struct stg_disk_work){.load_us = 30, .memory_hits = 9});
  stg_disk_cache_close(cache);
}

static void a_cache_adds_what_it_counted_when_it_is_closed(void **state) {
  const char *folder = *state;
  const int64_t before = (int64_t)time(NULL);
  work(folder);
  const struct stg_disk_totals sums = sums_of(folder);
  assert_in_range(sums.since_unix, before, before + 60);
  const struct stg_disk_totals wanted = {.since_unix = sums.since_unix,
                                         .runs = 1,
                                         .memory_hits = 9,
                                         .disk_hits = 1,
                                         .misses = 1,
                                         .compiles = 1,
                                         .compile_us = 1250,
                                         .load_us = 30,
                                         .stores = 1};
  assert_memory_equal(&sums, &wanted, sizeof sums);
}

static void the_next_one_adds_to_it(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  work(folder);
  const int64_t since = sums_of(folder).since_unix;
  for (int i = 0; i < 3; i++) {
    struct stg_disk_cache *cache = disk_open(folder, STG_DISK_REFRESH, NULL);
    assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
    stg_disk_cache_close(cache);
  }
  const struct stg_disk_totals sums = sums_of(folder);
  assert_int_equal(sums.runs, 4);
  assert_int_equal(sums.stores, 4);
  assert_int_equal(sums.misses, 1);
  assert_int_equal(sums.since_unix, since);
  assert_int_equal(count_files(temp_path(state, "v1/tmp")), 0);
  struct stat info;
  assert_int_equal(stat(temp_path(state, "v1/stats"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0600);
}

static void hits_in_packs_are_told_apart(void **state) {
  char pack[512], list[1200];
  struct stg_kernel_request request = fixture_request();
  snprintf(pack, sizeof pack, "%s", temp_path(state, "k.sgp"));
  snprintf(list, sizeof list, "%s:%s", pack, temp_path(state, "rw"));
  pack_of_one(pack, &request, COMPILER);
  work(temp_path(state, "rw")); /* of the folder: one hit, in the folder */
  struct stg_kernel_request other = fixture_request();
  other.source = "// other\n";
  struct stg_disk_cache *cache = disk_open(list, STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &other, NULL), "miss");
  char *entry = disk_entry_path(temp_path(state, "rw"), &request, COMPILER);
  assert_int_equal(unlink(entry), 0);
  stg_free(entry);
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  stg_disk_cache_close(cache);
  const struct stg_disk_totals sums = sums_of(temp_path(state, "rw"));
  assert_int_equal(sums.disk_hits, 2);
  assert_int_equal(sums.pack_hits, 1);
}

static void evicted_and_quarantined_entries_are_counted(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_options options = {.path_list = folder, .max_entries = 1};
  struct stg_disk_cache *cache = NULL;
  disk_fill(folder, &request, COMPILER);
  char *path = disk_entry_path(folder, &request, COMPILER);
  assert_true(temp_flip_byte(path, -1));
  assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  for (int i = 0; i < 3; i++) {
    char source[32];
    snprintf(source, sizeof source, "// kernel %d\n", i);
    request.source = source;
    assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  }
  stg_disk_cache_close(cache);
  const struct stg_disk_totals sums = sums_of(folder);
  assert_int_equal(sums.quarantined, 1);
  assert_true(sums.evictions >= 2);
  assert_true(sums.evicted_bytes > sums.evictions * 1000);
  stg_free(path);
}

static void who_did_nothing_writes_nothing(void **state) {
  const char *folder = *state;
  stg_disk_cache_close(disk_open(folder, STG_DISK_READ_WRITE, NULL));
  assert_int_equal(count_files(folder), 0);
}

/* What asks and finds nothing makes no folder: it might be one that nobody wants. */
static void a_folder_that_is_not_there_is_not_made(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
  assert_int_not_equal(access(temp_path(state, "c"), F_OK), 0);
}

static void modes_that_do_not_write_add_nothing(void **state) {
  static const enum stg_disk_mode modes[] = {STG_DISK_READ_ONLY, STG_DISK_OFF, STG_DISK_PACKS};
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  work(folder);
  const struct stg_disk_totals before = sums_of(folder);
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct stg_disk_cache *cache = disk_open(folder, modes[i], NULL);
    assert_string_equal(disk_found(cache, &request, NULL),
                        modes[i] == STG_DISK_READ_ONLY ? COMPILER : "miss");
    stg_disk_cache_close(cache);
  }
  const struct stg_disk_totals after = sums_of(folder);
  assert_memory_equal(&after, &before, sizeof after);
}

static void a_bad_file_is_set_aside_and_begun_anew(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  struct log_lines lines = {0};
  stg_error error = STG_ERROR_INIT;
  struct stg_disk_totals totals;
  work(folder);
  assert_true(temp_flip_byte(temp_path(state, "v1/stats"), 40));
  assert_int_equal(read_sums(folder, &totals, &error), STG_E_CORRUPT);
  assert_string_equal(error.message, "the checksum of the statistics is wrong");
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  stg_disk_cache_close(cache);
  totals = sums_of(folder);
  assert_int_equal(totals.runs, 1);
  assert_int_equal(totals.disk_hits, 1);
  assert_int_equal(totals.stores, 0);
  assert_int_equal(access(temp_path(state, "v1/quarantine/stats"), F_OK), 0);
  assert_int_equal(lines.level[0], STG_LOG_INFO);
  assert_non_null(strstr(log_lines_take_one(&lines), "/v1/stats' is begun anew: the checksum"));
}

static void a_file_of_another_version_is_left(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  struct log_lines lines = {0};
  unsigned char bytes[STG_DISK_STATS_BYTES];
  const struct stg_disk_totals totals = numbered();
  struct stg_disk_totals back;
  disk_fill(folder, &request, COMPILER);
  stg_disk_totals_encode(&totals, bytes);
  bytes[8] = 2;
  stg_key_store(stg_key_of(bytes, 128), bytes + 128);
  const char *path = temp_path(state, "v1/stats");
  assert_int_equal(stg_file_write_atomic(path, bytes, sizeof bytes, 0600, NULL), STG_OK);
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  stg_disk_cache_close(cache);
  assert_int_equal(read_sums(folder, &back, NULL), STG_E_UNSUPPORTED);
  assert_int_equal(lines.count, 0);
}

/* As if the cache had been open for long: at a store, and never at a hit. */
static void a_minute_after_the_last_time_a_store_adds(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_totals totals;
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, NULL);
  assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  assert_int_equal(read_sums(folder, &totals, NULL), STG_E_NOT_FOUND);
  atomic_fetch_sub(&cache->stats.looked_ns, UINT64_C(61000000000));
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  assert_int_equal(read_sums(folder, &totals, NULL), STG_E_NOT_FOUND);
  assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  totals = sums_of(folder);
  assert_int_equal(totals.runs, 1);
  assert_int_equal(totals.stores, 2);
  assert_int_equal(totals.disk_hits, 1);
  assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  assert_int_equal(sums_of(folder).stores, 2);
  stg_disk_cache_close(cache);
  totals = sums_of(folder);
  assert_int_equal(totals.runs, 1);
  assert_int_equal(totals.stores, 3);
  assert_int_equal(totals.disk_hits, 1);
}

static void nothing_may_be_noted_where_there_is_no_cache(void **state) {
  (void)state;
  stg_disk_cache_note(NULL, &(struct stg_disk_work){.compiles = 1});
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_bytes_are_those_of_the_format),
      cmocka_unit_test(what_is_written_is_read_back),
      cmocka_unit_test(any_other_bytes_are_refused),
      cmocka_unit_test(another_version_is_told_from_damage),
      cmocka_unit_test(a_sum_stops_at_the_largest_number),
      cmocka_unit_test(nothing_may_be_noted_where_there_is_no_cache),
      IN_FOLDER(a_cache_adds_what_it_counted_when_it_is_closed),
      IN_FOLDER(the_next_one_adds_to_it),
      IN_FOLDER(hits_in_packs_are_told_apart),
      IN_FOLDER(evicted_and_quarantined_entries_are_counted),
      IN_FOLDER(who_did_nothing_writes_nothing),
      IN_FOLDER(a_folder_that_is_not_there_is_not_made),
      IN_FOLDER(modes_that_do_not_write_add_nothing),
      IN_FOLDER(a_bad_file_is_set_aside_and_begun_anew),
      IN_FOLDER(a_file_of_another_version_is_left),
      IN_FOLDER(a_minute_after_the_last_time_a_store_adds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_disk_healing.c: a bad entry is a miss with one warning, and is out of the way.
 */
#include "runtime/disk_cache.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cjson_memory.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/temp_folder.h"

/* What happens to a file of `size` bytes: a bit is flipped at `at`, or it is cut there. Negative
 * places count from the end, HALF is in the middle. */
#define HALF 1000000
struct damage {
  enum { CUT, FLIP } kind;
  long at;
};

static void inflict(const struct damage *damage, const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  long at = damage->at < 0 ? (long)info.st_size + damage->at : damage->at;
  at = damage->at == HALF ? (long)info.st_size / 2 : at;
  if (damage->kind == CUT) {
    assert_int_equal(truncate(path, at), 0);
    return;
  }
  assert_true(temp_flip_byte(path, at));
}

static void heals_a_damaged_entry_with_one_warning(void **state) {
  static const struct damage damages[] = {
      {CUT, 0},
      {CUT, HALF},
      {CUT, -1},
      /* magic, version, flags, key, sizes, material, cubin, footer */
      {FLIP, 3},
      {FLIP, 8},
      {FLIP, 12},
      {FLIP, 20},
      {FLIP, 32},
      {FLIP, 70},
      {FLIP, -500},
      {FLIP, -1},
  };
  struct log_lines lines = {0};
  struct stg_disk_counters counters;
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, &lines);
  char *path = disk_entry_path(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
    assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
    inflict(&damages[i], path);
    assert_string_equal(disk_found(cache, &request, NULL), "miss");
    assert_int_equal(lines.level[0], STG_LOG_WARN);
    const char *line = log_lines_take_one(&lines);
    assert_non_null(strstr(line, path));
    assert_non_null(strstr(line, "' is bad: "));
    assert_non_null(strstr(line, "; moved to quarantine"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(count_files(temp_path(state, "c/v1/quarantine")), 1);
    assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
    assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
    assert_int_equal(lines.count, 0);
  }
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.quarantined, sizeof damages / sizeof damages[0]);
  stg_free(path);
  stg_disk_cache_close(cache);
}

/* The file says sm_90 everywhere but in its cubin, and its checksum is right. */
static void heals_an_entry_whose_cubin_is_of_another_architecture(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  char *path = disk_entry_path(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, &lines);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  disk_set_cubin_sm(path, 80);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  assert_int_equal(lines.level[0], STG_LOG_WARN);
  assert_non_null(strstr(log_lines_take_one(&lines),
                         "' is bad: cubin is for sm_80, the key says sm_90; moved to quarantine"));
  assert_int_equal(count_files(temp_path(state, "c/v1/quarantine")), 1);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void passes_over_another_format_and_leaves_it(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_disk_counters counters;
  struct stg_disk_hit hit = {0};
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-12.8.93");
  disk_fill(root, &request, "nvrtc-13.0.88");
  char *newer = disk_entry_path(root, &request, "nvrtc-13.0.88");
  char *older = disk_entry_path(root, &request, "nvrtc-12.8.93");
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, &lines);
  disk_set_format(newer, STG_ENTRY_FORMAT + 1);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-12.8.93");
  assert_int_equal(lines.level[0], STG_LOG_INFO);
  const char *line = log_lines_take_one(&lines);
  assert_non_null(strstr(line, newer));
  assert_non_null(strstr(line, "' is passed over: entry format 3, this version reads 2"));
  disk_set_format(older, 1);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  assert_int_equal(lines.count, 2);
  /* under the lock the second look says nothing more to who listens to infos */
  lines.count = 0;
  assert_int_equal(stg_disk_cache_find_again(cache, &request, NULL, &hit, NULL), STG_E_NOT_FOUND);
  assert_int_equal(lines.count, 2);
  assert_int_equal(lines.level[0], STG_LOG_DEBUG);
  assert_int_equal(lines.level[1], STG_LOG_DEBUG);
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.quarantined, 0);
  assert_int_equal(access(newer, F_OK), 0);
  assert_int_equal(access(older, F_OK), 0);
  stg_free(older);
  stg_free(newer);
  stg_disk_cache_close(cache);
}

static void falls_back_to_another_compiler_when_the_best_entry_is_bad(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-12.8.93");
  disk_fill(root, &request, "nvrtc-13.0.88");
  char *path = disk_entry_path(root, &request, "nvrtc-13.0.88");
  assert_int_equal(truncate(path, 100), 0);
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-12.8.93");
  assert_int_equal(lines.count, 1);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void never_takes_the_entry_of_another_kernel_under_this_name(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_request other = fixture_request();
  other.source = "// other\n";
  disk_fill(root, &request, "nvrtc-13.0.88");
  disk_fill(root, &other, "nvrtc-13.0.88");
  char *path = disk_entry_path(root, &request, "nvrtc-13.0.88");
  char *other_path = disk_entry_path(root, &other, "nvrtc-13.0.88");
  assert_int_equal(rename(other_path, path), 0);
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  assert_non_null(strstr(log_lines_take_one(&lines), "' is bad: its name should be '"));
  stg_free(other_path);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void sets_aside_a_hit_that_the_driver_refused(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_hit hit = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, &lines);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_int_equal(stg_disk_cache_find(cache, &request, NULL, &hit, NULL), STG_OK);
  stg_disk_cache_reject(cache, &hit, "INVALID_IMAGE");
  assert_non_null(strstr(log_lines_take_one(&lines), "is bad: INVALID_IMAGE; moved to quarantine"));
  assert_int_equal(access(hit.path, F_OK), -1);
  stg_disk_hit_finish(&hit);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
}

static void moves_a_file_to_quarantine_on_demand(void **state) {
  const char *root = temp_path(state, "c");
  stg_error err = STG_ERROR_INIT;
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-13.0.88");
  char *path = disk_entry_path(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_ONLY, NULL);
  assert_int_equal(stg_disk_cache_quarantine(cache, path, NULL), STG_OK);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(stg_disk_cache_quarantine(cache, path, NULL), STG_OK);
  assert_int_equal(stg_disk_cache_quarantine(cache, "/etc/passwd", &err), STG_E_INVALID);
  assert_string_equal(err.message, "'/etc/passwd' is in no folder of this cache");
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void leaves_an_entry_that_memory_is_out_for(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_disk_hit hit = {0};
  stg_error err = STG_ERROR_INIT;
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-13.0.88");
  char *path = disk_entry_path(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, &lines);
  cjson_memory_limit(3);
  const stg_status status = stg_disk_cache_find(cache, &request, NULL, &hit, &err);
  cjson_memory_restore();
  assert_int_equal(status, STG_E_NO_MEMORY);
  assert_non_null(strstr(err.message, "the metadata of a cache entry"));
  assert_int_equal(lines.count, 0);
  assert_int_equal(access(path, F_OK), 0);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_free(path);
  stg_disk_cache_close(cache);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(heals_a_damaged_entry_with_one_warning),
      IN_FOLDER(heals_an_entry_whose_cubin_is_of_another_architecture),
      IN_FOLDER(passes_over_another_format_and_leaves_it),
      IN_FOLDER(falls_back_to_another_compiler_when_the_best_entry_is_bad),
      IN_FOLDER(never_takes_the_entry_of_another_kernel_under_this_name),
      IN_FOLDER(sets_aside_a_hit_that_the_driver_refused),
      IN_FOLDER(moves_a_file_to_quarantine_on_demand),
      IN_FOLDER(leaves_an_entry_that_memory_is_out_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

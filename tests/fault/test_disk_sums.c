/*
 * test_disk_sums.c: the sums of a cache folder under processes that add at once, and on disks that
 * refuse: nothing is lost under the lock, and no failure is anybody's.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/clock.h"
#include "runtime/disk_lock.h"
#include "tests/fault/faulty_disk.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define COMPILER "nvrtc-13.0.88"
#define PROCESSES 4
#define ADDITIONS 500
#define MAX_TRIES 100000

static stg_status read_sums(const char *folder, struct stg_disk_totals *ret) {
  const struct stg_disk_layer layer = {.root = (char *)(uintptr_t)folder};
  return stg_disk_stats_read(&layer, ret, NULL);
}

/* Add ones; who does not get the lock in time tries again. */
static int add_many(const char *folder) {
  const struct stg_disk_totals one = {.runs = 1, .misses = 3};
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, NULL);
  int failures = 0;
  int tries = 0;
  for (int i = 0; i < ADDITIONS && tries < MAX_TRIES; tries++) {
    stg_status status = stg_disk_stats_add(cache, &one, NULL);
    i += status == STG_OK;
    failures += status != STG_OK && status != STG_E_BUSY;
  }
  stg_disk_cache_close(cache);
  return failures == 0 && tries < MAX_TRIES ? 0 : 1;
}

static void nothing_is_lost_when_processes_add_at_once(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  pid_t children[PROCESSES];
  struct stg_disk_totals sums;
  disk_fill(folder, &request, COMPILER);
  for (size_t i = 0; i < PROCESSES; i++) {
    children[i] = test_fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      _exit(add_many(folder));
    }
  }
  for (size_t i = 0; i < PROCESSES; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  assert_int_equal(read_sums(folder, &sums), STG_OK);
  assert_int_equal(sums.runs, 1 + PROCESSES * ADDITIONS);
  assert_int_equal(sums.misses, 3 * PROCESSES * ADDITIONS);
  assert_int_equal(sums.stores, 1);
  assert_int_equal(count_files(temp_path(state, "v1/tmp")), 0);
  assert_int_equal(count_files(temp_path(state, "v1/quarantine")), 0);
}

/* What a parent counted is the parent's to add, also when a child closes its copy. */
static void a_forked_child_adds_nothing(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_totals sums;
  int status = 0;
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, NULL);
  assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    stg_disk_cache_close(cache);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(read_sums(folder, &sums), STG_E_NOT_FOUND);
  stg_disk_cache_close(cache);
  assert_int_equal(read_sums(folder, &sums), STG_OK);
  assert_int_equal(sums.stores, 1);
}

static void who_holds_the_lock_for_long_is_not_waited_for(void **state) {
  const char *folder = *state;
  const struct stg_disk_totals one = {.misses = 1};
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_lock lock = {0};
  struct log_lines lines = {0};
  struct stg_disk_totals sums;
  stg_error error = STG_ERROR_INIT;
  struct stg_disk_cache *holder = disk_open(folder, STG_DISK_READ_WRITE, NULL);
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, &lines);
  assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  assert_int_equal(stg_disk_lock_try(holder, "stats", &lock, NULL), STG_OK);
  const uint64_t start_ns = stg_clock_ns();
  assert_int_equal(stg_disk_stats_add(cache, &one, &error), STG_E_BUSY);
  assert_in_range((stg_clock_ns() - start_ns) / 1000000, 100, 10000);
  stg_disk_stats_flush(cache);
  assert_int_equal(lines.level[0], STG_LOG_DEBUG);
  assert_non_null(
      strstr(log_lines_take_one(&lines), "the statistics of the cache are not kept: lock '"));
  assert_int_equal(read_sums(folder, &sums), STG_E_NOT_FOUND);
  stg_disk_lock_give(&lock);
  stg_disk_cache_close(cache); /* what was not added then is added now */
  assert_int_equal(read_sums(folder, &sums), STG_OK);
  assert_int_equal(sums.stores, 1);
  assert_int_equal(lines.count, 0);
  stg_disk_cache_close(holder);
}

static void a_disk_that_refuses_costs_the_sums_and_one_debug_line(void **state) {
  static const enum step steps[] = {MAKE_FOLDER, CREATE, WRITE, CLOSE, RENAME, OPEN_LOCK, TRY_LOCK};
  static const int errnums[] = {ENOSPC, EROFS, EACCES, EEXIST, ENOENT, EIO, ENOLCK, EMFILE};
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_totals before, after;
  disk_fill(folder, &request, COMPILER);
  assert_int_equal(read_sums(folder, &before), STG_OK);
  for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
    for (size_t i = 0; i < sizeof errnums / sizeof errnums[0]; i++) {
      struct faulty faulty = {.step = steps[s], .errnum = errnums[i], .times = EVERY_TIME};
      struct log_lines lines = {0};
      struct stg_disk_cache *cache = open_faulty(folder, &faulty, &lines);
      assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
      stg_disk_cache_close(cache);
      assert_int_equal(lines.level[0], STG_LOG_DEBUG);
      assert_non_null(strstr(log_lines_take_one(&lines), strerror(errnums[i])));
      assert_int_equal(read_sums(folder, &after), STG_OK);
      assert_memory_equal(&after, &before, sizeof after);
      assert_int_equal(count_files(temp_path(state, "v1/tmp")), 0);
    }
  }
}

static void what_could_not_be_added_is_added_later(void **state) {
  const char *folder = *state;
  struct stg_kernel_request request = fixture_request();
  struct faulty faulty = {.step = RENAME, .errnum = ENOSPC, .times = EVERY_TIME};
  struct log_lines lines = {0};
  struct stg_disk_totals sums;
  disk_fill(folder, &request, COMPILER);
  struct stg_disk_cache *cache = open_faulty(folder, &faulty, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  stg_disk_stats_flush(cache);
  faulty.times = 0;
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  stg_disk_cache_close(cache);
  assert_int_equal(read_sums(folder, &sums), STG_OK);
  assert_int_equal(sums.disk_hits, 2);
  assert_int_equal(sums.runs, 2);
}

/* The folder is another's by now, or was removed: nothing is made there. */
static void a_folder_that_changed_meanwhile_is_left(void **state) {
  const char *folder = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  struct log_lines lines = {0};
  struct stg_disk_totals sums;
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, &lines);
  assert_int_equal(disk_store(cache, &request, COMPILER), STG_OK);
  assert_int_equal(chmod(temp_path(state, "c/v1"), 0777), 0);
  stg_disk_cache_close(cache);
  assert_int_equal(lines.level[0], STG_LOG_DEBUG);
  assert_non_null(strstr(log_lines_take_one(&lines), "has mode 0777"));
  assert_int_equal(read_sums(temp_path(state, "c"), &sums), STG_E_NOT_FOUND);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(nothing_is_lost_when_processes_add_at_once),
      IN_FOLDER(a_forked_child_adds_nothing),
      IN_FOLDER(who_holds_the_lock_for_long_is_not_waited_for),
      IN_FOLDER(a_disk_that_refuses_costs_the_sums_and_one_debug_line),
      IN_FOLDER(what_could_not_be_added_is_added_later),
      IN_FOLDER(a_folder_that_changed_meanwhile_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

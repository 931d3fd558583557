/*
 * test_cache_gc.c: stg_cache_gc on a folder of ten thousand files: what a dry run says is what is
 * then done; and what it refuses.
 */
#include <errno.h>
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

#include <steergraph/cache.h>

#include "runtime/base/file.h"
#include "runtime/base/strbuf.h"
#include "tests/support/temp_folder.h"

#define MANY 10000u
#define SHARDS 256u
#define NOBODY 65534

/* A small generator, so that sizes and ages look like nothing. */
static uint32_t next(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

/* The path of entry `number` under the test's folder, in a buffer of the caller's. */
static void entry_path(void **state, uint32_t number, char *ret_path, size_t capacity) {
  snprintf(ret_path, capacity, "%s/v1/%02x/%02x%030x-nvrtc-13.0.88.sgc", (const char *)*state,
           number % SHARDS, number % SHARDS, number);
}

static void make_file(const char *path, size_t size, int64_t age_s) {
  const struct timespec stamps[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)size), 0);
  assert_int_equal(futimens(fd, stamps), 0);
  close(fd);
}

/* `count` files with names of entries: gc does not read them. The sum of their sizes. */
static uint64_t fill(void **state, uint32_t count) {
  char path[600];
  uint64_t bytes = 0;
  uint32_t seed = 17;
  for (uint32_t i = 0; i < SHARDS; i++) {
    snprintf(path, sizeof path, "%s/v1/%02x", (const char *)*state, i);
    assert_int_equal(stg_mkdir_all(path, 0700, NULL), STG_OK);
  }
  for (uint32_t i = 0; i < count; i++) {
    const size_t size = 100000 + next(&seed) % 30000;
    entry_path(state, i, path, sizeof path);
    make_file(path, size, next(&seed) % 1000000);
    bytes += size;
  }
  return bytes;
}

static const stg_cache_gc_result *collect(void **state, const stg_cache_limits *limits) {
  const stg_cache_gc_result *result = NULL;
  stg_error error = STG_ERROR_INIT;
  if (stg_cache_gc(*state, limits, &result, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  assert_string_equal(result->folder, (const char *)*state);
  return result;
}

static void expect_same(const stg_cache_gc_result *a, const stg_cache_gc_result *b) {
  assert_int_equal(a->n_victims, b->n_victims);
  for (size_t i = 0; i < a->n_victims; i++) {
    assert_string_equal(a->victims[i].path, b->victims[i].path);
    assert_string_equal(a->victims[i].why, b->victims[i].why);
    assert_string_equal(a->victims[i].kind, b->victims[i].kind);
    assert_string_equal(a->victims[i].key, b->victims[i].key);
    assert_int_equal(a->victims[i].size_bytes, b->victims[i].size_bytes);
    assert_int_equal(a->victims[i].used_unix, b->victims[i].used_unix);
  }
  assert_int_equal(a->removed_entries, b->removed_entries);
  assert_int_equal(a->removed_files, b->removed_files);
  assert_int_equal(a->removed_bytes, b->removed_bytes);
  assert_int_equal(a->kept_entries, b->kept_entries);
  assert_int_equal(a->kept_files, b->kept_files);
  assert_int_equal(a->kept_bytes, b->kept_bytes);
}

/* A dry run removes nothing; a run removes what it named, and all of that. */
static void expect_dry_run_to_say_it(void **state, stg_cache_limits limits) {
  limits.dry_run = true;
  const stg_cache_gc_result *said = collect(state, &limits);
  for (size_t i = 0; i < said->n_victims; i++) {
    assert_false(said->victims[i].removed);
    assert_int_equal(access(said->victims[i].path, F_OK), 0);
  }
  limits.dry_run = false;
  const stg_cache_gc_result *done = collect(state, &limits);
  expect_same(said, done);
  for (size_t i = 0; i < done->n_victims; i++) {
    assert_true(done->victims[i].removed);
    assert_null(done->victims[i].problem);
    assert_int_not_equal(access(done->victims[i].path, F_OK), 0);
  }
  const stg_cache_gc_result *again = collect(state, &limits);
  assert_int_equal(again->n_victims, 0);
  assert_int_equal(again->kept_entries, done->kept_entries);
  assert_int_equal(again->kept_bytes, done->kept_bytes);
  stg_cache_gc_free(again);
  stg_cache_gc_free(done);
  stg_cache_gc_free(said);
}

static void a_dry_run_says_what_gc_then_does(void **state) {
  const uint64_t bytes = fill(state, MANY);
  stg_cache_limits limits = {.struct_size = sizeof limits};
  const stg_cache_gc_result *all = collect(state, &limits); /* 1.1 GiB: within the defaults */
  assert_int_equal(all->n_victims, 0);
  assert_int_equal(all->kept_entries, MANY);
  assert_int_equal(all->kept_bytes, bytes);
  stg_cache_gc_free(all);

  limits.max_bytes = bytes * 9 / 10;
  expect_dry_run_to_say_it(state, limits);
  limits.max_entries = MANY / 2;
  expect_dry_run_to_say_it(state, limits);
  limits.by_age = true;
  limits.older_than_s = 250000;
  expect_dry_run_to_say_it(state, limits);

  limits.dry_run = true;
  limits.older_than_s = 0;
  const stg_cache_gc_result *rest = collect(state, &limits);
  assert_true(rest->n_victims > 2000 && rest->n_victims < 3000); /* a quarter by age */
  assert_int_equal(rest->kept_entries, 0);
  for (size_t i = 1; i < rest->n_victims; i++) {
    assert_true(rest->victims[i - 1].used_unix <= rest->victims[i].used_unix);
    assert_string_equal(rest->victims[i].why, "age");
    assert_int_equal(strlen(rest->victims[i].key), 32);
  }
  stg_cache_gc_free(rest);
}

struct seen {
  size_t calls, done, total;
};

static void see(void *user, size_t done, size_t total) {
  struct seen *seen = user;
  assert_true(done > seen->done && done <= total);
  seen->calls++;
  seen->done = done;
  seen->total = total;
}

static void it_says_how_far_it_has_come(void **state) {
  struct seen seen = {0};
  const stg_cache_limits limits = {
      .struct_size = sizeof limits, .max_entries = 100, .progress = see, .user = &seen};
  fill(state, 400);
  stg_cache_gc_free(collect(state, &limits));
  assert_int_equal(seen.done, 300);
  assert_int_equal(seen.total, 300);
  assert_true(seen.calls > 1);
}

static void other_files_are_told_apart(void **state) {
  const stg_cache_limits limits = {.struct_size = sizeof limits, .by_age = true};
  fill(state, 1);
  assert_int_equal(stg_mkdir_all(temp_path(state, "v1/tmp"), 0700, NULL), STG_OK);
  assert_int_equal(stg_mkdir_all(temp_path(state, "v1/graphs"), 0700, NULL), STG_OK);
  make_file(temp_path(state, "v1/tmp/a.tmp"), 5, 7200);
  make_file(temp_path(state, "v1/tmp/b.tmp"), 7, 60);
  make_file(
      temp_path(state,
                "v1/graphs/0123456789abcdef0123456789abcdef-0123456789abcdef0123456789abcdef.sgr"),
      9, 5000);
  const stg_cache_gc_result *result = collect(state, &limits);
  assert_int_equal(result->removed_entries, 2); /* the graph too */
  assert_int_equal(result->removed_files, 1);
  assert_int_equal(result->kept_files, 1);
  assert_int_equal(result->kept_bytes, 7);
  assert_int_equal(result->n_victims, 3);
  for (size_t i = 0; i < 3; i++) {
    const stg_cache_victim *victim = &result->victims[i];
    if (strcmp(victim->kind, "graph") == 0) {
      assert_string_equal(victim->key, "0123456789abcdef0123456789abcdef");
    } else if (strcmp(victim->kind, "temporary") == 0) {
      assert_string_equal(victim->key, "");
      assert_string_equal(victim->why, "temporary");
    } else {
      assert_string_equal(victim->kind, "entry");
    }
  }
  stg_cache_gc_free(result);
}

/* Folders alone: who may remove a file is the folder's to say. */
static void give_away(void **state) {
  char path[600];
  assert_int_equal(chown(*state, NOBODY, NOBODY), 0);
  assert_int_equal(chown(temp_path(state, "v1"), NOBODY, NOBODY), 0);
  for (uint32_t i = 0; i < SHARDS; i++) {
    snprintf(path, sizeof path, "%s/v1/%02x", (const char *)*state, i);
    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
  }
}

static void what_cannot_go_is_a_fact(void **state) {
  const stg_cache_limits limits = {.struct_size = sizeof limits, .by_age = true};
  const stg_cache_gc_result *result = NULL;
  stg_error error = STG_ERROR_INIT;
  const uid_t user = geteuid();
  char path[600];
  fill(state, 2);
  entry_path(state, 1, path, sizeof path);
  *strrchr(path, '/') = '\0';
  assert_int_equal(chmod(path, 0500), 0);
  if (user == 0) { /* whom nothing keeps from removing: be somebody else meanwhile */
    give_away(state);
    assert_int_equal(seteuid(NOBODY), 0);
  }
  const stg_status status = stg_cache_gc(*state, &limits, &result, &error);
  /* before anything is asserted: as somebody else the folder could not be removed */
  assert_int_equal(seteuid(user), 0);
  assert_int_equal(chmod(path, 0700), 0);
  assert_int_equal(status, STG_OK);
  assert_int_equal(result->failed, 1);
  assert_int_equal(result->removed_entries, 1);
  assert_int_equal(result->kept_entries, 1);
  assert_int_equal(result->n_victims, 2);
  const stg_cache_victim *held = &result->victims[result->victims[0].problem != NULL ? 0 : 1];
  assert_false(held->removed);
  assert_non_null(strstr(held->problem, held->path));
  assert_non_null(strstr(held->problem, strerror(EACCES)));
  stg_cache_gc_free(result);
}

static void only_the_last_folder_is_meant(void **state) {
  static const char *const ends[] = {"", "/", "::"};
  const stg_cache_limits limits = {.struct_size = sizeof limits, .by_age = true, .dry_run = true};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    const stg_cache_gc_result *result = NULL;
    struct stg_strbuf list = {0};
    char wanted[600];
    const char *folder = *state;
    stg_strbuf_printf(&list, "%s/ro:%s/rw%s", folder, folder, ends[i]);
    snprintf(wanted, sizeof wanted, "%s/rw", folder);
    assert_int_equal(stg_cache_gc(stg_strbuf_text(&list), &limits, &result, NULL), STG_OK);
    assert_string_equal(result->folder, wanted);
    assert_int_equal(result->n_victims + result->kept_entries, 0); /* it is not there */
    stg_cache_gc_free(result);
    stg_strbuf_finish(&list);
  }
}

static void expect_refused(const char *path_list, const stg_cache_limits *limits, stg_status status,
                           const char *message) {
  const stg_cache_gc_result *result = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(stg_cache_gc(path_list, limits, &result, &error), status);
  assert_non_null(strstr(error.message, message));
  assert_null(result);
}

static void what_makes_no_sense_is_refused(void **state) {
  stg_cache_limits limits = {.struct_size = sizeof limits};
  const stg_cache_gc_result *result = NULL;
  expect_refused("", &limits, STG_E_INVALID, "no cache folder is given");
  expect_refused("::", &limits, STG_E_INVALID, "no cache folder is given");
  expect_refused(NULL, &limits, STG_E_INVALID, "is NULL");
  expect_refused(*state, NULL, STG_E_INVALID, "is NULL");
  assert_int_equal(stg_cache_gc(*state, &limits, NULL, NULL), STG_E_INVALID);
  make_file(temp_path(state, "k.sgp"), 1, 0);
  expect_refused(temp_path(state, "k.sgp"), &limits, STG_E_UNSUPPORTED,
                 "k.sgp' is a pack, which is never written to");
  limits.by_age = true;
  limits.older_than_s = -1;
  expect_refused(*state, &limits, STG_E_INVALID, "older_than_s -1 is negative");
  limits.struct_size = 3;
  expect_refused(*state, &limits, STG_E_INVALID, "struct_size is 3");
  stg_cache_gc_free(result); /* nothing */
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_dry_run_says_what_gc_then_does), IN_FOLDER(it_says_how_far_it_has_come),
      IN_FOLDER(other_files_are_told_apart),       IN_FOLDER(what_cannot_go_is_a_fact),
      IN_FOLDER(only_the_last_folder_is_meant),    IN_FOLDER(what_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

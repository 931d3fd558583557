/*
 * test_disk_evict.c: what a folder holds, which of it goes and why, and what stays at the last
 * moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/disk_evict.h"
#include "tests/support/temp_folder.h"

#define NS_PER_S INT64_C(1000000000)
#define NOW_S INT64_C(1000000000)
#define ENTRY "v1/01/0123456789abcdef0123456789abcdef-nvrtc-13.0.88.sgc"
#define RECIPE "v1/graphs/0123456789abcdef0123456789abcdef-fedcba9876543210fedcba9876543210.sgr"
#define NO_RECIPE "v1/graphs/0123456789abcdef0123456789abcdef.sgr"
#define NO_ENTRY "v1/01/0123456789abcdef0123456789abcdef.sgc"

static const struct stg_disk_limits no_limits = {
    .bytes = STG_DISK_NO_LIMIT, .entries = STG_DISK_NO_LIMIT, .older_than_s = -1};

static void add(struct stg_disk_content *content, const char *path, enum stg_disk_kind kind,
                uint64_t size, int64_t age_s) {
  const struct stg_disk_content_file file = {
      .path = path, .kind = kind, .size_bytes = size, .stamp_ns = (NOW_S - age_s) * NS_PER_S};
  assert_true(stg_disk_content_add(content, &file));
}

static void choose(struct stg_disk_content *content, struct stg_disk_limits limits) {
  stg_disk_choose(content, &limits, NOW_S * NS_PER_S);
}

/* "a:age b:- c:size": the files in the order they have, and why they go. */
static void expect(const struct stg_disk_content *content, const char *wanted) {
  struct stg_strbuf text = {0};
  for (size_t i = 0; i < content->count; i++) {
    const char *why = content->items[i].why;
    stg_strbuf_printf(&text, "%s%s:%s", i == 0 ? "" : " ", content->items[i].path,
                      why != NULL ? why : "-");
  }
  assert_string_equal(stg_strbuf_text(&text), wanted);
  stg_strbuf_finish(&text);
}

/* Entries of 10 bytes: c unused longest, then a, then b. */
static struct stg_disk_content three_entries(void) {
  struct stg_disk_content content = {0};
  add(&content, "a", STG_DISK_ENTRY, 10, 20);
  add(&content, "b", STG_DISK_ENTRY, 10, 10);
  add(&content, "c", STG_DISK_ENTRY, 10, 30);
  return content;
}

static void nothing_goes_while_it_is_within_the_limits(void **state) {
  (void)state;
  struct stg_disk_content content = three_entries();
  struct stg_disk_limits limits = no_limits;
  choose(&content, limits);
  expect(&content, "c:- a:- b:-");
  limits.bytes = 30;
  limits.entries = 3;
  choose(&content, limits);
  expect(&content, "c:- a:- b:-");
  stg_disk_content_finish(&content);
}

static void what_was_unused_longest_goes_first(void **state) {
  (void)state;
  struct stg_disk_content content = three_entries();
  struct stg_disk_limits limits = no_limits;
  limits.bytes = 29;
  choose(&content, limits);
  expect(&content, "c:size a:- b:-");
  limits.bytes = 19;
  choose(&content, limits);
  expect(&content, "c:size a:size b:-");
  limits = no_limits;
  limits.entries = 2;
  choose(&content, limits);
  expect(&content, "c:count a:- b:-");
  limits.entries = 0;
  choose(&content, limits);
  expect(&content, "c:count a:count b:count");
  limits = no_limits;
  limits.bytes = 0;
  choose(&content, limits);
  expect(&content, "c:size a:size b:size");
  stg_disk_content_finish(&content);
}

static void age_comes_before_count_and_count_before_size(void **state) {
  (void)state;
  struct stg_disk_content content = three_entries();
  add(&content, "d", STG_DISK_ENTRY, 10, 5);
  choose(&content, (struct stg_disk_limits){.bytes = 15, .entries = 2, .older_than_s = 30});
  expect(&content, "c:age a:count b:size d:-");
  stg_disk_content_finish(&content);
}

static void an_age_counts_from_the_very_second(void **state) {
  (void)state;
  struct stg_disk_content content = three_entries();
  struct stg_disk_limits limits = no_limits;
  limits.older_than_s = 20;
  choose(&content, limits);
  expect(&content, "c:age a:age b:-");
  limits.older_than_s = 21;
  choose(&content, limits);
  expect(&content, "c:age a:- b:-");
  limits.older_than_s = 0;
  choose(&content, limits);
  expect(&content, "c:age a:age b:age");
  stg_disk_content_finish(&content);
}

static void equal_stamps_go_in_path_order(void **state) {
  (void)state;
  struct stg_disk_content content = {0};
  struct stg_disk_limits limits = no_limits;
  add(&content, "b", STG_DISK_ENTRY, 1, 7);
  add(&content, "c", STG_DISK_ENTRY, 1, 7);
  add(&content, "a", STG_DISK_ENTRY, 1, 7);
  limits.entries = 1;
  choose(&content, limits);
  expect(&content, "a:count b:count c:-");
  stg_disk_content_finish(&content);
}

/* Else one with a wrong clock would stay for ever, and nothing else would. */
static void a_stamp_in_the_future_counts_as_now(void **state) {
  (void)state;
  struct stg_disk_content content = {0};
  struct stg_disk_limits limits = no_limits;
  add(&content, "z", STG_DISK_ENTRY, 1, 0);
  add(&content, "a", STG_DISK_ENTRY, 1, -1000);
  limits.entries = 1;
  choose(&content, limits);
  expect(&content, "a:count z:-");
  assert_int_equal(content.items[0].used_ns, NOW_S * NS_PER_S);
  assert_int_equal(content.items[0].stamp_ns, (NOW_S + 1000) * NS_PER_S);
  limits.older_than_s = 0;
  choose(&content, limits);
  expect(&content, "a:age z:age");
  stg_disk_content_finish(&content);
}

static void recipes_go_as_entries_do(void **state) {
  (void)state;
  struct stg_disk_content content = {0};
  struct stg_disk_limits limits = no_limits;
  add(&content, "e", STG_DISK_ENTRY, 1, 1);
  add(&content, "r", STG_DISK_RECIPE, 1, 2);
  limits.entries = 1;
  choose(&content, limits);
  expect(&content, "r:count e:-");
  stg_disk_content_finish(&content);
}

static void what_a_dead_writer_left_goes_after_an_hour(void **state) {
  (void)state;
  struct stg_disk_content content = {0};
  add(&content, "old", STG_DISK_TEMPORARY, 1, 3600);
  add(&content, "new", STG_DISK_TEMPORARY, 1, 3599);
  choose(&content, no_limits);
  expect(&content, "old:temporary new:-");
  /* a writer's file counts, but it is no entry: nothing that is being written goes */
  choose(&content, (struct stg_disk_limits){.bytes = 0, .entries = 0, .older_than_s = 0});
  expect(&content, "old:temporary new:-");
  stg_disk_content_finish(&content);
}

static void the_quarantine_is_bounded_by_itself(void **state) {
  (void)state;
  struct stg_disk_content content = {0};
  char name[16];
  for (unsigned i = 0; i < 66; i++) {
    snprintf(name, sizeof name, "q%02u", i);
    add(&content, name, STG_DISK_QUARANTINED, 1, 100 - (int64_t)i);
  }
  choose(&content, no_limits);
  for (size_t i = 0; i < 66; i++) {
    assert_string_equal(content.items[i].why != NULL ? content.items[i].why : "-",
                        i < 2 ? "quarantine" : "-");
  }
  stg_disk_content_finish(&content);
  add(&content, "big", STG_DISK_QUARANTINED, UINT64_C(60) << 20, 3);
  add(&content, "small", STG_DISK_QUARANTINED, UINT64_C(5) << 20, 2);
  add(&content, "old", STG_DISK_QUARANTINED, 1, INT64_C(30) * 24 * 3600);
  choose(&content, no_limits);
  expect(&content, "old:quarantine big:quarantine small:-");
  stg_disk_content_finish(&content);
}

/* A sparse file under an entry's name would otherwise empty the folder. */
static void what_no_reader_takes_goes_before_good_ones(void **state) {
  (void)state;
  struct stg_disk_content content = three_entries();
  struct stg_disk_limits limits = no_limits;
  limits.bytes = UINT64_C(2) << 30;
  add(&content, "huge", STG_DISK_ENTRY, UINT64_C(100) << 30, 1);
  add(&content, "wide", STG_DISK_RECIPE, (UINT64_C(1) << 20) + 1, 0);
  choose(&content, limits);
  expect(&content, "c:- a:- b:- huge:size wide:-");
  limits.bytes = 30;
  choose(&content, limits);
  expect(&content, "c:- a:- b:- huge:size wide:size");
  stg_disk_content_finish(&content);
  content = (struct stg_disk_content){0};
  add(&content, "largest", STG_DISK_ENTRY, UINT64_C(256) << 20, 2);
  add(&content, "small", STG_DISK_ENTRY, 1, 1);
  limits.bytes = 10;
  choose(&content, limits);
  expect(&content, "largest:size small:-");
  limits = no_limits;
  limits.older_than_s = 0;
  add(&content, "huge", STG_DISK_ENTRY, UINT64_C(100) << 30, 1);
  choose(&content, limits);
  for (size_t i = 0; i < content.count; i++) {
    assert_string_equal(content.items[i].why, "age");
  }
  stg_disk_content_finish(&content);
}

static void bad_files_go_before_good_ones(void **state) {
  (void)state;
  struct stg_disk_content content = {0};
  struct stg_disk_limits limits = no_limits;
  add(&content, "e", STG_DISK_ENTRY, 10, 9);
  add(&content, "f", STG_DISK_ENTRY, 10, 8);
  add(&content, "p", STG_DISK_QUARANTINED, 10, 5);
  add(&content, "q", STG_DISK_QUARANTINED, 10, 4);
  limits.bytes = 30;
  choose(&content, limits);
  expect(&content, "e:- f:- p:size q:-");
  limits.bytes = 10;
  choose(&content, limits);
  expect(&content, "e:size f:- p:size q:size");
  stg_disk_content_finish(&content);
}

static void nothing_is_a_folder_too(void **state) {
  (void)state;
  struct stg_disk_content content = {0};
  choose(&content, (struct stg_disk_limits){.bytes = 0, .entries = 0, .older_than_s = 0});
  assert_int_equal(content.count, 0);
  stg_disk_content_finish(&content);
}

#define KERNEL_A "0a000000000000000000000000000000"
#define KERNEL_B "0b000000000000000000000000000000"
#define GRAPH "ffffffffffffffffffffffffffffffff-"

static void recipes_go_with_the_last_entry_of_their_kernel(void **state) {
  (void)state;
  static const char recipe_a[] = GRAPH KERNEL_A ".sgr", recipe_b[] = GRAPH KERNEL_B ".sgr";
  static const char recipe_c[] = GRAPH "0c000000000000000000000000000000.sgr";
  struct stg_disk_content content = {0};
  struct stg_disk_limits limits = no_limits;
  add(&content, KERNEL_A "-nvrtc-12.sgc", STG_DISK_ENTRY, 10, 50);
  add(&content, KERNEL_B "-nvrtc-12.sgc", STG_DISK_ENTRY, 10, 40);
  add(&content, KERNEL_B "-nvrtc-13.sgc", STG_DISK_ENTRY, 10, 30);
  add(&content, recipe_a, STG_DISK_RECIPE, 1, 5);
  add(&content, recipe_b, STG_DISK_RECIPE, 1, 4);
  add(&content, recipe_c, STG_DISK_RECIPE, 1, 3); /* its kernel is in a pack */
  limits.entries = 5;
  choose(&content, limits);
  assert_string_equal(content.items[3].path, recipe_a);
  assert_string_equal(content.items[0].why, "count");
  assert_string_equal(content.items[3].why, "kernel");
  assert_null(content.items[4].why);
  limits.entries = 4; /* one of two compilers stays */
  choose(&content, limits);
  assert_string_equal(content.items[1].why, "count");
  assert_null(content.items[4].why);
  limits.entries = 3;
  choose(&content, limits);
  assert_string_equal(content.items[4].why, "kernel");
  assert_null(content.items[5].why);
  limits.entries = 0;
  choose(&content, limits);
  assert_string_equal(content.items[5].why, "count");
  stg_disk_content_finish(&content);
}

static void write_file(void **state, const char *name, size_t size) {
  static const char zeros[64];
  char *folder = stg_path_folder(temp_path(state, name));
  assert_non_null(folder);
  assert_int_equal(stg_mkdir_all(folder, 0700, NULL), STG_OK);
  stg_free(folder);
  assert_int_equal(stg_file_write_atomic(temp_path(state, name), zeros, size, 0600, NULL), STG_OK);
}

static void a_scan_sees_files_of_ours_and_nothing_else(void **state) {
  static const char *const ours[] = {ENTRY, "v1/01/x.tmp", RECIPE, "v1/tmp/y.tmp",
                                     "v1/quarantine/anything"};
  static const enum stg_disk_kind kinds[] = {STG_DISK_ENTRY, STG_DISK_TEMPORARY, STG_DISK_RECIPE,
                                             STG_DISK_TEMPORARY, STG_DISK_QUARANTINED};
  static const char *const others[] = {
      "CACHEDIR.TAG", "v1/stats",    "v1/lock/ab",    "v1/lock/gc",    "v1/01/notes",
      NO_ENTRY,       NO_RECIPE,     "v1/graphs/a.c", "v1/tmp/README", "v1/other/x.tmp",
      "v1/012/x.tmp", "v1/AB/x.tmp", "x.tmp"};
  struct stg_disk_content content = {0};
  for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
    write_file(state, ours[i], i + 1);
  }
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    write_file(state, others[i], 1);
  }
  assert_int_equal(mkdir(temp_path(state, "v1/tmp/folder.tmp"), 0700), 0);
  assert_int_equal(symlink("/etc/passwd", temp_path(state, "v1/tmp/link.tmp")), 0);
  const struct stg_disk_layer layer = {.root = *state};

  assert_int_equal(stg_disk_scan(&layer, &content, NULL), STG_OK);

  assert_int_equal(content.count, sizeof ours / sizeof ours[0]);
  for (size_t i = 0; i < content.count; i++) {
    size_t k = 0;
    while (k < sizeof ours / sizeof ours[0] &&
           strcmp(content.items[i].path, temp_path(state, ours[k])) != 0) {
      k++;
    }
    assert_true(k < sizeof ours / sizeof ours[0]);
    assert_int_equal(content.items[i].kind, kinds[k]);
    assert_int_equal(content.items[i].size_bytes, k + 1);
    assert_true(content.items[i].stamp_ns > NOW_S * NS_PER_S);
  }
  stg_disk_content_finish(&content);
}

static void a_folder_that_is_not_there_holds_nothing(void **state) {
  struct stg_disk_content content = {0};
  char *missing = stg_path_join(*state, "missing");
  const struct stg_disk_layer layer = {.root = missing};
  assert_int_equal(stg_disk_scan(&layer, &content, NULL), STG_OK);
  assert_int_equal(content.count, 0);
  stg_free(missing);
  stg_disk_content_finish(&content);
}

/* One scanned entry. */
static struct stg_disk_content scan_one(void **state) {
  struct stg_disk_content content = {0};
  write_file(state, ENTRY, 8);
  const struct stg_disk_layer layer = {.root = *state};
  assert_int_equal(stg_disk_scan(&layer, &content, NULL), STG_OK);
  assert_int_equal(content.count, 1);
  return content;
}

/* As backups and file systems mounted with noatime want it. */
static void what_was_merely_read_is_as_old_as_before(void **state) {
  struct stg_disk_content content = {0};
  const struct timespec stamps[2] = {{.tv_sec = 2000}, {.tv_sec = 1000}};
  const struct stg_disk_layer layer = {.root = *state};
  write_file(state, ENTRY, 8);
  assert_int_equal(utimensat(AT_FDCWD, temp_path(state, ENTRY), stamps, 0), 0);

  assert_int_equal(stg_disk_scan(&layer, &content, NULL), STG_OK);

  assert_int_equal(content.count, 1);
  assert_int_equal(content.items[0].stamp_ns, INT64_C(1000) * 1000000000);
  stg_disk_content_finish(&content);
}

static void what_was_touched_since_the_scan_stays(void **state) {
  const struct stg_disk_io io = stg_disk_io_default();
  struct stg_disk_content content = scan_one(state);
  const struct stg_disk_content_file *file = &content.items[0];
  const struct timespec stamps[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 5}};
  assert_int_equal(utimensat(AT_FDCWD, file->path, stamps, 0), 0);

  assert_int_equal(stg_disk_remove(&io, file, NULL), STG_DISK_SPARED);

  assert_int_equal(access(file->path, F_OK), 0);
  stg_disk_content_finish(&content);
}

static void what_was_not_is_removed_once(void **state) {
  const struct stg_disk_io io = stg_disk_io_default();
  struct stg_disk_content content = scan_one(state);
  const struct stg_disk_content_file *file = &content.items[0];

  assert_int_equal(stg_disk_remove(&io, file, NULL), STG_DISK_REMOVED);

  assert_int_not_equal(access(file->path, F_OK), 0);
  assert_int_equal(stg_disk_remove(&io, file, NULL), STG_DISK_GONE);
  stg_disk_content_finish(&content);
}

static int refuse(void *user, const char *path) {
  (void)path;
  return *(const int *)user;
}

static void what_cannot_be_removed_is_named(void **state) {
  struct stg_disk_io io = stg_disk_io_default();
  struct stg_disk_content content = scan_one(state);
  stg_error error = STG_ERROR_INIT;
  int errnum = EROFS;
  io.remove = refuse;
  io.user = &errnum;

  assert_int_equal(stg_disk_remove(&io, &content.items[0], &error), STG_DISK_HELD);
  assert_non_null(strstr(error.message, content.items[0].path));
  assert_non_null(strstr(error.message, strerror(EROFS)));
  errnum = ENOENT;
  assert_int_equal(stg_disk_remove(&io, &content.items[0], &error), STG_DISK_GONE);
  stg_disk_content_finish(&content);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_goes_while_it_is_within_the_limits),
      cmocka_unit_test(what_was_unused_longest_goes_first),
      cmocka_unit_test(age_comes_before_count_and_count_before_size),
      cmocka_unit_test(an_age_counts_from_the_very_second),
      cmocka_unit_test(recipes_go_with_the_last_entry_of_their_kernel),
      cmocka_unit_test(equal_stamps_go_in_path_order),
      cmocka_unit_test(a_stamp_in_the_future_counts_as_now),
      cmocka_unit_test(recipes_go_as_entries_do),
      cmocka_unit_test(what_a_dead_writer_left_goes_after_an_hour),
      cmocka_unit_test(the_quarantine_is_bounded_by_itself),
      cmocka_unit_test(what_no_reader_takes_goes_before_good_ones),
      cmocka_unit_test(bad_files_go_before_good_ones),
      cmocka_unit_test(nothing_is_a_folder_too),
      IN_FOLDER(a_scan_sees_files_of_ours_and_nothing_else),
      IN_FOLDER(a_folder_that_is_not_there_holds_nothing),
      IN_FOLDER(what_was_merely_read_is_as_old_as_before),
      IN_FOLDER(what_was_touched_since_the_scan_stays),
      IN_FOLDER(what_was_not_is_removed_once),
      IN_FOLDER(what_cannot_be_removed_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_disk_touch.c: a hit stamps the entry, at most hourly, in the folder that is written to; so
 * what is in use is not what is evicted.
 */
#include <fcntl.h>
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
#include "tests/support/temp_folder.h"

#define COMPILER "nvrtc-13.0.88"

static int64_t stamp_of(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  return (int64_t)info.st_mtime;
}

/* time() may lag by some milliseconds behind the clock that stamps are taken from. */
static int64_t age_of(const char *path) {
  struct timespec now;
  assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
  return (int64_t)now.tv_sec - stamp_of(path);
}

static void set_age(const char *path, int64_t age_s) {
  const struct timespec stamps[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};
  assert_int_equal(utimensat(AT_FDCWD, path, stamps, 0), 0);
}

/* Store one entry in `folder`, let it be so old, find it through `path_list`; how old it is then.
 */
static int64_t age_after_hit(const char *folder, const char *path_list, enum stg_disk_mode mode,
                             int64_t age_s) {
  struct stg_kernel_request request = fixture_request();
  disk_fill(folder, &request, COMPILER);
  char *path = disk_entry_path(folder, &request, COMPILER);
  set_age(path, age_s);
  struct stg_disk_cache *cache = disk_open(path_list, mode, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);
  stg_disk_cache_close(cache);
  int64_t age_after_s = age_of(path);
  stg_free(path);
  return age_after_s;
}

static void an_old_stamp_becomes_now(void **state) {
  const char *folder = *state;
  assert_in_range(age_after_hit(folder, folder, STG_DISK_READ_WRITE, 4000), 0, 60);
}

static void a_stamp_of_this_hour_stays(void **state) {
  const char *folder = *state;
  assert_in_range(age_after_hit(folder, folder, STG_DISK_READ_WRITE, 3000), 3000, 3060);
}

static void a_stamp_far_in_the_future_becomes_now(void **state) {
  const char *folder = *state;
  assert_in_range(age_after_hit(folder, folder, STG_DISK_READ_WRITE, -100000), 0, 60);
}

static void a_layer_that_is_only_read_is_left_alone(void **state) {
  char list[1200], folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "ro"));
  snprintf(list, sizeof list, "%s:%s", folder, temp_path(state, "rw"));
  assert_in_range(age_after_hit(folder, list, STG_DISK_READ_WRITE, 4000), 4000, 4060);
}

static void a_cache_that_is_only_read_is_left_alone(void **state) {
  const char *folder = *state;
  assert_in_range(age_after_hit(folder, folder, STG_DISK_READ_ONLY, 4000), 4000, 4060);
}

static int refuse(void *user, const char *path) {
  (void)path;
  ++*(unsigned *)user;
  return 1; /* EPERM */
}

static void a_stamp_that_cannot_be_set_is_no_matter(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_io io = stg_disk_io_default();
  struct log_lines lines = {0};
  struct stg_disk_options options = {.path_list = *state,
                                     .log = log_lines_to(&lines, STG_LOG_DEBUG)};
  struct stg_disk_cache *cache = NULL;
  unsigned refused = 0;
  io.touch = refuse;
  io.user = &refused;
  disk_fill(*state, &request, COMPILER);
  char *path = disk_entry_path(*state, &request, COMPILER);
  set_age(path, 4000);
  assert_int_equal(stg_disk_cache_open_with(&options, &io, &cache, NULL), STG_OK);

  assert_string_equal(disk_found(cache, &request, NULL), COMPILER);

  assert_int_equal(refused, 1);
  assert_int_equal(lines.count, 0);
  stg_disk_cache_close(cache);
  stg_free(path);
}

/* Else it would go at once, for its age, before anybody could look at it. */
static void a_bad_entry_is_as_old_as_its_quarantine(void **state) {
  struct stg_kernel_request request = fixture_request();
  disk_fill(*state, &request, COMPILER);
  char *path = disk_entry_path(*state, &request, COMPILER);
  struct stg_disk_cache *cache = disk_open(*state, STG_DISK_READ_WRITE, NULL);
  assert_true(temp_flip_byte(path, -1));
  set_age(path, INT64_C(90) * 24 * 3600);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  const char *quarantined = temp_path(state, "v1/quarantine");
  assert_int_equal(count_files(quarantined), 1);
  char moved[1200];
  snprintf(moved, sizeof moved, "%s%s", quarantined, strrchr(path, '/'));
  assert_in_range(age_of(moved), 0, 60);
  stg_disk_cache_close(cache);
  stg_free(path);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(an_old_stamp_becomes_now),
      IN_FOLDER(a_stamp_of_this_hour_stays),
      IN_FOLDER(a_stamp_far_in_the_future_becomes_now),
      IN_FOLDER(a_layer_that_is_only_read_is_left_alone),
      IN_FOLDER(a_cache_that_is_only_read_is_left_alone),
      IN_FOLDER(a_stamp_that_cannot_be_set_is_no_matter),
      IN_FOLDER(a_bad_entry_is_as_old_as_its_quarantine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_disk_recipe.c: recipes in folders: one file a graph, kept while it is good, never in the
 * way.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/disk_recipe.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/recipe_fixture.h"
#include "tests/support/temp_folder.h"

/* Of the fixture's recipe. */
static char *path_of(const char *folder, const struct stg_recipe *recipe) {
  struct stg_strbuf path = {0};
  char *name = stg_disk_recipe_name(stg_recipe_key(recipe), recipe->nodes[0].key);
  stg_strbuf_printf(&path, "%s/v1/graphs/%s", folder, name);
  stg_free(name);
  return stg_strbuf_take(&path);
}

static void set_stamp(const char *path, int64_t age_s) {
  struct timespec times[2];
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= age_s;
  times[1] = times[0];
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static struct stat stat_of(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  return info;
}

static stg_status count_one(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct stg_arena arena = {0};
  struct stg_recipe recipe;
  assert_true(item->size_bytes > 500 && item->mtime_unix > 1700000000);
  stg_status status = stg_disk_recipe_read(item->path, &arena, &recipe, reterr);
  *(size_t *)user += status == STG_OK;
  stg_arena_finish(&arena);
  return STG_OK;
}

static size_t count_good(const struct stg_disk_cache *cache) {
  size_t count = 0;
  assert_int_equal(stg_disk_recipe_walk(cache, count_one, &count, NULL), STG_OK);
  return count;
}

static void a_recipe_is_one_file_under_its_keys(void **state) {
  struct stg_disk_cache *cache = disk_open(*state, STG_DISK_READ_WRITE, NULL);
  struct stg_recipe recipe = fixture_recipe();
  assert_true(stg_disk_recipes_are_kept(cache));
  assert_int_equal(count_good(cache), 0);
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  char *path = path_of(*state, &recipe);
  const struct stat before = stat_of(path);
  assert_int_equal(before.st_mode & 0777, 0600);
  /* again: nothing is written */
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  assert_int_equal(stat_of(path).st_ino, before.st_ino);
  recipe.signature = "steer v1 | sm_90 | batch<=32 seq<=64 rows<=8";
  recipe.rows = 8;
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  assert_int_equal(count_files(temp_path(state, "v1/graphs")), 2);
  assert_int_equal(count_files(temp_path(state, "v1/tmp")), 0);
  assert_int_equal(count_good(cache), 2);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void one_that_is_used_gets_a_new_stamp_hourly(void **state) {
  struct stg_disk_cache *cache = disk_open(*state, STG_DISK_READ_WRITE, NULL);
  const struct stg_recipe recipe = fixture_recipe();
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  char *path = path_of(*state, &recipe);
  set_stamp(path, 1800);
  const time_t half_an_hour_ago = stat_of(path).st_mtime;
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  assert_int_equal(stat_of(path).st_mtime, half_an_hour_ago);
  set_stamp(path, 4000);
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  assert_true(stat_of(path).st_mtime > half_an_hour_ago);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void a_bad_one_is_set_aside_and_written_again(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_cache *cache = disk_open(*state, STG_DISK_READ_WRITE, &lines);
  const struct stg_recipe recipe = fixture_recipe();
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  char *path = path_of(*state, &recipe);
  assert_int_equal(truncate(path, 100), 0); /* as after a crash */
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  assert_int_equal(count_files(temp_path(state, "v1/quarantine")), 1);
  assert_int_equal(count_good(cache), 1);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void one_under_another_name_is_bad(void **state) {
  struct stg_disk_cache *cache = disk_open(*state, STG_DISK_READ_WRITE, NULL);
  struct stg_recipe recipe = fixture_recipe();
  struct stg_arena arena = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_OK);
  char *path = path_of(*state, &recipe);
  recipe.rows = 8;
  char *other = path_of(*state, &recipe);
  assert_int_equal(rename(path, other), 0);
  assert_int_equal(stg_disk_recipe_read(other, &arena, &recipe, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "its name is not that of its keys");
  stg_free(path);
  stg_free(other);
  stg_arena_finish(&arena);
  stg_disk_cache_close(cache);
}

static void modes_that_store_nothing_keep_none(void **state) {
  static const enum stg_disk_mode modes[] = {STG_DISK_READ_ONLY, STG_DISK_OFF, STG_DISK_PACKS};
  const struct stg_recipe recipe = fixture_recipe();
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct log_lines lines = {0};
    struct stg_disk_cache *cache = disk_open(*state, modes[i], &lines);
    assert_false(stg_disk_recipes_are_kept(cache));
    assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_E_UNSUPPORTED);
    assert_int_equal(lines.count, 0);
    stg_disk_cache_close(cache);
  }
  assert_int_equal(count_files(*state), 0);
}

static int no_create(void *user, const char *path, int *ret_fd) {
  (void)path;
  (void)ret_fd;
  return *(const int *)user;
}

static void one_that_cannot_be_written_costs_a_line_for_debugging(void **state) {
  int errnum = EROFS;
  struct log_lines lines = {0};
  struct stg_disk_io io = stg_disk_io_default();
  const struct stg_disk_options options = {.path_list = *state,
                                           .log = log_lines_to(&lines, STG_LOG_DEBUG)};
  const struct stg_recipe recipe = fixture_recipe();
  struct stg_disk_cache *cache = NULL;
  io.user = &errnum;
  io.create = no_create;
  assert_int_equal(stg_disk_cache_open_with(&options, &io, &cache, NULL), STG_OK);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(stg_disk_recipe_put(cache, &recipe, NULL), STG_E_IO);
  }
  assert_int_equal(lines.count, 1);
  stg_disk_cache_close(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, temp_folder_setup, temp_folder_teardown)
      CASE(a_recipe_is_one_file_under_its_keys),
      CASE(one_that_is_used_gets_a_new_stamp_hourly),
      CASE(a_bad_one_is_set_aside_and_written_again),
      CASE(one_under_another_name_is_bad),
      CASE(modes_that_store_nothing_keep_none),
      CASE(one_that_cannot_be_written_costs_a_line_for_debugging),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

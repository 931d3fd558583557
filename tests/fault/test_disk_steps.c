/*
 * test_disk_steps.c: every step of writing an entry fails, with every errno that a disk has; real
 * limits and read-only layers too. The kernel is then in memory, and nobody else notices.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/file.h"
#include "tests/fault/faulty_disk.h"
#include "tests/support/temp_folder.h"

static stg_status store(struct stg_disk_cache *cache, stg_error *err) {
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  return stg_disk_cache_store(cache, &request, &image, err);
}

static stg_status find(struct stg_disk_cache *cache) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_hit hit = {0};
  stg_status status = stg_disk_cache_find(cache, &request, NULL, &hit, NULL);
  stg_disk_hit_finish(&hit);
  return status;
}

static void degrades_to_memory_when_any_step_fails(void **state) {
  static const int errnums[] = {ENOSPC, EROFS, EEXIST, ENOENT, EACCES, EIO, EDQUOT, ENOLCK};
  for (enum step step = MAKE_FOLDER; step <= LAST_STEP; step++) {
    for (size_t i = 0; i < sizeof errnums / sizeof errnums[0]; i++) {
      char name[64];
      char root[256];
      char tmp[300];
      struct log_lines lines = {0};
      stg_error err = STG_ERROR_INIT;
      struct faulty faulty = {.step = step, .errnum = errnums[i], .times = 1000};
      snprintf(name, sizeof name, "%s-%d", step_names[step], errnums[i]);
      snprintf(root, sizeof root, "%s", temp_path(state, name));
      struct stg_disk_cache *cache = open_faulty(root, &faulty, &lines);
      assert_int_equal(store(cache, &err), STG_E_IO);
      assert_non_null(strstr(err.message, strerror(errnums[i])));
      assert_int_equal(lines.level[0], STG_LOG_WARN);
      assert_non_null(
          strstr(log_lines_take_one(&lines), "the kernel stays in memory only: cannot "));
      assert_int_equal(find(cache), STG_E_NOT_FOUND);
      assert_int_equal(lines.count, 0);
      assert_int_equal(store(cache, NULL), STG_E_IO);
      assert_int_equal(lines.level[0], STG_LOG_INFO);
      assert_int_equal(lines.count, 1);
      snprintf(tmp, sizeof tmp, "%s/v1/tmp", root);
      assert_int_equal(count_files(tmp), 0);
      faulty.times = 0;
      assert_int_equal(store(cache, NULL), STG_OK);
      assert_int_equal(find(cache), STG_OK);
      stg_disk_cache_close(cache);
    }
  }
}

static void tries_again_when_the_folder_vanishes_under_any_step(void **state) {
  for (enum step step = MAKE_FOLDER; step <= LAST_STEP; step++) {
    struct log_lines lines = {0};
    struct faulty faulty = {.step = step, .errnum = ENOENT, .times = 3};
    struct stg_disk_cache *cache = open_faulty(temp_path(state, step_names[step]), &faulty, &lines);
    assert_int_equal(store(cache, NULL), STG_OK);
    assert_int_equal(faulty.times, 0);
    assert_int_equal(find(cache), STG_OK);
    assert_int_equal(lines.count, 0);
    stg_disk_cache_close(cache);
  }
}

static void takes_a_published_file_that_vanished_for_a_miss(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {.vanish = true};
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "c"), &faulty, &lines);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_int_equal(lines.count, 0);
  stg_disk_cache_close(cache);
}

/* A log at whose first line a file goes: between its listing and its reading, when another one of
 * its key is said to be bad. */
struct removal {
  struct log_lines lines;
  const char *path;
};

static void remove_and_log(void *user, stg_log_level level, const char *message) {
  struct removal *removal = user;
  (void)unlink(removal->path);
  log_lines_add(&removal->lines, level, message);
}

static void takes_a_file_that_vanished_since_it_was_listed_for_a_miss(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-13.0.88");
  disk_fill(root, &request, "nvrtc-12.8.93");
  char *newer = disk_entry_path(root, &request, "nvrtc-13.0.88");
  char *older = disk_entry_path(root, &request, "nvrtc-12.8.93");
  struct removal removal = {.path = older};
  const struct stg_disk_options options = {
      .path_list = root, .log = {.fn = remove_and_log, .user = &removal, .level = STG_LOG_DEBUG}};
  struct stg_disk_cache *cache = NULL;
  assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
  assert_int_equal(truncate(newer, 1), 0);
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_int_not_equal(access(older, F_OK), 0);
  assert_non_null(strstr(log_lines_take_one(&removal.lines), "' is bad: "));
  stg_free(newer);
  stg_free(older);
  stg_disk_cache_close(cache);
}

/* The one file of a cache, damaged. */
static stg_status damage(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  (void)user;
  (void)reterr;
  return truncate(item->path, (off_t)item->size_bytes - 1) == 0 ? STG_OK : STG_E_IO;
}

static void misses_a_bad_entry_that_cannot_be_moved(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "c"), &faulty, &lines);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(stg_disk_cache_walk(cache, damage, NULL, NULL), STG_OK);
  faulty = (struct faulty){.real = faulty.real, .step = RENAME, .errnum = EROFS, .times = 1};
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  const char *line = log_lines_take_one(&lines);
  assert_non_null(strstr(line, "' is bad: "));
  assert_non_null(strstr(line, "; cannot move to quarantine '"));
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_non_null(strstr(log_lines_take_one(&lines), "; moved to quarantine"));
  stg_disk_cache_close(cache);
}

static void a_bad_entry_that_another_process_moved_first_is_no_failure(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "c"), &faulty, &lines);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(stg_disk_cache_walk(cache, damage, NULL, NULL), STG_OK);
  faulty = (struct faulty){.real = faulty.real, .step = RENAME, .errnum = ENOENT, .times = 1};
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_non_null(strstr(log_lines_take_one(&lines), "; moved to quarantine"));
  stg_disk_cache_close(cache);
}

static void leaves_a_bad_entry_of_a_read_only_layer_where_it_is(void **state) {
  char list[512];
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "ro"), &faulty, &lines);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(stg_disk_cache_walk(cache, damage, NULL, NULL), STG_OK);
  stg_disk_cache_close(cache);
  snprintf(list, sizeof list, "%s:%s", temp_path(state, "ro"), temp_path(state, "rw"));
  cache = open_faulty(list, &faulty, &lines);
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_non_null(strstr(log_lines_take_one(&lines), "; left in its read-only folder"));
  assert_int_equal(count_files(temp_path(state, "ro/v1/quarantine")), 0);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(find(cache), STG_OK);
  assert_int_equal(lines.count, 0);
  stg_disk_cache_close(cache);
}

static void stores_again_after_the_folder_was_removed(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "c"), &faulty, &lines);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(rename(temp_path(state, "c"), temp_path(state, "gone")), 0);
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(find(cache), STG_OK);
  assert_int_equal(lines.count, 0);
  stg_disk_cache_close(cache);
}

static void refuses_a_folder_that_became_writable_for_others_after_open(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  stg_error err = STG_ERROR_INIT;
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "c"), &faulty, &lines);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(chmod(temp_path(state, "c"), 0777), 0);
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_non_null(strstr(log_lines_take_one(&lines), "so that others can write it"));
  assert_int_equal(store(cache, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "so that others can write it"));
  stg_disk_cache_close(cache);
}

static void works_from_memory_under_a_path_that_cannot_exist(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  assert_int_equal(stg_file_write_atomic(temp_path(state, "file"), "x", 1, 0600, NULL), STG_OK);
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "file/.cache/s"), &faulty, &lines);
  assert_non_null(strstr(log_lines_take_one(&lines), "cannot read cache folder '"));
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  lines.count = 0;
  assert_int_equal(store(cache, NULL), STG_E_IO);
  assert_non_null(strstr(log_lines_take_one(&lines), "the kernel stays in memory only: "));
  stg_disk_cache_close(cache);
}

static void leaves_nothing_behind_when_a_real_write_hits_a_limit(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  struct rlimit saved;
  stg_error err = STG_ERROR_INIT;
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "c"), &faulty, &lines);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &saved), 0);
  struct rlimit small = {.rlim_cur = 3000, .rlim_max = saved.rlim_max};
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  stg_status status = store(cache, &err);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
  signal(SIGXFSZ, handler);
  assert_int_equal(status, STG_E_IO);
  assert_non_null(strstr(err.message, strerror(EFBIG)));
  assert_int_equal(count_files(temp_path(state, "c/v1/tmp")), 0);
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(find(cache), STG_OK);
  stg_disk_cache_close(cache);
}

static void passes_over_a_folder_in_the_place_of_an_entry(void **state) {
  struct log_lines lines = {0};
  struct faulty faulty = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_key key = {0};
  struct stg_strbuf path = {0};
  struct stg_disk_cache *cache = open_faulty(temp_path(state, "c"), &faulty, &lines);
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  char *name = stg_disk_file_name(key, "nvrtc-99.0.0");
  stg_strbuf_printf(&path, "%s/v1/%.2s/%s", temp_path(state, "c"), name, name);
  assert_int_equal(stg_mkdir_all(path.data, 0700, NULL), STG_OK);
  assert_int_equal(find(cache), STG_E_NOT_FOUND);
  assert_non_null(strstr(log_lines_take_one(&lines), "it is a folder, not a file"));
  assert_int_equal(store(cache, NULL), STG_OK);
  assert_int_equal(find(cache), STG_OK);
  stg_free(name);
  stg_strbuf_finish(&path);
  stg_disk_cache_close(cache);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(degrades_to_memory_when_any_step_fails),
      IN_FOLDER(tries_again_when_the_folder_vanishes_under_any_step),
      IN_FOLDER(takes_a_published_file_that_vanished_for_a_miss),
      IN_FOLDER(takes_a_file_that_vanished_since_it_was_listed_for_a_miss),
      IN_FOLDER(misses_a_bad_entry_that_cannot_be_moved),
      IN_FOLDER(a_bad_entry_that_another_process_moved_first_is_no_failure),
      IN_FOLDER(leaves_a_bad_entry_of_a_read_only_layer_where_it_is),
      IN_FOLDER(stores_again_after_the_folder_was_removed),
      IN_FOLDER(refuses_a_folder_that_became_writable_for_others_after_open),
      IN_FOLDER(works_from_memory_under_a_path_that_cannot_exist),
      IN_FOLDER(leaves_nothing_behind_when_a_real_write_hits_a_limit),
      IN_FOLDER(passes_over_a_folder_in_the_place_of_an_entry),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

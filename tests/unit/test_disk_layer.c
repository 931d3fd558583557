/*
 * test_disk_layer.c: how a cache folder is laid out, whose it must be, where it may move.
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

#include "runtime/base/file.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/temp_folder.h"

static unsigned mode_of(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  return (unsigned)(info.st_mode & 07777);
}

static void lays_its_folder_out_for_one_user_only(void **state) {
  const char *root = temp_path(state, "a/b/c");
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-13.0.88");
  char *path = disk_entry_path(root, &request, "nvrtc-13.0.88");
  assert_int_equal(mode_of(path), 0600);
  *strrchr(path, '/') = '\0';
  assert_int_equal(mode_of(path), 0700);
  assert_int_equal(mode_of(root), 0700);
  assert_int_equal(mode_of(temp_path(state, "a")), 0700);
  assert_int_equal(mode_of(temp_path(state, "a/b/c/v1")), 0700);
  assert_int_equal(mode_of(temp_path(state, "a/b/c/v1/tmp")), 0700);
  assert_int_equal(count_files(temp_path(state, "a/b/c/v1/tmp")), 0);
  stg_free(path);
}

static void marks_its_folder_as_a_cache_for_backup_tools(void **state) {
  static const char signature[] = "Signature: 8a477f597d28d172789f06886806bc55";
  struct stg_kernel_request request = fixture_request();
  char *text = NULL;
  size_t size = 0;
  disk_fill(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  assert_int_equal(stg_file_read(temp_path(state, "c/CACHEDIR.TAG"), 1000, &text, &size, NULL),
                   STG_OK);
  assert_memory_equal(text, signature, sizeof signature - 1);
  stg_free(text);
}

static void makes_no_folder_before_the_first_store(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
  assert_int_equal(access(temp_path(state, "c"), F_OK), -1);
}

static void refuses_folders_that_others_can_write(void **state) {
  static const mode_t modes[] = {0720, 0702, 01777};
  const char *root = temp_path(state, "c");
  assert_int_equal(mkdir(root, 0700), 0);
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct stg_disk_options options = {.path_list = root};
    struct stg_disk_cache *cache = NULL;
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(chmod(root, modes[i]), 0);
    assert_int_equal(stg_disk_cache_open(&options, &cache, &err), STG_E_INVALID);
    assert_non_null(strstr(err.message, "so that others can write it; chmod go-w it, or trust it"));
    assert_non_null(strstr(err.message, root));
    assert_null(cache);
    options.trust = true;
    assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
    stg_disk_cache_close(cache);
  }
}

static void refuses_an_inner_folder_that_others_can_write(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_options options = {.path_list = root};
  struct stg_disk_cache *cache = NULL;
  stg_error err = STG_ERROR_INIT;
  disk_fill(root, &request, "nvrtc-13.0.88");
  assert_int_equal(chmod(temp_path(state, "c/v1"), 0777), 0);
  assert_int_equal(stg_disk_cache_open(&options, &cache, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "/c/v1' has mode 0777"));
}

static void refuses_a_folder_of_another_user(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_disk_options options = {.path_list = root};
  struct stg_disk_cache *cache = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(mkdir(root, 0700), 0);
  if (chown(root, 12345, (gid_t)-1) != 0) {
    print_message("not root: another user's folder cannot be made here\n");
    return;
  }
  assert_int_equal(stg_disk_cache_open(&options, &cache, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "is owned by user 12345, not by user "));
  options.trust = true;
  assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
  stg_disk_cache_close(cache);
}

static void refuses_a_file_given_as_a_folder(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_disk_options options = {.path_list = root};
  struct stg_disk_cache *cache = NULL;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_file_write_atomic(root, "x", 1, 0600, NULL), STG_OK);
  assert_int_equal(stg_disk_cache_open(&options, &cache, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "/c' is not a folder"));
}

static void keeps_its_folder_when_the_process_moves(void **state) {
  char before[1024];
  struct stg_kernel_request request = fixture_request();
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(*state), 0);
  struct stg_disk_cache *cache = disk_open("relative", STG_DISK_READ_WRITE, NULL);
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(access(temp_path(state, "relative/v1"), F_OK), 0);
}

static void hits_in_a_copied_folder(void **state) {
  struct stg_kernel_request request = fixture_request();
  disk_fill(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  assert_int_equal(rename(temp_path(state, "c"), temp_path(state, "moved")), 0);
  struct stg_disk_cache *cache = disk_open(temp_path(state, "moved"), STG_DISK_READ_ONLY, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
}

static void is_empty_until_there_was_an_entry_that_it_reads(void **state) {
  struct stg_kernel_request request = fixture_request();
  const char *root = temp_path(state, "c");
  struct stg_disk_cache *cache = disk_open("", STG_DISK_READ_WRITE, NULL);
  assert_true(stg_disk_cache_is_empty(cache));
  stg_disk_cache_close(cache);
  cache = disk_open(root, STG_DISK_READ_WRITE, NULL);
  assert_true(stg_disk_cache_is_empty(cache));
  assert_int_equal(stg_disk_cache_probe(cache, &request, NULL), STG_OK);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_false(stg_disk_cache_is_empty(cache));
  stg_disk_cache_close(cache);
  char layers[2048];
  snprintf(layers, sizeof layers, "%s:%s", root, temp_path(state, "other"));
  cache = disk_open(layers, STG_DISK_READ_WRITE, NULL);
  assert_false(stg_disk_cache_is_empty(cache));
  stg_disk_cache_close(cache);
  cache = disk_open(root, STG_DISK_REFRESH, NULL);
  assert_true(stg_disk_cache_is_empty(cache));
  stg_disk_cache_close(cache);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(lays_its_folder_out_for_one_user_only),
      IN_FOLDER(marks_its_folder_as_a_cache_for_backup_tools),
      IN_FOLDER(makes_no_folder_before_the_first_store),
      IN_FOLDER(refuses_folders_that_others_can_write),
      IN_FOLDER(refuses_an_inner_folder_that_others_can_write),
      IN_FOLDER(refuses_a_folder_of_another_user),
      IN_FOLDER(refuses_a_file_given_as_a_folder),
      IN_FOLDER(keeps_its_folder_when_the_process_moves),
      IN_FOLDER(hits_in_a_copied_folder),
      IN_FOLDER(is_empty_until_there_was_an_entry_that_it_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

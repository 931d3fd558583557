/*
 * test_build.c: kernels built into a cache folder without a GPU, and found there by a process that
 * has no use for NVRTC.
 *
 * Called with arguments the program is that other process: "warm FOLDER".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/module_cache.h"
#include "tests/nvrtc/nvrtc_test.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

static const struct stg_log no_log;

static struct stg_disk_cache *open_cache(const char *folder, enum stg_disk_mode mode) {
  struct stg_disk_options options = {.path_list = folder, .mode = mode};
  struct stg_disk_cache *disk = NULL;
  stg_error error = STG_ERROR_INIT;
  if (stg_disk_cache_open(&options, &disk, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  return disk;
}

/* Build; true when NVRTC did it. */
static bool build(struct stg_disk_cache *disk, const struct stg_kernel_request *request) {
  bool compiled = false;
  double ms = -1;
  stg_error error = STG_ERROR_INIT;
  if (stg_module_build(disk, request, &no_log, &compiled, &ms, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  assert_true(compiled ? ms > 0 : ms == 0);
  return compiled;
}

static void compiles_once_and_then_finds_it_on_disk(void **state) {
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_counters counters;
  struct stg_disk_cache *disk = open_cache(*state, STG_DISK_READ_WRITE);

  assert_true(build(disk, &request));
  assert_false(build(disk, &request));

  stg_disk_cache_counters(disk, &counters);
  assert_int_equal(counters.stores, 1);
  assert_int_equal(counters.hits, 1);
  assert_int_equal(counters.misses, 1);
  stg_disk_cache_close(disk);
}

static void builds_each_architecture_apart(void **state) {
  struct stg_kernel_request ampere = scale_request("sm_80");
  struct stg_kernel_request hopper = scale_request("sm_90");
  struct stg_disk_cache *disk = open_cache(*state, STG_DISK_READ_WRITE);
  assert_true(build(disk, &ampere));
  assert_true(build(disk, &hopper));
  assert_false(build(disk, &ampere));
  stg_disk_cache_close(disk);
}

static void compiles_again_when_told_to(void **state) {
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_cache *disk = open_cache(*state, STG_DISK_READ_WRITE);
  assert_true(build(disk, &request));
  stg_disk_cache_close(disk);
  disk = open_cache(*state, STG_DISK_REFRESH);
  assert_true(build(disk, &request));
  stg_disk_cache_close(disk);
  disk = open_cache(*state, STG_DISK_READ_WRITE);
  assert_false(build(disk, &request));
  stg_disk_cache_close(disk);
}

static void stores_nothing_of_a_failed_compile(void **state) {
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_cache *disk = open_cache(*state, STG_DISK_READ_WRITE);
  struct stg_disk_counters counters;
  bool compiled = true;
  double ms = 7;
  stg_error error = STG_ERROR_INIT;
  request.prelude = "";

  stg_status status = stg_module_build(disk, &request, &no_log, &compiled, &ms, &error);

  assert_int_equal(status, STG_E_COMPILE);
  assert_non_null(strstr(error.message, "TEST_FACTOR"));
  assert_true(compiled && ms == 7); /* outputs are untouched on failure */
  stg_disk_cache_counters(disk, &counters);
  assert_int_equal(counters.stores, 0);
  stg_disk_cache_close(disk);
}

#define PROCESSES 4
enum { BUILD_HIT = 10, BUILD_COMPILED = 11, BUILD_FAILED = 12 };

/* Build as soon as the pipe says so, by its end; an exit status. */
static int build_when_told(const char *folder, int start) {
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_options options = {.path_list = folder};
  struct stg_disk_cache *disk = NULL;
  bool compiled = false;
  double ms = 0;
  char byte;
  (void)!read(start, &byte, 1);
  stg_status status = stg_disk_cache_open(&options, &disk, NULL);
  if (status == STG_OK) {
    status = stg_module_build(disk, &request, &no_log, &compiled, &ms, NULL);
  }
  stg_disk_cache_close(disk);
  if (status != STG_OK) {
    return BUILD_FAILED;
  }
  return compiled ? BUILD_COMPILED : BUILD_HIT;
}

static void many_processes_that_miss_at_once_compile_once(void **state) {
  pid_t children[PROCESSES];
  int ends[2];
  int n_compiled = 0;
  assert_int_equal(pipe(ends), 0);
  for (size_t i = 0; i < PROCESSES; i++) {
    children[i] = test_fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      close(ends[1]);
      _exit(build_when_told(temp_path(state, "cold"), ends[0]));
    }
  }
  close(ends[0]);
  close(ends[1]);

  for (size_t i = 0; i < PROCESSES; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status));
    assert_in_range(WEXITSTATUS(status), BUILD_HIT, BUILD_COMPILED);
    n_compiled += WEXITSTATUS(status) == BUILD_COMPILED;
  }
  assert_int_equal(n_compiled, 1);
}

static void refuses_a_folder_that_cannot_be_written_before_it_compiles(void **state) {
  struct stg_kernel_request request = scale_request("sm_90");
  bool compiled = true;
  double ms = 7;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(symlink("/nowhere/at/all", temp_path(state, "dangling")), 0);
  struct stg_disk_cache *disk = open_cache(temp_path(state, "dangling"), STG_DISK_READ_WRITE);
  request.prelude = ""; /* a compile would fail, and say so */

  stg_status status = stg_module_build(disk, &request, &no_log, &compiled, &ms, &error);

  assert_int_equal(status, STG_E_IO);
  assert_non_null(strstr(error.message, "dangling"));
  assert_true(compiled && ms == 7);
  stg_disk_cache_close(disk);
}

/* Remembers the one entry of a walk. */
static stg_status note_path(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  (void)reterr;
  snprintf(user, 4096, "%s", item->path);
  return STG_OK;
}

static void flip_middle_byte(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_true(temp_flip_byte(path, (long)info.st_size / 2));
}

static void compiles_a_damaged_entry_again(void **state) {
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_cache *disk = open_cache(*state, STG_DISK_READ_WRITE);
  struct stg_disk_counters counters;
  char path[4096] = "";
  assert_true(build(disk, &request));
  assert_int_equal(stg_disk_cache_walk(disk, note_path, path, NULL), STG_OK);
  flip_middle_byte(path);

  assert_true(build(disk, &request));

  assert_false(build(disk, &request));
  stg_disk_cache_counters(disk, &counters);
  assert_int_equal(counters.quarantined, 1);
  stg_disk_cache_close(disk);
}

/* Run this program again as "warm FOLDER"; its exit status. */
static int run_fresh_process(const char *folder) {
  fflush(NULL);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "test_build", "warm", folder, (char *)NULL);
    _exit(99);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void a_fresh_process_hits_without_loading_nvrtc(void **state) {
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_cache *disk = open_cache(*state, STG_DISK_READ_WRITE);
  assert_true(build(disk, &request));
  stg_disk_cache_close(disk);
  assert_int_equal(run_fresh_process(*state), 0);
}

enum warm_exit { WARM_OK = 0, WARM_FAILED = 1, WARM_COMPILED = 2, WARM_LOADED = 3 };

/* The other process: the entry must be there, and NVRTC must stay out of it. */
static enum warm_exit warm(const char *folder) {
  struct stg_kernel_request request = scale_request("sm_90");
  struct stg_disk_options options = {.path_list = folder, .mode = STG_DISK_READ_ONLY};
  struct stg_disk_cache *disk = NULL;
  bool compiled = false;
  double ms = 0;
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_disk_cache_open(&options, &disk, &error);
  if (status == STG_OK) {
    status = stg_module_build(disk, &request, &no_log, &compiled, &ms, &error);
  }
  stg_disk_cache_close(disk);
  if (status != STG_OK) {
    fprintf(stderr, "%s\n", error.message);
    return WARM_FAILED;
  }
  if (compiled) {
    return WARM_COMPILED;
  }
  return stg_nvrtc_is_loaded() ? WARM_LOADED : WARM_OK;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "warm") == 0) {
    return (int)warm(argv[2]);
  }
  int skip = skip_without_nvrtc();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(compiles_once_and_then_finds_it_on_disk, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(builds_each_architecture_apart, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(compiles_again_when_told_to, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(stores_nothing_of_a_failed_compile, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(compiles_a_damaged_entry_again, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(many_processes_that_miss_at_once_compile_once,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_a_folder_that_cannot_be_written_before_it_compiles,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_fresh_process_hits_without_loading_nvrtc, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

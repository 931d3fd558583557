/*
 * test_disk_kills.c: a process that compiles and stores is killed, a thousand times, at a moment
 * that is drawn. After each time every entry in the folder is whole, and the next process is not
 * hindered by what the last one left: half a file in tmp/, a lock, a missing entry.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <dlfcn.h>

#include <steergraph/cache.h>

#include "runtime/module_cache.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define ROUNDS 1000
#define KERNELS 20
#define LONGEST_US 8000

static char sources[KERNELS][96];

static int open_stub(void **state) {
  (void)state;
  if (dlopen(STG_TEST_STUB_NVRTC, RTLD_NOW | RTLD_LOCAL) == NULL) {
    print_error("%s\n", dlerror());
    return -1;
  }
  for (unsigned i = 0; i < KERNELS; i++) {
    snprintf(sources[i], sizeof sources[i],
             "extern \"C\" __global__ void killed(int x) { /* %u */ }\n", i);
  }
  return 0;
}

static struct stg_kernel_request request_of(unsigned number) {
  struct stg_kernel_request request = fixture_request();
  request.name = "killed";
  request.source = sources[number % KERNELS];
  return request;
}

/* Build for ever, what is there being removed first: every build compiles and stores. */
static void build_until_killed(const char *folder, unsigned first) {
  const struct stg_log no_log = {0};
  const struct stg_disk_options options = {.path_list = folder};
  struct stg_disk_cache *disk = NULL;
  if (stg_disk_cache_open(&options, &disk, NULL) != STG_OK) {
    _exit(1);
  }
  for (unsigned i = first;; i++) {
    const struct stg_kernel_request request = request_of(i);
    bool compiled = false;
    double compile_ms = 0;
    char *path = disk_entry_path(folder, &request, "nvrtc-13.0.88");
    (void)unlink(path);
    stg_free(path);
    if (stg_module_build(disk, &request, &no_log, &compiled, &compile_ms, NULL) != STG_OK) {
      _exit(1);
    }
  }
}

static stg_status must_be_whole(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct stg_disk_hit hit = {0};
  const struct stg_disk_cache *const *disk = user;
  const stg_status status = stg_disk_cache_read(*disk, item->path, &hit, reterr);
  stg_disk_hit_finish(&hit);
  return status;
}

static void expect_whole_entries(const char *folder, unsigned round) {
  const struct stg_disk_options options = {.path_list = folder};
  struct stg_disk_cache *disk = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(stg_disk_cache_open(&options, &disk, NULL), STG_OK);
  if (stg_disk_cache_walk(disk, must_be_whole, &disk, &error) != STG_OK) {
    fail_msg("round %u: %s", round, error.message);
  }
  stg_disk_cache_close(disk);
}

/* Whoever comes after all of them gets every kernel, without a word. */
static void expect_all_can_be_had(const char *folder) {
  struct log_lines lines = {0};
  const struct stg_log log = log_lines_to(&lines, STG_LOG_WARN);
  const struct stg_disk_options options = {.path_list = folder, .log = log};
  struct stg_disk_cache *disk = NULL;
  assert_int_equal(stg_disk_cache_open(&options, &disk, NULL), STG_OK);
  for (unsigned i = 0; i < KERNELS; i++) {
    const struct stg_kernel_request request = request_of(i);
    bool compiled = false;
    double compile_ms = 0;
    assert_int_equal(stg_module_build(disk, &request, &log, &compiled, &compile_ms, NULL), STG_OK);
  }
  assert_int_equal(lines.count, 0);
  stg_disk_cache_close(disk);
}

/* Files that dead writers left go when they are old, and nothing else does. */
static void expect_sweep_takes_what_was_begun(const char *folder) {
  const stg_cache_limits limits = {.struct_size = sizeof limits};
  const stg_cache_gc_result *result = NULL;
  stg_error error = STG_ERROR_INIT;
  char tmp[600], path[1200];
  snprintf(tmp, sizeof tmp, "%s/v1/tmp", folder);
  const size_t begun = count_files(tmp);
  DIR *files = opendir(tmp);
  assert_non_null(files);
  for (const struct dirent *file; (file = readdir(files)) != NULL;) {
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    snprintf(path, sizeof path, "%s/%s", tmp, file->d_name);
    assert_true(file->d_name[0] == '.' || utimensat(AT_FDCWD, path, long_ago, 0) == 0);
  }
  closedir(files);
  assert_true(begun > 0);
  if (stg_cache_gc(folder, &limits, &result, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  assert_int_equal(result->n_victims, begun);
  stg_cache_gc_free(result);
  assert_int_equal(count_files(tmp), 0);
  expect_whole_entries(folder, ROUNDS);
}

static void a_thousand_kills_leave_whole_entries(void **state) {
  const char *given = getenv("STG_TEST_SEED");
  unsigned seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)getpid();
  char folder[512], quarantine[600];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  snprintf(quarantine, sizeof quarantine, "%s/v1/quarantine", folder);
  print_message("STG_TEST_SEED=%u\n", seed);
  for (unsigned round = 0; round < ROUNDS; round++) {
    seed = seed * 1664525u + 1013904223u;
    const struct timespec pause = {.tv_nsec = (long)((seed >> 8) % LONGEST_US) * 1000};
    int status = 0;
    const pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
      build_until_killed(folder, round * 7);
    }
    nanosleep(&pause, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); /* it did not fail before */
    expect_whole_entries(folder, round);
  }
  expect_all_can_be_had(folder);
  assert_int_equal(count_files(quarantine), 0);
  expect_sweep_takes_what_was_begun(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_thousand_kills_leave_whole_entries, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, open_stub, NULL);
}

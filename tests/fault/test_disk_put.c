/*
 * test_disk_put.c: keeping entries that were made elsewhere, while steps fail and processes are
 * killed in the middle: what is in the folder is whole, and the next one goes on from there.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/faulty_disk.h"
#include "tests/fault/numbered_kernel.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define ENTRIES 3
#define PROCESSES 8

/* Entries as they are read from another cache. */
static void read_entries(const char *elsewhere, struct stg_disk_hit *ret_hits) {
  struct stg_disk_cache *cache = disk_open(elsewhere, STG_DISK_READ_WRITE, NULL);
  for (uint32_t i = 0; i < ENTRIES; i++) {
    struct numbered_kernel kernel;
    numbered_kernel_init(&kernel, i);
    assert_int_equal(stg_disk_cache_store(cache, &kernel.request, &kernel.image, NULL), STG_OK);
    assert_int_equal(stg_disk_cache_find(cache, &kernel.request, NULL, &ret_hits[i], NULL), STG_OK);
  }
  stg_disk_cache_close(cache);
}

static void finish_entries(struct stg_disk_hit *hits) {
  for (size_t i = 0; i < ENTRIES; i++) {
    stg_disk_hit_finish(&hits[i]);
  }
}

/* Keep all; how many were not there. No assertions: also for children. */
static stg_status put_all(struct stg_disk_cache *cache, const struct stg_disk_hit *hits,
                          size_t *ret_put, stg_error *err) {
  stg_status status = STG_OK;
  *ret_put = 0;
  for (size_t i = 0; i < ENTRIES && status == STG_OK; i++) {
    bool there = false;
    status = stg_disk_cache_put(cache, &hits[i], false, &there, err);
    *ret_put += status == STG_OK && !there;
  }
  return status;
}

/* How many of the kernels are there, each right; whatever else is there must be good too. */
static stg_status read_one(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct stg_disk_hit hit = {0};
  stg_status status = stg_disk_cache_read(user, item->path, &hit, reterr);
  stg_disk_hit_finish(&hit);
  return status;
}

static size_t count_right(const char *folder) {
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_ONLY, NULL);
  size_t right = 0;
  assert_int_equal(stg_disk_cache_walk(cache, read_one, cache, NULL), STG_OK);
  for (uint32_t i = 0; i < ENTRIES; i++) {
    struct numbered_kernel kernel;
    struct stg_disk_hit hit = {0};
    numbered_kernel_init(&kernel, i);
    if (stg_disk_cache_find(cache, &kernel.request, NULL, &hit, NULL) == STG_OK) {
      assert_true(numbered_kernel_is(&kernel, hit.entry.cubin, hit.entry.cubin_size));
      right++;
    }
    stg_disk_hit_finish(&hit);
  }
  stg_disk_cache_close(cache);
  return right;
}

static void fails_when_any_step_does_and_leaves_nothing(void **state) {
  static const int errnums[] = {ENOSPC, EROFS, EEXIST, ENOENT, EACCES, EIO, EDQUOT, ENOLCK};
  struct stg_disk_hit hits[ENTRIES] = {0};
  read_entries(temp_path(state, "elsewhere"), hits);
  for (enum step step = MAKE_FOLDER; step <= LAST_STEP; step++) {
    for (size_t i = 0; i < sizeof errnums / sizeof errnums[0]; i++) {
      char name[64];
      char folder[256];
      char tmp[300];
      size_t n_put = 0;
      stg_error err = STG_ERROR_INIT;
      struct faulty faulty = {.step = step, .errnum = errnums[i], .times = EVERY_TIME};
      snprintf(name, sizeof name, "%s-%d", step_names[step], errnums[i]);
      snprintf(folder, sizeof folder, "%s", temp_path(state, name));
      snprintf(tmp, sizeof tmp, "%s/v1/tmp", folder);
      struct stg_disk_cache *cache = open_faulty(folder, &faulty, NULL);
      assert_int_equal(put_all(cache, hits, &n_put, &err), STG_E_IO);
      assert_non_null(strstr(err.message, strerror(errnums[i])));
      assert_int_equal(n_put, 0);
      assert_int_equal(count_right(folder), 0);
      assert_int_equal(count_files(tmp), 0);
      faulty.step = NO_STEP;
      assert_int_equal(put_all(cache, hits, &n_put, NULL), STG_OK);
      assert_int_equal(n_put, ENTRIES);
      assert_int_equal(count_right(folder), ENTRIES);
      stg_disk_cache_close(cache);
    }
  }
  finish_entries(hits);
}

static void refuses_what_would_leave_the_folder(void **state) {
  static const char *const compilers[] = {"../../../x", "a/b", ""};
  struct stg_disk_hit hits[ENTRIES] = {0};
  read_entries(temp_path(state, "elsewhere"), hits);
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  for (size_t i = 0; i < sizeof compilers / sizeof compilers[0]; i++) {
    bool there = true;
    hits[0].entry.meta.compiler = compilers[i];
    assert_int_equal(stg_disk_cache_put(cache, &hits[0], false, &there, NULL), STG_E_INVALID);
    assert_true(there);
  }
  stg_disk_cache_close(cache);
  assert_int_equal(count_files(temp_path(state, "c")), 0);
  finish_entries(hits);
}

/* It was right when the cache was opened. */
static void makes_nothing_in_a_folder_that_others_can_write_by_now(void **state) {
  struct stg_disk_hit hits[ENTRIES] = {0};
  size_t n_put = 0;
  stg_error err = STG_ERROR_INIT;
  read_entries(temp_path(state, "elsewhere"), hits);
  assert_int_equal(mkdir(temp_path(state, "c"), 0700), 0);
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_int_equal(chmod(temp_path(state, "c"), 0777), 0);
  assert_int_equal(put_all(cache, hits, &n_put, &err), STG_E_INVALID);
  assert_non_null(strstr(err.message, "has mode 0777"));
  assert_int_equal(count_files(temp_path(state, "c")), 0);
  stg_disk_cache_close(cache);
  finish_entries(hits);
}

/* In a child that dies in the `nth` step; true when it had not that many. */
static bool outlives(const char *folder, const struct stg_disk_hit *hits, unsigned nth) {
  int status = 0;
  fflush(NULL);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct faulty faulty = {.kill_at = nth};
    size_t n_put = 0;
    struct stg_disk_cache *cache = open_faulty(folder, &faulty, NULL);
    _exit(put_all(cache, hits, &n_put, NULL) == STG_OK && n_put == ENTRIES ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return false;
  }
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  return true;
}

static void is_whole_after_a_kill_in_any_step(void **state) {
  struct stg_disk_hit hits[ENTRIES] = {0};
  size_t most = 0;
  unsigned nth = 0;
  bool ended = false;
  read_entries(temp_path(state, "elsewhere"), hits);
  while (!ended) {
    char name[64];
    char folder[256];
    size_t n_put = 0;
    snprintf(name, sizeof name, "killed-%u", ++nth);
    snprintf(folder, sizeof folder, "%s", temp_path(state, name));
    ended = outlives(folder, hits, nth);
    const size_t right = count_right(folder);
    assert_true(right >= most && (right < ENTRIES || ended));
    most = right;
    struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, NULL);
    assert_int_equal(put_all(cache, hits, &n_put, NULL), STG_OK);
    assert_int_equal(n_put, ENTRIES - right);
    assert_int_equal(count_right(folder), ENTRIES);
    stg_disk_cache_close(cache);
  }
  assert_true(nth > 5 * ENTRIES);
  finish_entries(hits);
}

static void many_processes_may_keep_the_same_at_once(void **state) {
  struct stg_disk_hit hits[ENTRIES] = {0};
  pid_t children[PROCESSES];
  char folder[256];
  int ends[2];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  read_entries(temp_path(state, "elsewhere"), hits);
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  for (size_t i = 0; i < PROCESSES; i++) {
    children[i] = test_fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      struct faulty faulty = {0};
      size_t n_put = 0;
      char byte;
      close(ends[1]);
      (void)!read(ends[0], &byte, 1); /* its end */
      _exit(put_all(open_faulty(folder, &faulty, NULL), hits, &n_put, NULL) == STG_OK ? 0 : 1);
    }
  }
  close(ends[0]);
  close(ends[1]);
  for (size_t i = 0; i < PROCESSES; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  assert_int_equal(count_right(folder), ENTRIES);
  assert_int_equal(count_files(temp_path(state, "c/v1/tmp")), 0);
  finish_entries(hits);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(fails_when_any_step_does_and_leaves_nothing),
      IN_FOLDER(refuses_what_would_leave_the_folder),
      IN_FOLDER(makes_nothing_in_a_folder_that_others_can_write_by_now),
      IN_FOLDER(is_whole_after_a_kill_in_any_step),
      IN_FOLDER(many_processes_may_keep_the_same_at_once),
  };
#undef IN_FOLDER
  return cmocka_run_group_tests(tests, NULL, NULL);
}

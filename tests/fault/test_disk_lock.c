/*
 * test_disk_lock.c: what a holder that dies, a holder that hangs and a disk without locks do to
 * those who want the same lock.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): syscall */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/clock.h"
#include "runtime/disk_cache_private.h"
#include "runtime/disk_lock.h"
#include "tests/support/log_lines.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define SHORT_MS 300u
#define LONG_MS 20000u
#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u

/* How much later it is at each look at the clock; 0: as late as it is. */
static atomic_uint_least64_t step_ns, ahead_ns;

/* In the place of libc's, so that half a minute need not be waited for. */
int clock_gettime(clockid_t clock, struct timespec *ret) {
  const uint64_t ahead = atomic_fetch_add(&ahead_ns, atomic_load(&step_ns));
  const int result = (int)syscall(SYS_clock_gettime, clock, ret);
  const uint64_t ns = (uint64_t)ret->tv_nsec + ahead;
  ret->tv_sec += (time_t)(ns / NS_PER_S);
  ret->tv_nsec = (long)(ns % NS_PER_S);
  return result;
}

static const struct stg_key key_ab = {.high = UINT64_C(0xab00000000000000)};

static struct stg_disk_cache *open_cache(const char *folder, uint32_t wait_ms,
                                         struct log_lines *lines) {
  struct stg_disk_options options = {.path_list = folder, .lock_wait_ms = wait_ms};
  struct stg_disk_cache *cache = NULL;
  if (lines != NULL) {
    options.log = log_lines_to(lines, STG_LOG_DEBUG);
  }
  assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
  return cache;
}

/* A child that takes the lock, says so through a pipe, and keeps it. */
static pid_t start_holder(struct stg_disk_cache *cache) {
  int ends[2];
  char byte = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct stg_disk_lock lock = {0};
    byte = stg_disk_lock_take(cache, key_ab, NULL, &lock) ? 'y' : 'n';
    (void)!write(ends[1], &byte, 1);
    for (;;) {
      pause();
    }
  }
  assert_int_equal(read(ends[0], &byte, 1), 1);
  assert_int_equal(byte, 'y');
  close(ends[0]);
  close(ends[1]);
  return child;
}

static void end_holder(pid_t child) {
  int status = 0;
  (void)kill(child, SIGKILL);
  assert_int_equal(waitpid(child, &status, 0), child);
}

static uint64_t ms_since(uint64_t start_ns) {
  return (stg_clock_ns() - start_ns) / NS_PER_MS;
}

static void a_killed_holder_lets_the_next_one_in_at_once(void **state) {
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), LONG_MS, NULL);
  struct stg_disk_lock lock = {0};
  end_holder(start_holder(cache));
  uint64_t start_ns = stg_clock_ns();

  assert_true(stg_disk_lock_take(cache, key_ab, NULL, &lock));

  assert_true(ms_since(start_ns) < LONG_MS / 4);
  stg_disk_lock_give(&lock);
  stg_disk_cache_close(cache);
}

static void a_holder_killed_while_another_waits_lets_it_in(void **state) {
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), LONG_MS, NULL);
  struct stg_disk_lock lock = {0};
  pid_t holder = start_holder(cache);
  pid_t killer = test_fork();
  assert_true(killer >= 0);
  if (killer == 0) {
    const struct timespec while_waiting = {.tv_nsec = 200 * (long)NS_PER_MS};
    nanosleep(&while_waiting, NULL);
    _exit(kill(holder, SIGKILL) == 0 ? 0 : 1);
  }
  uint64_t start_ns = stg_clock_ns();

  assert_true(stg_disk_lock_take(cache, key_ab, NULL, &lock));

  assert_true(ms_since(start_ns) < LONG_MS / 4);
  stg_disk_lock_give(&lock);
  end_holder(killer);
  end_holder(holder);
  stg_disk_cache_close(cache);
}

static void a_stopped_holder_is_waited_for_no_longer_than_the_limit(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), SHORT_MS, &lines);
  struct stg_disk_lock lock = {0};
  pid_t holder = start_holder(cache);
  assert_int_equal(kill(holder, SIGSTOP), 0);
  uint64_t start_ns = stg_clock_ns();

  assert_false(stg_disk_lock_take(cache, key_ab, NULL, &lock));

  uint64_t waited_ms = ms_since(start_ns);
  assert_true(waited_ms >= SHORT_MS && waited_ms < LONG_MS / 4);
  assert_int_equal(lines.count, 1);
  assert_non_null(
      strstr(lines.text[0], "/v1/lock/ab' is held by another process, after 300 ms of waiting"));
  stg_disk_lock_give(&lock); /* not held: nothing */
  end_holder(holder);
  stg_disk_cache_close(cache);
}

static void the_limit_is_half_a_minute_unless_said_otherwise(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), 0, &lines);
  struct stg_disk_lock lock = {0};
  pid_t holder = start_holder(cache);
  uint64_t start_ns = stg_clock_ns();
  atomic_store(&step_ns, 2 * (uint64_t)NS_PER_S);

  const bool taken = stg_disk_lock_take(cache, key_ab, NULL, &lock);

  atomic_store(&step_ns, 0);
  const uint64_t waited_ms = ms_since(start_ns);
  atomic_store(&ahead_ns, 0);
  end_holder(holder);
  assert_false(taken);
  assert_in_range(waited_ms, 30000, 45000); /* with the looks around the wait, and a slow machine */
  assert_int_equal(lines.count, 1);
  assert_non_null(strstr(lines.text[0], "is held by another process, after 30000 ms of waiting"));
  stg_disk_cache_close(cache);
}

static void who_was_waited_for_in_vain_is_not_waited_for_again(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), SHORT_MS, &lines);
  struct stg_disk_lock lock = {0};
  unsigned taken = 0;
  pid_t holder = start_holder(cache);
  taken += stg_disk_lock_take(cache, key_ab, NULL, &lock);
  uint64_t start_ns = stg_clock_ns();
  for (int i = 0; i < 3; i++) {
    taken += stg_disk_lock_take(cache, key_ab, NULL, &lock);
  }
  const uint64_t tried_ms = ms_since(start_ns);
  const uint64_t until_ns = atomic_load(&cache->hung_until_ns[0xab]);
  atomic_store(&cache->hung_until_ns[0xab], start_ns); /* a minute later */
  start_ns = stg_clock_ns();
  taken += stg_disk_lock_take(cache, key_ab, NULL, &lock);
  const uint64_t waited_ms = ms_since(start_ns);
  end_holder(holder);

  assert_int_equal(taken, 0);
  assert_true(tried_ms < SHORT_MS);
  assert_true(until_ns > start_ns);
  assert_true(waited_ms >= SHORT_MS);
  assert_int_equal(lines.count, 5);
  assert_int_equal(lines.level[0], STG_LOG_WARN);
  assert_int_equal(lines.level[1], STG_LOG_DEBUG);
  assert_non_null(strstr(lines.text[1], "/v1/lock/ab' is held by another"));
  assert_int_equal(lines.level[4], STG_LOG_WARN);
  stg_disk_cache_close(cache);
}

static void a_holder_that_came_back_is_trusted_again(void **state) {
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), SHORT_MS, NULL);
  struct stg_disk_lock lock = {0};
  pid_t holder = start_holder(cache);
  assert_false(stg_disk_lock_take(cache, key_ab, NULL, &lock));
  end_holder(holder);

  assert_true(stg_disk_lock_take(cache, key_ab, NULL, &lock)); /* the first try gets it */

  assert_int_equal(atomic_load(&cache->hung_until_ns[0xab]), 0);
  stg_disk_lock_give(&lock);
  stg_disk_cache_close(cache);
}

static void a_lock_that_is_only_tried_is_never_waited_for(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), LONG_MS, &lines);
  struct stg_disk_lock first = {0}, second = {0};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(stg_disk_lock_try(cache, "gc", &first, &error), STG_OK);
  uint64_t start_ns = stg_clock_ns();

  assert_int_equal(stg_disk_lock_try(cache, "gc", &second, &error), STG_E_BUSY);

  assert_true(ms_since(start_ns) < LONG_MS / 4);
  assert_non_null(strstr(error.message, "/v1/lock/gc' is held by another"));
  assert_false(second.held);
  assert_int_equal(lines.count, 0);
  stg_disk_lock_give(&first);
  assert_int_equal(stg_disk_lock_try(cache, "gc", &second, &error), STG_OK);
  stg_disk_lock_give(&second);
  stg_disk_cache_close(cache);
}

static void another_key_does_not_wait(void **state) {
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), SHORT_MS, NULL);
  const struct stg_key key_cd = {.high = UINT64_C(0xcd00000000000000)};
  struct stg_disk_lock lock = {0};
  pid_t holder = start_holder(cache);
  assert_true(stg_disk_lock_take(cache, key_cd, NULL, &lock));
  stg_disk_lock_give(&lock);
  end_holder(holder);
  stg_disk_cache_close(cache);
}

/* A child forked while the lock is held shares it: it must be free when given, all the same. */
static void a_child_forked_meanwhile_keeps_nobody_out(void **state) {
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), SHORT_MS, NULL);
  struct stg_disk_lock lock = {0};
  assert_true(stg_disk_lock_take(cache, key_ab, NULL, &lock));
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (;;) {
      pause();
    }
  }
  stg_disk_lock_give(&lock);
  assert_true(stg_disk_lock_take(cache, key_ab, NULL, &lock));
  stg_disk_lock_give(&lock);
  end_holder(child);
  stg_disk_cache_close(cache);
}

static void makes_one_private_file_and_leaves_it(void **state) {
  struct stg_disk_cache *cache = open_cache(temp_path(state, "c"), SHORT_MS, NULL);
  struct stg_disk_lock lock = {0};
  struct stat info;
  for (int i = 0; i < 3; i++) {
    assert_true(stg_disk_lock_take(cache, key_ab, NULL, &lock));
    stg_disk_lock_give(&lock);
  }
  assert_int_equal(stat(temp_path(state, "c/v1/lock/ab"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0600);
  assert_int_equal(info.st_size, 0);
  stg_disk_cache_close(cache);
}

/* Not held, twice, and one line about it. */
static void expect_no_lock(struct stg_disk_cache *cache, const struct log_lines *lines,
                           const char *why) {
  struct stg_disk_lock lock = {0};
  assert_false(stg_disk_lock_take(cache, key_ab, NULL, &lock));
  assert_false(stg_disk_lock_take(cache, key_ab, NULL, &lock));
  assert_int_equal(lines->count, 1);
  assert_int_equal(lines->level[0], STG_LOG_INFO);
  assert_non_null(strstr(lines->text[0], why));
  stg_disk_cache_close(cache);
}

static void a_file_in_the_folder_s_place_is_no_lock(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_cache *cache = open_cache(*state, SHORT_MS, &lines);
  assert_int_equal(mkdir(temp_path(state, "v1"), 0700), 0);
  FILE *file = fopen(temp_path(state, "v1/lock"), "w");
  assert_non_null(file);
  fclose(file);
  expect_no_lock(cache, &lines, strerror(ENOTDIR));
}

static int refuse_folder(void *user, const char *path) {
  (void)path;
  return *(const int *)user;
}

static int refuse_open(void *user, const char *path, int *ret_fd) {
  (void)path;
  (void)ret_fd;
  return *(const int *)user;
}

static int refuse_lock(void *user, int fd) {
  (void)fd;
  return *(const int *)user;
}

static struct stg_disk_cache *open_with(const char *folder, const struct stg_disk_io *io,
                                        struct log_lines *lines) {
  struct stg_disk_options options = {.path_list = folder,
                                     .log = log_lines_to(lines, STG_LOG_DEBUG)};
  struct stg_disk_cache *cache = NULL;
  assert_int_equal(stg_disk_cache_open_with(&options, io, &cache, NULL), STG_OK);
  return cache;
}

static void every_step_that_fails_costs_the_lock_alone(void **state) {
  static const int errnums[] = {EACCES, EROFS, ENOSPC, ENOENT, ENOLCK};
  for (size_t i = 0; i < sizeof errnums / sizeof errnums[0]; i++) {
    for (int step = 0; step < 3; step++) {
      struct stg_disk_io io = stg_disk_io_default();
      struct log_lines lines = {0};
      int errnum = errnums[i];
      if (step == 0) {
        io.make_folder = refuse_folder;
      } else if (step == 1) {
        io.open_lock = refuse_open;
      } else {
        io.try_lock = refuse_lock;
      }
      io.user = &errnum;
      expect_no_lock(open_with(*state, &io, &lines), &lines, strerror(errnum));
    }
  }
}

static void a_cache_that_stores_nothing_locks_nothing(void **state) {
  static const enum stg_disk_mode modes[] = {STG_DISK_READ_ONLY, STG_DISK_OFF, STG_DISK_REFRESH};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct log_lines lines = {0};
    struct stg_disk_options options = {
        .path_list = *state, .mode = modes[i], .log = log_lines_to(&lines, STG_LOG_DEBUG)};
    struct stg_disk_cache *cache = NULL;
    struct stg_disk_lock lock = {0};
    assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
    assert_false(stg_disk_lock_take(cache, key_ab, NULL, &lock));
    assert_int_equal(lines.count, 0);
    stg_disk_cache_close(cache);
  }
  assert_int_not_equal(access(temp_path(state, "v1"), F_OK), 0);
}

#define ROUNDS 20

struct shared {
  struct stg_disk_cache *cache;
  atomic_int inside;
  atomic_int wrong;
};

static void *enter_many_times(void *user) {
  struct shared *shared = user;
  const struct timespec inside = {.tv_nsec = (long)NS_PER_MS};
  for (int i = 0; i < ROUNDS; i++) {
    struct stg_disk_lock lock = {0};
    bool held = stg_disk_lock_take(shared->cache, key_ab, NULL, &lock);
    int before = atomic_fetch_add(&shared->inside, 1);
    atomic_fetch_add(&shared->wrong, !held || before != 0);
    nanosleep(&inside, NULL);
    atomic_fetch_sub(&shared->inside, 1);
    stg_disk_lock_give(&lock);
  }
  return NULL;
}

static void two_threads_are_never_inside_together(void **state) {
  struct shared shared = {.cache = open_cache(temp_path(state, "c"), LONG_MS, NULL)};
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, enter_many_times, &shared), 0);
  }
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  assert_int_equal(atomic_load(&shared.wrong), 0);
  stg_disk_cache_close(shared.cache);
}

#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_killed_holder_lets_the_next_one_in_at_once),
      IN_FOLDER(a_holder_killed_while_another_waits_lets_it_in),
      IN_FOLDER(a_stopped_holder_is_waited_for_no_longer_than_the_limit),
      IN_FOLDER(the_limit_is_half_a_minute_unless_said_otherwise),
      IN_FOLDER(who_was_waited_for_in_vain_is_not_waited_for_again),
      IN_FOLDER(a_holder_that_came_back_is_trusted_again),
      IN_FOLDER(a_lock_that_is_only_tried_is_never_waited_for),
      IN_FOLDER(another_key_does_not_wait),
      IN_FOLDER(a_child_forked_meanwhile_keeps_nobody_out),
      IN_FOLDER(makes_one_private_file_and_leaves_it),
      IN_FOLDER(a_file_in_the_folder_s_place_is_no_lock),
      IN_FOLDER(every_step_that_fails_costs_the_lock_alone),
      IN_FOLDER(a_cache_that_stores_nothing_locks_nothing),
      IN_FOLDER(two_threads_are_never_inside_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

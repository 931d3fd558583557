/*
 * test_disk_processes.c: many processes on one folder, some of which clear it or are killed.
 */
#include <dirent.h>
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

#include <cmocka.h>

#include "runtime/disk_cache.h"
#include "runtime/disk_evict.h"
#include "tests/fault/numbered_kernel.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define PROCESSES 16
#define KERNELS 50

/* Exit statuses of the children. */
enum { FINE = 0, CANNOT_OPEN = 1, FIND_FAILED = 2, WRONG_BYTES = 3, NO_HIT = 4, COMPLAINED = 5 };

static struct stg_disk_cache *open_cache(const char *folder, struct stg_log log) {
  struct stg_disk_options options = {.path_list = folder, .log = log};
  struct stg_disk_cache *cache = NULL;
  return stg_disk_cache_open(&options, &cache, NULL) == STG_OK ? cache : NULL;
}

static void count_warning(void *user, stg_log_level level, const char *message) {
  (void)message;
  *(unsigned *)user += level <= STG_LOG_WARN;
}

/* Ask for every kernel, "compile" what is missing, as a service does at its start. */
static int serve(const char *folder, uint32_t first, unsigned *ret_hits) {
  unsigned warnings = 0;
  struct stg_disk_cache *cache =
      open_cache(folder, (struct stg_log){.fn = count_warning, .user = &warnings});
  int result = cache == NULL ? CANNOT_OPEN : FINE;
  for (uint32_t i = 0; i < KERNELS && result == FINE; i++) {
    struct numbered_kernel kernel;
    struct stg_disk_hit hit = {0};
    numbered_kernel_init(&kernel, (first + i) % KERNELS);
    stg_status status = stg_disk_cache_find(cache, &kernel.request, NULL, &hit, NULL);
    if (status == STG_E_NOT_FOUND) {
      (void)stg_disk_cache_store(cache, &kernel.request, &kernel.image, NULL);
    } else if (status != STG_OK) {
      result = FIND_FAILED;
    } else {
      result =
          numbered_kernel_is(&kernel, hit.entry.cubin, hit.entry.cubin_size) ? FINE : WRONG_BYTES;
      *ret_hits += 1;
    }
    stg_disk_hit_finish(&hit);
  }
  stg_disk_cache_close(cache);
  return result == FINE && warnings != 0 ? COMPLAINED : result;
}

/* Remove what is in a folder and the folder, while others write into it. */
static void clear_folder(const char *path) {
  static const char *const inner[] = {"v1", "v1/tmp", "v1/quarantine"};
  char part[600];
  for (unsigned shard = 0; shard < 256 + 3; shard++) {
    if (shard < 256) {
      snprintf(part, sizeof part, "%s/v1/%02x", path, shard);
    } else {
      snprintf(part, sizeof part, "%s/%s", path, inner[shard - 256]);
    }
    DIR *folder = opendir(part);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
      char file[900];
      snprintf(file, sizeof file, "%s/%s", part, entry->d_name);
      (void)unlink(file);
    }
    if (folder != NULL) {
      closedir(folder);
    }
    (void)rmdir(part);
  }
  snprintf(part, sizeof part, "%s/CACHEDIR.TAG", path);
  (void)unlink(part);
  snprintf(part, sizeof part, "%s/v1", path);
  (void)rmdir(part);
  (void)rmdir(path);
}

static void pause_ms(long ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* Wait for all children; none may say anything but FINE. */
static void join(const pid_t *children, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), FINE);
  }
}

static void start_all(const char *folder, pid_t *children) {
  for (uint32_t i = 0; i < PROCESSES; i++) {
    children[i] = test_fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      unsigned hits = 0;
      _exit(serve(folder, i * 3, &hits));
    }
  }
}

static void many_processes_share_a_cold_folder(void **state) {
  pid_t children[PROCESSES];
  unsigned hits = 0;
  start_all(temp_path(state, "c"), children);
  join(children, PROCESSES);
  assert_int_equal(serve(temp_path(state, "c"), 0, &hits), FINE);
  assert_int_equal(hits, KERNELS);
}

static pid_t start_clearer(const char *folder) {
  pid_t clearer = test_fork();
  assert_true(clearer >= 0);
  if (clearer == 0) {
    for (;;) {
      clear_folder(folder);
      pause_ms(1);
    }
  }
  return clearer;
}

/* A store may give up after many vanished folders, and then says so; bytes are never wrong. */
static void join_complaining(const pid_t *children, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == FINE || WEXITSTATUS(status) == COMPLAINED);
  }
}

static void many_processes_outlive_one_that_clears_the_folder(void **state) {
  pid_t children[PROCESSES];
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  pid_t clearer = start_clearer(folder);
  start_all(folder, children);
  join_complaining(children, PROCESSES);
  assert_int_equal(kill(clearer, SIGKILL), 0);
  assert_int_equal(waitpid(clearer, NULL, 0), clearer);
  unsigned hits = 0;
  assert_int_equal(serve(folder, 0, &hits), FINE);
  hits = 0;
  assert_int_equal(serve(folder, 0, &hits), FINE);
  assert_int_equal(hits, KERNELS);
}

/* Remove all that is there, as `gc` does. */
static void collect_all(const char *folder) {
  const struct stg_disk_io io = stg_disk_io_default();
  const struct stg_disk_limits everything = {.older_than_s = 0};
  struct stg_disk_content content = {0};
  char root[512];
  snprintf(root, sizeof root, "%s", folder);
  const struct stg_disk_layer layer = {.root = root};
  if (stg_disk_scan(&layer, &content, NULL) == STG_OK) {
    stg_disk_choose(&content, &everything, stg_disk_now_ns());
  }
  for (size_t i = 0; i < content.count; i++) {
    if (content.items[i].why != NULL) {
      (void)stg_disk_remove(&io, &content.items[i], NULL);
    }
  }
  stg_disk_content_finish(&content);
}

static pid_t start_collector(const char *folder) {
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (;;) {
      collect_all(folder);
      pause_ms(1);
    }
  }
  return child;
}

static void end(pid_t child) {
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
}

/* It takes no folder and no file that is being written, so nobody even complains. */
static void many_processes_outlive_one_that_evicts_all(void **state) {
  pid_t children[PROCESSES];
  char folder[512];
  unsigned hits = 0;
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  pid_t collector = start_collector(folder);
  start_all(folder, children);
  join(children, PROCESSES);
  end(collector);
  assert_int_equal(serve(folder, 0, &hits), FINE);
  hits = 0;
  assert_int_equal(serve(folder, 0, &hits), FINE);
  assert_int_equal(hits, KERNELS);
}

static void a_collector_outlives_one_that_clears_the_folder(void **state) {
  pid_t children[PROCESSES];
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  pid_t collector = start_collector(folder);
  pid_t clearer = start_clearer(folder);
  start_all(folder, children);
  join_complaining(children, PROCESSES);
  end(clearer);
  int status = 0;
  assert_int_equal(waitpid(collector, &status, WNOHANG), 0); /* it lives */
  end(collector);
  unsigned hits = 0;
  assert_int_equal(serve(folder, 0, &hits), FINE);
}

/* A walk that reads what it visits. */
struct reader {
  const struct stg_disk_cache *cache;
  size_t good;
};

static stg_status must_be_good(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct reader *reader = user;
  struct stg_disk_hit hit = {0};
  stg_status status = stg_disk_cache_read(reader->cache, item->path, &hit, reterr);
  stg_disk_hit_finish(&hit);
  reader->good++;
  return status;
}

static void a_killed_writer_leaves_no_bad_entry(void **state) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  for (long round = 0; round < 20; round++) {
    pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
      struct stg_disk_cache *cache = open_cache(folder, (struct stg_log){0});
      for (uint32_t i = 0;; i++) {
        struct numbered_kernel kernel;
        numbered_kernel_init(&kernel, i % KERNELS);
        (void)stg_disk_cache_store(cache, &kernel.request, &kernel.image, NULL);
      }
    }
    pause_ms(3 + round);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
  }
  struct stg_disk_cache *cache = open_cache(folder, (struct stg_log){0});
  assert_non_null(cache);
  struct reader reader = {.cache = cache};
  assert_int_equal(stg_disk_cache_walk(cache, must_be_good, &reader, NULL), STG_OK);
  assert_true(reader.good > 0);
  stg_disk_cache_close(cache);
}

static void another_home_and_working_folder_hit_the_same_entries(void **state) {
  unsigned hits = 0;
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  assert_int_equal(serve(folder, 0, &hits), FINE);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    hits = 0;
    (void)setenv("HOME", "/nonexistent", 1);
    (void)setenv("XDG_CACHE_HOME", "/nonexistent", 1);
    (void)chdir("/");
    int result = serve(folder, 0, &hits);
    _exit(result != FINE || hits == KERNELS ? result : NO_HIT);
  }
  join(&child, 1);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(many_processes_share_a_cold_folder),
      IN_FOLDER(many_processes_outlive_one_that_clears_the_folder),
      IN_FOLDER(many_processes_outlive_one_that_evicts_all),
      IN_FOLDER(a_collector_outlives_one_that_clears_the_folder),
      IN_FOLDER(a_killed_writer_leaves_no_bad_entry),
      IN_FOLDER(another_home_and_working_folder_hit_the_same_entries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

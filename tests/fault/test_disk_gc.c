/*
 * test_disk_gc.c: a folder under its limits, with ten thousand entries, with others at work, and
 * with a disk that refuses to let go.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

#include "runtime/disk_lock.h"
#include "tests/fault/numbered_kernel.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_fork.h"

#define MANY 10000u
#define SHARE 16 /* of the limit: how many a process may store between two looks */

/* Flushing ten thousand times is the disk's test, not ours. */
static struct stg_disk_cache *open_bounded(const char *folder, uint64_t bytes, uint64_t entries,
                                           struct stg_disk_io io, struct log_lines *lines) {
  struct stg_disk_options options = {
      .path_list = folder, .max_bytes = bytes, .max_entries = entries};
  struct stg_disk_cache *cache = NULL;
  io.sync_and_close = io.close;
  if (lines != NULL) {
    options.log = log_lines_to(lines, STG_LOG_INFO);
  }
  assert_int_equal(stg_disk_cache_open_with(&options, &io, &cache, NULL), STG_OK);
  return cache;
}

static void store(struct stg_disk_cache *cache, uint32_t number) {
  struct numbered_kernel kernel;
  numbered_kernel_init(&kernel, number);
  assert_int_equal(stg_disk_cache_store(cache, &kernel.request, &kernel.image, NULL), STG_OK);
}

static bool finds(struct stg_disk_cache *cache, uint32_t number) {
  struct numbered_kernel kernel;
  struct stg_disk_hit hit = {0};
  numbered_kernel_init(&kernel, number);
  bool found = stg_disk_cache_find(cache, &kernel.request, NULL, &hit, NULL) == STG_OK;
  assert_true(!found || numbered_kernel_is(&kernel, hit.entry.cubin, hit.entry.cubin_size));
  stg_disk_hit_finish(&hit);
  return found;
}

/* What the folder holds, as anybody sees it. */
static void measure(const char *folder, uint64_t *ret_bytes, uint64_t *ret_files) {
  char root[512];
  struct stg_disk_content content = {0};
  snprintf(root, sizeof root, "%s", folder);
  const struct stg_disk_layer layer = {.root = root};
  assert_int_equal(stg_disk_scan(&layer, &content, NULL), STG_OK);
  *ret_bytes = 0;
  *ret_files = content.count;
  for (size_t i = 0; i < content.count; i++) {
    *ret_bytes += content.items[i].size_bytes;
  }
  stg_disk_content_finish(&content);
}

static uint64_t entry_bytes(void **state) {
  uint64_t bytes = 0, files = 0;
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "one"));
  struct stg_disk_cache *cache = open_bounded(folder, 0, 0, stg_disk_io_default(), NULL);
  store(cache, MANY);
  stg_disk_cache_close(cache);
  measure(folder, &bytes, &files);
  assert_int_equal(files, 1);
  return bytes;
}

/* Store ten thousand; after each hundred the folder is under both limits, and not far under. */
static void store_many(const char *folder, uint64_t bytes, uint64_t entries, uint64_t least) {
  struct log_lines lines = {0};
  struct stg_disk_cache *cache =
      open_bounded(folder, bytes, entries, stg_disk_io_default(), &lines);
  uint64_t has_bytes = 0, has_files = 0;
  for (uint32_t i = 0; i < MANY; i++) {
    store(cache, i);
    if (i % 100 == 99) {
      measure(folder, &has_bytes, &has_files);
      assert_true(has_bytes <= bytes && has_files <= entries);
      assert_true(has_files >= (i < least ? i + 1 : least));
      assert_true(finds(cache, i)); /* the newest stays */
    }
  }
  assert_false(finds(cache, 0));
  struct stg_disk_counters counters;
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.evictions, MANY - has_files);
  assert_true(counters.evicted_bytes > counters.evictions * (has_bytes / has_files - 16));
  assert_true(counters.evicted_bytes < counters.evictions * (has_bytes / has_files + 16));
  assert_true(lines.count > 1);
  assert_int_equal(lines.level[0], STG_LOG_INFO);
  assert_non_null(strstr(lines.text[0], "evicted "));
  assert_non_null(strstr(lines.text[0], " entries, "));
  assert_non_null(strstr(lines.text[0], " stay"));
  stg_disk_cache_close(cache);
}

static void ten_thousand_entries_stay_under_a_size(void **state) {
  const uint64_t size = entry_bytes(state) * 500;
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  store_many(folder, size, STG_DISK_NO_LIMIT, 440);
}

static void ten_thousand_entries_stay_under_a_number(void **state) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  store_many(folder, STG_DISK_NO_LIMIT, 500, 440);
}

static void set_age(const char *folder, uint32_t number, int64_t age_s) {
  const struct timespec stamps[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};
  struct numbered_kernel kernel;
  numbered_kernel_init(&kernel, number);
  char *path = disk_entry_path(folder, &kernel.request, "nvrtc-13.0.88");
  assert_int_equal(utimensat(AT_FDCWD, path, stamps, 0), 0);
  stg_free(path);
}

/* Entries 0 to 9, number n unused for 100000 - n seconds. */
static void fill(const char *folder) {
  struct stg_disk_cache *cache = open_bounded(folder, 0, 0, stg_disk_io_default(), NULL);
  for (uint32_t i = 0; i < 10; i++) {
    store(cache, i);
    set_age(folder, i, 100000 - (int64_t)i);
  }
  stg_disk_cache_close(cache);
}

static void what_is_used_outlives_what_is_not(void **state) {
  const char *folder = *state;
  fill(folder);
  struct stg_disk_cache *cache = open_bounded(folder, 0, 10, stg_disk_io_default(), NULL);
  assert_true(finds(cache, 0)); /* the oldest, which is stamped by that */
  store(cache, 10);             /* the eleventh: nine stay */
  assert_true(finds(cache, 0));
  assert_false(finds(cache, 1));
  assert_false(finds(cache, 2));
  assert_true(finds(cache, 3));
  assert_true(finds(cache, 10));
  stg_disk_cache_close(cache);
}

/* A disk on which, as the first file goes, another process comes to use entry 1. */
struct meddler {
  const char *folder;
  unsigned removed;
};

static int remove_and_meddle(void *user, const char *path) {
  struct meddler *meddler = user;
  if (meddler->removed++ == 0) {
    set_age(meddler->folder, 1, 0);
  }
  return unlink(path) == 0 ? 0 : errno;
}

static void what_is_used_at_the_last_moment_stays(void **state) {
  struct meddler meddler = {.folder = *state};
  struct stg_disk_io io = stg_disk_io_default();
  fill(*state);
  io.remove = remove_and_meddle;
  io.user = &meddler;
  struct stg_disk_cache *cache = open_bounded(*state, 0, 10, io, NULL);
  store(cache, 10);
  assert_false(finds(cache, 0));
  assert_true(finds(cache, 1));
  assert_true(finds(cache, 2));
  assert_int_equal(meddler.removed, 1);
  stg_disk_cache_close(cache);
}

static void an_entry_in_use_stays_usable_when_it_goes(void **state) {
  struct numbered_kernel kernel;
  struct stg_disk_hit hit = {0};
  struct stg_entry again;
  struct stg_arena arena = {0};
  fill(*state);
  struct stg_disk_cache *cache = open_bounded(*state, 1, 0, stg_disk_io_default(), NULL);
  numbered_kernel_init(&kernel, 5);
  assert_int_equal(stg_disk_cache_find(cache, &kernel.request, NULL, &hit, NULL), STG_OK);

  store(cache, 10);

  assert_false(finds(cache, 5));
  assert_int_not_equal(access(hit.path, F_OK), 0);
  assert_true(numbered_kernel_is(&kernel, hit.entry.cubin, hit.entry.cubin_size));
  assert_int_equal(stg_entry_decode(hit.bytes, hit.size, &arena, &again, NULL), STG_OK);
  stg_arena_finish(&arena);
  stg_disk_hit_finish(&hit);
  stg_disk_cache_close(cache);
}

/* A child that holds v1/lock/gc. */
static pid_t start_collector(struct stg_disk_cache *cache) {
  int ends[2];
  char byte = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = test_fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct stg_disk_lock lock = {0};
    byte = stg_disk_lock_try(cache, "gc", &lock, NULL) == STG_OK ? 'y' : 'n';
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

static void who_evicts_already_is_left_to_it(void **state) {
  fill(*state);
  struct stg_disk_cache *cache = open_bounded(*state, 0, 5, stg_disk_io_default(), NULL);
  pid_t collector = start_collector(cache);
  store(cache, 10);
  const bool all_stay = finds(cache, 0); /* eleven, and nobody waited */
  assert_int_equal(kill(collector, SIGKILL), 0);
  assert_int_equal(waitpid(collector, NULL, 0), collector);
  assert_true(all_stay);
  store(cache, 11);
  assert_false(finds(cache, 1));
  stg_disk_cache_close(cache);
}

static int refuse(void *user, const char *path) {
  (void)path;
  ++*(unsigned *)user;
  return EACCES;
}

static void a_disk_that_lets_nothing_go_is_said_once(void **state) {
  struct stg_disk_io io = stg_disk_io_default();
  struct log_lines lines = {0};
  unsigned refused = 0;
  fill(*state);
  io.remove = refuse;
  io.user = &refused;
  struct stg_disk_cache *cache = open_bounded(*state, 0, 5, io, &lines);
  store(cache, 10);
  store(cache, 11);
  assert_true(refused > 1);
  assert_int_equal(lines.count, 1);
  assert_int_equal(lines.level[0], STG_LOG_INFO);
  assert_non_null(strstr(lines.text[0], "is not kept under its limits: cannot remove '"));
  assert_non_null(strstr(lines.text[0], strerror(EACCES)));
  stg_disk_cache_close(cache);
}

static int no_lock(void *user, int fd) {
  (void)user;
  (void)fd;
  return ENOLCK;
}

static void a_disk_without_locks_is_kept_under_its_limits_too(void **state) {
  struct stg_disk_io io = stg_disk_io_default();
  uint64_t bytes = 0, files = 0;
  fill(*state);
  io.try_lock = no_lock;
  struct stg_disk_cache *cache = open_bounded(*state, 0, 10, io, NULL);
  store(cache, 10);
  stg_disk_cache_close(cache);
  measure(*state, &bytes, &files);
  assert_int_equal(files, 9);
}

static void no_limit_is_no_limit(void **state) {
  fill(*state);
  struct stg_disk_cache *cache =
      open_bounded(*state, STG_DISK_NO_LIMIT, STG_DISK_NO_LIMIT, stg_disk_io_default(), NULL);
  store(cache, 10);
  for (uint32_t i = 0; i <= 10; i++) {
    assert_true(finds(cache, i));
  }
  stg_disk_cache_close(cache);
}

/* A killed writer's file, and bad entries of long ago, go with the next look, whatever the limits.
 */
static void leftovers_go_by_themselves(void **state) {
  const struct timespec stamps[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 4000}};
  fill(*state);
  FILE *file = fopen(temp_path(state, "v1/tmp/killed.tmp"), "w");
  assert_non_null(file);
  fclose(file);
  assert_int_equal(utimensat(AT_FDCWD, temp_path(state, "v1/tmp/killed.tmp"), stamps, 0), 0);
  struct stg_disk_cache *cache = open_bounded(*state, 0, 0, stg_disk_io_default(), NULL);
  store(cache, 10);
  assert_int_not_equal(access(temp_path(state, "v1/tmp/killed.tmp"), F_OK), 0);
  assert_true(finds(cache, 0));
  stg_disk_cache_close(cache);
}

/* Another process fills the folder almost up to the limit; how many of our own stores bring it
 * under it again, although they are few. */
static uint32_t stores_until_a_look(const char *folder, uint64_t bytes, uint64_t entries,
                                    uint32_t others) {
  uint64_t has_bytes = 0, has_files = 0;
  uint32_t stored = 0;
  struct stg_disk_cache *ours = open_bounded(folder, bytes, entries, stg_disk_io_default(), NULL);
  struct stg_disk_cache *other = open_bounded(folder, bytes, entries, stg_disk_io_default(), NULL);
  store(ours, MANY); /* looks, and sees one */
  for (uint32_t i = 0; i < others; i++) {
    store(other, i);
  }
  measure(folder, &has_bytes, &has_files);
  assert_int_equal(has_files, others + 1);
  for (uint64_t before = 0; has_files > before && stored < 100; stored++) {
    before = has_files;
    store(ours, MANY + 1 + stored);
    measure(folder, &has_bytes, &has_files);
  }
  assert_true(has_bytes <= bytes && has_files <= entries);
  stg_disk_cache_close(other);
  stg_disk_cache_close(ours);
  return stored;
}

static void a_look_comes_after_32_stores_or_a_16th_of_a_limit(void **state) {
  const uint64_t size = entry_bytes(state);
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "a"));
  assert_int_equal(stores_until_a_look(folder, STG_DISK_NO_LIMIT, 1600, 1598), 32);
  snprintf(folder, sizeof folder, "%s", temp_path(state, "b"));
  assert_int_equal(stores_until_a_look(folder, STG_DISK_NO_LIMIT, 160, 158), 11);
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  assert_in_range(stores_until_a_look(folder, 160 * size, STG_DISK_NO_LIMIT, 158), 10, 11);
}

#define WRITERS 4
#define EACH 400u
#define LIMIT 160u

static void several_writers_know_of_each_other(void **state) {
  pid_t children[WRITERS];
  uint64_t bytes = 0, files = 0;
  char folder[512];
  snprintf(folder, sizeof folder, "%s", temp_path(state, "c"));
  for (uint32_t i = 0; i < WRITERS; i++) {
    children[i] = test_fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      struct stg_disk_cache *cache = open_bounded(folder, 0, LIMIT, stg_disk_io_default(), NULL);
      for (uint32_t k = 0; k < EACH; k++) {
        store(cache, i * EACH + k);
      }
      stg_disk_cache_close(cache);
      _exit(0);
    }
  }
  for (size_t i = 0; i < WRITERS; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  measure(folder, &bytes, &files);
  assert_true(files <= LIMIT + WRITERS * (LIMIT / SHARE + 1));
  assert_true(files >= LIMIT / 2);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(ten_thousand_entries_stay_under_a_size),
      IN_FOLDER(ten_thousand_entries_stay_under_a_number),
      IN_FOLDER(what_is_used_outlives_what_is_not),
      IN_FOLDER(what_is_used_at_the_last_moment_stays),
      IN_FOLDER(an_entry_in_use_stays_usable_when_it_goes),
      IN_FOLDER(who_evicts_already_is_left_to_it),
      IN_FOLDER(a_disk_that_lets_nothing_go_is_said_once),
      IN_FOLDER(a_disk_without_locks_is_kept_under_its_limits_too),
      IN_FOLDER(no_limit_is_no_limit),
      IN_FOLDER(leftovers_go_by_themselves),
      IN_FOLDER(a_look_comes_after_32_stores_or_a_16th_of_a_limit),
      IN_FOLDER(several_writers_know_of_each_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

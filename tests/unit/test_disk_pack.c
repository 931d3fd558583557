/*
 * test_disk_pack.c: packs among the layers of a cache: what is found where, and what is left alone.
 */
#include "runtime/disk_cache.h"

#include <pthread.h>
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
#include "runtime/disk_lock.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/pack_fixture.h"
#include "tests/support/temp_folder.h"

/* "a:b" in a static buffer; valid until the next call. */
static const char *list_of(const char *a, const char *b) {
  static char list[1024];
  snprintf(list, sizeof list, "%s:%s", a, b);
  return list;
}

/* A cache with a pack below its folders. */
static struct stg_disk_cache *open_above(const char *pack, const char *path_list,
                                         enum stg_disk_mode mode, struct log_lines *lines) {
  struct stg_disk_options options = {.path_list = path_list, .pack_path = pack, .mode = mode};
  struct stg_disk_cache *cache = NULL;
  stg_error err = STG_ERROR_INIT;
  options.log = log_lines_to(lines, STG_LOG_DEBUG);
  if (stg_disk_cache_open(&options, &cache, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return cache;
}

static void hits_in_a_pack_and_counts_it(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_counters counters;
  struct stg_disk_hit hit = {0};
  pack_of_one(temp_path(state, "a.sgp"), &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(
      list_of(temp_path(state, "a.sgp"), temp_path(state, "rw")), STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  assert_int_equal(stg_disk_cache_find(cache, &request, NULL, &hit, NULL), STG_OK);
  assert_true(hit.from_pack);
  assert_non_null(strstr(hit.path, "/a.sgp/"));
  stg_disk_hit_finish(&hit);
  request.source = "// not there\n";
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.hits, 2);
  assert_int_equal(counters.pack_hits, 2);
  assert_int_equal(counters.misses, 1);
  stg_disk_cache_close(cache);
  assert_int_equal(access(temp_path(state, "rw"), F_OK), -1);
}

static void stores_in_the_folder_above_and_prefers_it(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_counters counters;
  pack_of_one(temp_path(state, "a.sgp"), &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(
      list_of(temp_path(state, "a.sgp"), temp_path(state, "rw")), STG_DISK_READ_WRITE, NULL);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.hits, 1);
  assert_int_equal(counters.pack_hits, 0);
  stg_disk_cache_close(cache);
}

static void has_a_folder_below_a_pack_too(void **state) {
  char list[1536];
  struct stg_kernel_request first = fixture_request();
  struct stg_kernel_request second = fixture_request();
  struct stg_kernel_request third = fixture_request();
  second.source = "// second\n";
  third.source = "// third\n";
  disk_fill(temp_path(state, "ro"), &first, "nvrtc-12.8.93");
  pack_of_one(temp_path(state, "a.sgp"), &second, "nvrtc-12.8.93");
  pack_of_one(temp_path(state, "b.sgp"), &third, "nvrtc-12.8.93");
  snprintf(list, sizeof list, "%s:%s:%s", temp_path(state, "ro"), temp_path(state, "a.sgp"),
           temp_path(state, "rw"));
  struct log_lines lines = {0};
  struct stg_disk_cache *cache =
      open_above(temp_path(state, "b.sgp"), list, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(disk_found(cache, &first, NULL), "nvrtc-12.8.93");
  assert_string_equal(disk_found(cache, &second, NULL), "nvrtc-12.8.93");
  assert_string_equal(disk_found(cache, &third, NULL), "nvrtc-12.8.93");
  stg_disk_cache_close(cache);
  assert_int_equal(lines.count, 0);
}

static void chooses_among_compilers_of_packs_and_folders(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_pack_writer *writer = pack_writer();
  pack_add(writer, &request, "nvrtc-12.8.93");
  pack_add(writer, &request, "nvrtc-13.1.2");
  pack_save(writer, temp_path(state, "a.sgp"));
  disk_fill(temp_path(state, "rw"), &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(
      list_of(temp_path(state, "a.sgp"), temp_path(state, "rw")), STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.1.2");
  assert_string_equal(disk_found(cache, &request, "nvrtc-12.8.93"), "nvrtc-12.8.93");
  assert_string_equal(disk_found(cache, &request, "nvrtc-13.0.88"), "nvrtc-13.0.88");
  assert_string_equal(disk_found(cache, &request, "nvrtc-14.0.1"), "nvrtc-13.1.2");
  stg_disk_cache_close(cache);
}

static void serves_alone_and_stores_nothing(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  struct stg_key key = {0};
  struct stg_disk_lock lock = {0};
  struct log_lines lines = {0};
  pack_of_one(temp_path(state, "a.sgp"), &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache =
      open_above(temp_path(state, "a.sgp"), NULL, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  request.source = "// new\n";
  assert_int_equal(stg_disk_cache_store(cache, &request, &image, NULL), STG_E_UNSUPPORTED);
  assert_int_equal(stg_disk_cache_probe(cache, &request, NULL), STG_E_UNSUPPORTED);
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  assert_false(stg_disk_lock_take(cache, key, NULL, &lock));
  stg_disk_cache_close(cache);
  cache = open_above(temp_path(state, "a.sgp"), NULL, STG_DISK_OFF, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
  cache = disk_open(temp_path(state, "a.sgp"), STG_DISK_READ_ONLY, &lines);
  request = fixture_request();
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
  assert_int_equal(lines.count, 0);
}

static void is_refused_as_the_layer_that_is_written_to(void **state) {
  struct stg_kernel_request request = fixture_request();
  static const char *const after[] = {"", ":", "::"};
  pack_of_one(temp_path(state, "a.sgp"), &request, "nvrtc-13.0.88");
  for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
    char list[1024];
    struct stg_disk_options options = {.path_list = list};
    struct stg_disk_cache *cache = NULL;
    stg_error err = STG_ERROR_INIT;
    snprintf(list, sizeof list, "%s:%s%s", temp_path(state, "ro"), temp_path(state, "a.sgp"),
             after[i]);
    assert_int_equal(stg_disk_cache_open(&options, &cache, &err), STG_E_INVALID);
    assert_non_null(strstr(err.message, "/a.sgp' is not a folder, and the last of a list is "
                                        "written to; put a folder after a pack"));
    assert_null(cache);
  }
}

/* The pack's bytes, to see that nobody writes to it. */
static struct stg_key sum_of(const char *path) {
  char *bytes = NULL;
  size_t size = 0;
  assert_int_equal(stg_file_read(path, 1 << 24, &bytes, &size, NULL), STG_OK);
  struct stg_key sum = stg_key_of(bytes, size);
  stg_free(bytes);
  return sum;
}

static void misses_a_damaged_entry_and_leaves_it(void **state) {
  const char *path = temp_path(state, "a.sgp");
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_counters counters;
  struct log_lines lines = {0};
  pack_of_one(path, &request, "nvrtc-13.0.88");
  assert_true(temp_flip_byte(path, 2000));
  struct stg_key before = sum_of(path);
  struct stg_disk_cache *cache =
      disk_open(list_of(path, temp_path(state, "rw")), STG_DISK_READ_WRITE, &lines);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  assert_int_equal(lines.level[0], STG_LOG_WARN);
  assert_non_null(strstr(lines.text[0], "is bad: checksum does not match its bytes; left in its "
                                        "read-only pack"));
  assert_non_null(strstr(log_lines_take_one(&lines), "/a.sgp/"));
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  assert_int_equal(lines.count, 0); /* the folder's is tried first */
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.quarantined, 0);
  stg_disk_cache_close(cache);
  assert_true(stg_key_equal(before, sum_of(path)));
}

static void warns_once_of_a_pack_that_cannot_be_used(void **state) {
  const char *path = temp_path(state, "a.sgp");
  struct stg_kernel_request request = fixture_request();
  static const struct {
    off_t size;
    mode_t mode;
    const char *message;
  } cases[] = {
      {-1, 0666, "has mode 0666, so that others can write it"},
      {300, 0600, ": 300 bytes, its header says "},
      {0, 0600, ": 0 bytes, a pack has at least 64"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct log_lines lines = {0};
    pack_of_one(path, &request, "nvrtc-13.0.88");
    assert_int_equal(chmod(path, cases[i].mode), 0);
    if (cases[i].size >= 0) {
      assert_int_equal(truncate(path, cases[i].size), 0);
    }
    struct stg_key before = sum_of(path);
    struct stg_disk_cache *cache =
        disk_open(list_of(path, temp_path(state, "rw")), STG_DISK_READ_WRITE, &lines);
    assert_string_equal(disk_found(cache, &request, NULL), "miss");
    assert_string_equal(disk_found(cache, &request, NULL), "miss");
    assert_int_equal(lines.level[0], STG_LOG_WARN);
    assert_non_null(strstr(lines.text[0], cases[i].message));
    assert_non_null(strstr(lines.text[0], "; passed over"));
    assert_non_null(strstr(log_lines_take_one(&lines), "cache pack '"));
    stg_disk_cache_close(cache);
    assert_true(stg_key_equal(before, sum_of(path)));
  }
}

static void says_that_a_named_pack_is_not_there(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct log_lines lines = {0};
  struct stg_disk_cache *cache =
      open_above(temp_path(state, "none.sgp"), temp_path(state, "rw"), STG_DISK_READ_WRITE, &lines);
  assert_non_null(strstr(log_lines_take_one(&lines), "/none.sgp' is not there; passed over"));
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  stg_disk_cache_close(cache);
}

static void refuses_such_a_pack_when_strict(void **state) {
  const char *path = temp_path(state, "a.sgp");
  struct stg_disk_options options = {
      .path_list = path, .mode = STG_DISK_READ_ONLY, .trust = true, .strict = true};
  struct stg_disk_cache *cache = NULL;
  stg_error err = STG_ERROR_INIT;
  pack_put(path, "no pack", 7);
  assert_int_equal(stg_disk_cache_open(&options, &cache, &err), STG_E_CORRUPT);
  assert_non_null(strstr(err.message, "/a.sgp': 7 bytes, a pack has at least 64"));
}

/* Reads what it visits and counts. */
struct visitor {
  const struct stg_disk_cache *cache;
  size_t count;
};

static stg_status visit(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct visitor *visitor = user;
  struct stg_disk_hit hit = {0};
  stg_status status = stg_disk_cache_read(visitor->cache, item->path, &hit, reterr);
  if (status == STG_OK) {
    assert_int_equal(hit.size, item->size_bytes);
    assert_true(item->mtime_unix > 1500000000);
    visitor->count++;
  }
  stg_disk_hit_finish(&hit);
  return status;
}

static void walks_packs_inside_and_beside_folders(void **state) {
  char list[1024];
  char path[600];
  struct stg_kernel_request request = fixture_request();
  stg_error err = STG_ERROR_INIT;
  disk_fill(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  pack_of_one(temp_path(state, "c/a.sgp"), &request, "nvrtc-12.8.93");
  snprintf(list, sizeof list, "%s:%s", temp_path(state, "c/a.sgp"), temp_path(state, "c"));
  struct stg_disk_cache *cache = disk_open(list, STG_DISK_READ_WRITE, NULL);
  struct visitor visitor = {.cache = cache};
  assert_int_equal(stg_disk_cache_walk(cache, visit, &visitor, NULL), STG_OK);
  assert_int_equal(visitor.count, 2);
  snprintf(path, sizeof path, "%s/x", temp_path(state, "c/a.sgp"));
  assert_int_equal(stg_disk_cache_quarantine(cache, path, &err), STG_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "is in a pack, which is never written to"));
  struct stg_disk_hit hit = {0};
  assert_int_equal(stg_disk_cache_read(cache, path, &hit, NULL), STG_E_NOT_FOUND);
  stg_disk_cache_close(cache);
}

#define MANY 4000

static void finds_each_of_thousands(void **state) {
  char source[32];
  struct stg_kernel_request request = fixture_request();
  struct stg_pack_writer *writer = pack_writer();
  request.source = source;
  for (int i = 0; i < MANY; i++) {
    snprintf(source, sizeof source, "// number %d\n", i);
    pack_add(writer, &request, "nvrtc-13.0.88");
  }
  pack_save(writer, temp_path(state, "a.sgp"));
  struct stg_disk_cache *cache = disk_open(
      list_of(temp_path(state, "a.sgp"), temp_path(state, "rw")), STG_DISK_READ_WRITE, NULL);
  for (int i = 0; i < MANY; i++) {
    snprintf(source, sizeof source, "// number %d\n", i);
    assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  }
  snprintf(source, sizeof source, "// number %d\n", MANY);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  struct visitor visitor = {.cache = cache};
  assert_int_equal(stg_disk_cache_walk(cache, visit, &visitor, NULL), STG_OK);
  assert_int_equal(visitor.count, MANY);
  stg_disk_cache_close(cache);
}

#define THREADS 8
#define LOOKS 50

/* One thread's part; `found` is what it found each time. */
struct looker {
  struct stg_disk_cache *cache;
  size_t found;
};

static void *look(void *user) {
  struct looker *looker = user;
  struct stg_kernel_request request = fixture_request();
  for (int i = 0; i < LOOKS; i++) {
    struct stg_disk_hit hit = {0};
    looker->found += stg_disk_cache_find(looker->cache, &request, NULL, &hit, NULL) == STG_OK;
    stg_disk_hit_finish(&hit);
  }
  return NULL;
}

static void serves_many_threads_at_once(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_counters counters;
  struct log_lines lines = {0};
  pthread_t threads[THREADS];
  struct looker lookers[THREADS];
  pack_of_one(temp_path(state, "a.sgp"), &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache =
      open_above(temp_path(state, "a.sgp"), NULL, STG_DISK_READ_WRITE, &lines);
  for (size_t i = 0; i < THREADS; i++) {
    lookers[i] = (struct looker){.cache = cache};
    assert_int_equal(pthread_create(&threads[i], NULL, look, &lookers[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(lookers[i].found, LOOKS);
  }
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.pack_hits, THREADS * LOOKS);
  stg_disk_cache_close(cache);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(hits_in_a_pack_and_counts_it),
      IN_FOLDER(stores_in_the_folder_above_and_prefers_it),
      IN_FOLDER(has_a_folder_below_a_pack_too),
      IN_FOLDER(chooses_among_compilers_of_packs_and_folders),
      IN_FOLDER(serves_alone_and_stores_nothing),
      IN_FOLDER(is_refused_as_the_layer_that_is_written_to),
      IN_FOLDER(misses_a_damaged_entry_and_leaves_it),
      IN_FOLDER(warns_once_of_a_pack_that_cannot_be_used),
      IN_FOLDER(says_that_a_named_pack_is_not_there),
      IN_FOLDER(refuses_such_a_pack_when_strict),
      IN_FOLDER(walks_packs_inside_and_beside_folders),
      IN_FOLDER(finds_each_of_thousands),
      IN_FOLDER(serves_many_threads_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

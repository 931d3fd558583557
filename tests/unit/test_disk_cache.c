/*
 * test_disk_cache.c: what is found, what is stored, in which layer and mode.
 *
 * Damage is test_disk_healing.c, owners and paths test_disk_layer.c, other processes tests/fault.
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

static void hits_what_it_stored(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_counters counters;
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.hits, 1);
  assert_int_equal(counters.misses, 1);
  assert_int_equal(counters.stores, 1);
  assert_int_equal(counters.store_failures + counters.quarantined, 0);
  stg_disk_cache_close(cache);
}

static void misses_when_any_factor_differs(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  request.source = "// source 2\n";
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  request = fixture_request();
  request.arch = "sm_90a";
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  request = fixture_request();
  request.n_options = 1;
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
}

/* As if the two had collided: equal keys alone must not give another kernel. */
static void passes_over_another_kernel_of_the_same_key(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_key key = {0};
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-13.0.88");
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, &lines);
  request.key = &key;
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  lines.count = 0;
  request.source = "// source 2\n";
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  assert_non_null(
      strstr(log_lines_take_one(&lines), "is of another kernel with the same key; passed over"));
  stg_disk_cache_close(cache);
  cache = disk_open(root, STG_DISK_READ_WRITE, NULL); /* the entry is where it was */
  request = fixture_request();
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
}

static void prefers_the_loaded_compiler_and_else_the_newest(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-12.8.93");
  disk_fill(root, &request, "nvrtc-12.10.7");
  disk_fill(root, &request, "nvrtc-12.9.100");
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-12.10.7");
  assert_string_equal(disk_found(cache, &request, "nvrtc-12.8.93"), "nvrtc-12.8.93");
  assert_string_equal(disk_found(cache, &request, "nvrtc-13.0.88"), "nvrtc-12.10.7");
  stg_disk_cache_close(cache);
}

static void orders_compilers_by_number(void **state) {
  (void)state;
  static const char *const ascending[] = {"nvrtc",         "nvrtc-9.0.1",  "nvrtc-12.0.1",
                                          "nvrtc-12.0.12", "nvrtc-12.8.9", "nvrtc-12.10.1",
                                          "nvrtc-13.0.0"};
  size_t n = sizeof ascending / sizeof ascending[0];
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) {
      int order = stg_disk_compare_compilers(ascending[i], ascending[j]);
      assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
    }
  }
}

static void finds_entries_of_every_layer_and_writes_to_the_last(void **state) {
  char list[512];
  struct stg_kernel_request first = fixture_request();
  struct stg_kernel_request second = fixture_request();
  struct stg_kernel_request third = fixture_request();
  second.source = "// second\n";
  third.source = "// third\n";
  disk_fill(temp_path(state, "ro1"), &first, "nvrtc-12.8.93");
  disk_fill(temp_path(state, "ro2"), &second, "nvrtc-12.8.93");
  snprintf(list, sizeof list, "%s:%s::%s/", temp_path(state, "ro1"), temp_path(state, "ro2"),
           temp_path(state, "rw"));
  struct stg_disk_cache *cache = disk_open(list, STG_DISK_READ_WRITE, NULL);
  assert_string_equal(disk_found(cache, &first, NULL), "nvrtc-12.8.93");
  assert_string_equal(disk_found(cache, &second, NULL), "nvrtc-12.8.93");
  assert_string_equal(disk_found(cache, &third, NULL), "miss");
  assert_int_equal(disk_store(cache, &third, "nvrtc-13.0.88"), STG_OK);
  assert_int_equal(disk_store(cache, &first, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(disk_found(cache, &third, NULL), "nvrtc-13.0.88");
  assert_string_equal(disk_found(cache, &first, NULL), "nvrtc-13.0.88");
  assert_string_equal(disk_found(cache, &first, "nvrtc-12.8.93"), "nvrtc-12.8.93");
  stg_disk_cache_close(cache);
  char *path = disk_entry_path(temp_path(state, "rw"), &third, "nvrtc-13.0.88");
  assert_int_equal(access(path, F_OK), 0);
  stg_free(path);
}

static void stores_nothing_when_read_only_or_off(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  stg_error err = STG_ERROR_INIT;
  struct stg_disk_cache *off[] = {
      disk_open(root, STG_DISK_READ_ONLY, &lines), disk_open(root, STG_DISK_OFF, &lines),
      disk_open(NULL, STG_DISK_READ_WRITE, &lines), disk_open("", STG_DISK_READ_WRITE, &lines)};
  for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
    assert_int_equal(stg_disk_cache_store(off[i], &request, &image, &err), STG_E_UNSUPPORTED);
    assert_string_equal(err.message, "the disk cache is off or read-only");
    stg_disk_cache_close(off[i]);
  }
  assert_int_equal(lines.count, 0);
  assert_int_equal(access(root, F_OK), -1);
}

static void hits_when_read_only_and_misses_when_off_or_refreshing(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_ONLY, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
  cache = disk_open(root, STG_DISK_OFF, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
  cache = disk_open(root, STG_DISK_REFRESH, NULL);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(disk_found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
}

static void refuses_to_store_a_cubin_of_another_architecture(void **state) {
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_80", "nvrtc-13.0.88");
  stg_error err = STG_ERROR_INIT;
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, &lines);
  assert_int_equal(stg_disk_cache_store(cache, &request, &image, &err), STG_E_CORRUPT);
  assert_string_equal(err.message, "cubin is for sm_80, the key says sm_90");
  assert_string_equal(log_lines_take_one(&lines), "the kernel stays in memory only: cubin is for "
                                                  "sm_80, the key says sm_90");
  stg_disk_cache_close(cache);
}

static void refuses_a_compiler_that_would_leave_the_folder(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "../../x");
  stg_error err = STG_ERROR_INIT;
  struct stg_disk_cache *cache = disk_open(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_int_equal(stg_disk_cache_store(cache, &request, &image, &err), STG_E_INVALID);
  assert_string_equal(err.message, "compiler '../../x' cannot be part of a file name");
  stg_disk_cache_close(cache);
}

/* What a walk saw. */
struct seen {
  size_t count;
  char last[512];
  stg_status answer;
};

static stg_status remember(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct seen *seen = user;
  assert_true(strcmp(seen->last, item->path) < 0);
  assert_memory_equal(item->path, item->layer, strlen(item->layer));
  assert_true(item->size_bytes > 7000);
  assert_true(item->mtime_unix > 1500000000);
  snprintf(seen->last, sizeof seen->last, "%s", item->path);
  seen->count++;
  return seen->answer == STG_OK ? STG_OK
                                : stg_error_set(reterr, seen->answer, "stop at %zu", seen->count);
}

static void says_that_a_folder_has_the_name_of_an_entry(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", "nvrtc-13.0.88");
  struct stg_key key = {0};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(stg_kernel_request_key(&request, &key, NULL), STG_OK);
  char *name = stg_disk_file_name(key, "nvrtc-13.0.88");
  char path[1024], message[1400];
  snprintf(path, sizeof path, "%s/v1/%.2s/%s", root, name, name);
  assert_int_equal(stg_mkdir_all(path, 0700, NULL), STG_OK);
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, NULL);
  assert_int_equal(stg_disk_cache_store(cache, &request, &image, &error), STG_E_IO);
  snprintf(message, sizeof message,
           "cannot write '%s': a folder has the name of this cache entry; remove it", path);
  assert_string_equal(error.message, message);
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(disk_store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  stg_disk_cache_close(cache);
  stg_free(name);
}

static void walks_every_entry_of_every_layer_in_path_order(void **state) {
  char list[512];
  struct seen seen = {0};
  stg_error err = STG_ERROR_INIT;
  for (unsigned i = 0; i < 20; i++) {
    char source[32];
    struct stg_kernel_request request = fixture_request();
    snprintf(source, sizeof source, "// %u\n", i);
    request.source = source;
    disk_fill(temp_path(state, i % 3 == 0 ? "a" : "b"), &request, "nvrtc-13.0.88");
  }
  assert_int_equal(stg_file_write_atomic(temp_path(state, "b/v1/tmp/x.tmp"), "x", 1, 0600, NULL),
                   STG_OK);
  assert_int_equal(mkdir(temp_path(state, "b/v1/zz"), 0700), 0);
  snprintf(list, sizeof list, "%s:%s:%s", temp_path(state, "b"), temp_path(state, "a"),
           temp_path(state, "none"));
  struct stg_disk_cache *cache = disk_open(list, STG_DISK_READ_ONLY, NULL);
  assert_int_equal(stg_disk_cache_walk(cache, remember, &seen, NULL), STG_OK);
  assert_int_equal(seen.count, 20);
  seen = (struct seen){.answer = STG_E_BUSY};
  assert_int_equal(stg_disk_cache_walk(cache, remember, &seen, &err), STG_E_BUSY);
  assert_string_equal(err.message, "stop at 1");
  stg_disk_cache_close(cache);
}

static void gives_no_memory_and_no_leak_when_any_allocation_fails(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  disk_fill(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = disk_open(root, STG_DISK_READ_WRITE, NULL);
  stg_status status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    struct stg_disk_hit hit = {0};
    stg_alloc_fail_at(nth);
    status = stg_disk_cache_find(cache, &request, NULL, &hit, NULL);
    stg_alloc_fail_at(0);
    stg_disk_hit_finish(&hit);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_true(nth < 200);
  }
  status = STG_E_NO_MEMORY;
  for (size_t nth = 1; status != STG_OK; nth++) {
    stg_alloc_fail_at(nth);
    status = disk_store(cache, &request, "nvrtc-13.0.88");
    stg_alloc_fail_at(0);
    assert_true(nth < 200);
  }
  assert_string_equal(disk_found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(hits_what_it_stored),
      IN_FOLDER(misses_when_any_factor_differs),
      IN_FOLDER(passes_over_another_kernel_of_the_same_key),
      IN_FOLDER(prefers_the_loaded_compiler_and_else_the_newest),
      IN_FOLDER(orders_compilers_by_number),
      IN_FOLDER(finds_entries_of_every_layer_and_writes_to_the_last),
      IN_FOLDER(stores_nothing_when_read_only_or_off),
      IN_FOLDER(hits_when_read_only_and_misses_when_off_or_refreshing),
      IN_FOLDER(refuses_to_store_a_cubin_of_another_architecture),
      IN_FOLDER(refuses_a_compiler_that_would_leave_the_folder),
      IN_FOLDER(says_that_a_folder_has_the_name_of_an_entry),
      IN_FOLDER(walks_every_entry_of_every_layer_in_path_order),
      IN_FOLDER(gives_no_memory_and_no_leak_when_any_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_disk_cache.c: finding, storing and healing in folders that nobody disturbs meanwhile.
 *
 * What other processes, full disks and read-only roots do is in tests/fault.
 */
#include "runtime/disk_cache.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/disk_cache_private.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/log_lines.h"
#include "tests/support/temp_folder.h"

static struct stg_disk_cache *open_mode(const char *path_list, enum stg_disk_mode mode,
                                        struct log_lines *lines) {
  struct stg_disk_options options = {.path_list = path_list, .mode = mode};
  struct stg_disk_cache *cache = NULL;
  if (lines != NULL) {
    options.log = log_lines_to(lines, STG_LOG_DEBUG);
  }
  assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
  return cache;
}

static stg_status store(struct stg_disk_cache *cache, const struct stg_kernel_request *request,
                        const char *compiler) {
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", compiler);
  return stg_disk_cache_store(cache, request, &image, NULL);
}

/* Store into a folder of its own cache, so that layers can be put together. */
static void fill(const char *folder, const struct stg_kernel_request *request,
                 const char *compiler) {
  struct stg_disk_cache *cache = open_mode(folder, STG_DISK_READ_WRITE, NULL);
  assert_int_equal(store(cache, request, compiler), STG_OK);
  stg_disk_cache_close(cache);
}

/* The compiler of the entry that is found, in a static buffer; "miss" when there is none. */
static const char *found(struct stg_disk_cache *cache, const struct stg_kernel_request *request,
                         const char *preferred) {
  static char compiler[STG_COMPILER_CHARS];
  struct stg_disk_hit hit = {0};
  stg_status status = stg_disk_cache_find(cache, request, preferred, &hit, NULL);
  assert_true(status == STG_OK || status == STG_E_NOT_FOUND);
  if (status != STG_OK) {
    return "miss";
  }
  const struct stg_embedded_file *cubin = test_cubin("cuda13_sm_90");
  assert_int_equal(hit.entry.cubin_size, cubin->len);
  assert_memory_equal(hit.entry.cubin, cubin->text, cubin->len);
  snprintf(compiler, sizeof compiler, "%s", hit.entry.meta.compiler);
  stg_disk_hit_finish(&hit);
  return compiler;
}

/* The path of the request's entry under `folder`; stg_free. */
static char *entry_path(const char *folder, const struct stg_kernel_request *request,
                        const char *compiler) {
  struct stg_key key = {0};
  struct stg_strbuf path = {0};
  assert_int_equal(stg_kernel_request_key(request, &key, NULL), STG_OK);
  char *name = stg_disk_file_name(key, compiler);
  stg_strbuf_printf(&path, "%s/v1/%.2s/%s", folder, name, name);
  stg_free(name);
  return stg_strbuf_take(&path);
}

static unsigned mode_of(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  return (unsigned)(info.st_mode & 07777);
}

static size_t files_in(const char *path) {
  DIR *folder = opendir(path);
  size_t count = 0;
  if (folder == NULL) {
    return 0;
  }
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    count += entry->d_name[0] != '.';
  }
  closedir(folder);
  return count;
}

static void hits_what_it_stored(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_counters counters;
  struct stg_disk_cache *cache = open_mode(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_string_equal(found(cache, &request, NULL), "miss");
  assert_int_equal(store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.hits, 1);
  assert_int_equal(counters.misses, 1);
  assert_int_equal(counters.stores, 1);
  assert_int_equal(counters.store_failures + counters.quarantined, 0);
  stg_disk_cache_close(cache);
}

static void misses_when_any_factor_differs(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = open_mode(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_int_equal(store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  request.source = "// source 2\n";
  assert_string_equal(found(cache, &request, NULL), "miss");
  request = fixture_request();
  request.arch = "sm_90a";
  assert_string_equal(found(cache, &request, NULL), "miss");
  request = fixture_request();
  request.n_options = 1;
  assert_string_equal(found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
}

static void lays_its_folder_out_for_one_user_only(void **state) {
  const char *root = temp_path(state, "a/b/c");
  struct stg_kernel_request request = fixture_request();
  fill(root, &request, "nvrtc-13.0.88");
  char *path = entry_path(root, &request, "nvrtc-13.0.88");
  assert_int_equal(mode_of(path), 0600);
  *strrchr(path, '/') = '\0';
  assert_int_equal(mode_of(path), 0700);
  assert_int_equal(mode_of(root), 0700);
  assert_int_equal(mode_of(temp_path(state, "a")), 0700);
  assert_int_equal(mode_of(temp_path(state, "a/b/c/v1")), 0700);
  assert_int_equal(mode_of(temp_path(state, "a/b/c/v1/tmp")), 0700);
  assert_int_equal(files_in(temp_path(state, "a/b/c/v1/tmp")), 0);
  stg_free(path);
}

static void marks_its_folder_as_a_cache_for_backup_tools(void **state) {
  static const char signature[] = "Signature: 8a477f597d28d172789f06886806bc55";
  struct stg_kernel_request request = fixture_request();
  char *text = NULL;
  size_t size = 0;
  fill(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  assert_int_equal(stg_file_read(temp_path(state, "c/CACHEDIR.TAG"), 1000, &text, &size, NULL),
                   STG_OK);
  assert_memory_equal(text, signature, sizeof signature - 1);
  stg_free(text);
}

static void makes_no_folder_before_the_first_store(void **state) {
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = open_mode(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_string_equal(found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
  assert_int_equal(access(temp_path(state, "c"), F_OK), -1);
}

static void prefers_the_loaded_compiler_and_else_the_newest(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  fill(root, &request, "nvrtc-12.8.93");
  fill(root, &request, "nvrtc-12.10.7");
  fill(root, &request, "nvrtc-12.9.100");
  struct stg_disk_cache *cache = open_mode(root, STG_DISK_READ_WRITE, NULL);
  assert_string_equal(found(cache, &request, NULL), "nvrtc-12.10.7");
  assert_string_equal(found(cache, &request, "nvrtc-12.8.93"), "nvrtc-12.8.93");
  assert_string_equal(found(cache, &request, "nvrtc-13.0.88"), "nvrtc-12.10.7");
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
  fill(temp_path(state, "ro1"), &first, "nvrtc-12.8.93");
  fill(temp_path(state, "ro2"), &second, "nvrtc-12.8.93");
  snprintf(list, sizeof list, "%s:%s::%s/", temp_path(state, "ro1"), temp_path(state, "ro2"),
           temp_path(state, "rw"));
  struct stg_disk_cache *cache = open_mode(list, STG_DISK_READ_WRITE, NULL);
  assert_string_equal(found(cache, &first, NULL), "nvrtc-12.8.93");
  assert_string_equal(found(cache, &second, NULL), "nvrtc-12.8.93");
  assert_string_equal(found(cache, &third, NULL), "miss");
  assert_int_equal(store(cache, &third, "nvrtc-13.0.88"), STG_OK);
  assert_int_equal(store(cache, &first, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(found(cache, &third, NULL), "nvrtc-13.0.88");
  assert_string_equal(found(cache, &first, NULL), "nvrtc-13.0.88");
  assert_string_equal(found(cache, &first, "nvrtc-12.8.93"), "nvrtc-12.8.93");
  stg_disk_cache_close(cache);
  char *path = entry_path(temp_path(state, "rw"), &third, "nvrtc-13.0.88");
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
      open_mode(root, STG_DISK_READ_ONLY, &lines), open_mode(root, STG_DISK_OFF, &lines),
      open_mode(NULL, STG_DISK_READ_WRITE, &lines), open_mode("", STG_DISK_READ_WRITE, &lines)};
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
  fill(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = open_mode(root, STG_DISK_READ_ONLY, NULL);
  assert_string_equal(found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
  cache = open_mode(root, STG_DISK_OFF, NULL);
  assert_string_equal(found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
  cache = open_mode(root, STG_DISK_REFRESH, NULL);
  assert_string_equal(found(cache, &request, NULL), "miss");
  assert_int_equal(store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
}

/* Ways to spoil a file of some size; each must heal. */
static void truncate_to_zero(const char *path, size_t size) {
  (void)size;
  assert_int_equal(truncate(path, 0), 0);
}
static void truncate_to_half(const char *path, size_t size) {
  assert_int_equal(truncate(path, (off_t)(size / 2)), 0);
}
static void flip_at(const char *path, size_t at) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
  int byte = fgetc(file);
  assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
  assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
  assert_int_equal(fclose(file), 0);
}
static void flip_in_the_magic(const char *path, size_t size) {
  (void)size;
  flip_at(path, 3);
}
static void flip_in_the_version(const char *path, size_t size) {
  (void)size;
  flip_at(path, 8);
}
static void flip_in_the_key(const char *path, size_t size) {
  (void)size;
  flip_at(path, 20);
}
static void flip_in_a_size(const char *path, size_t size) {
  (void)size;
  flip_at(path, 32);
}
static void flip_in_the_material(const char *path, size_t size) {
  (void)size;
  flip_at(path, 70);
}
static void flip_in_the_payload(const char *path, size_t size) {
  flip_at(path, size - 500);
}
static void flip_in_the_footer(const char *path, size_t size) {
  flip_at(path, size - 1);
}

static void heals_a_damaged_entry_with_one_warning(void **state) {
  void (*const spoil[])(const char *path, size_t size) = {
      truncate_to_zero,     truncate_to_half,    flip_in_the_magic,
      flip_in_the_version,  flip_in_the_key,     flip_in_a_size,
      flip_in_the_material, flip_in_the_payload, flip_in_the_footer};
  char root[256];
  struct log_lines lines = {0};
  struct stg_disk_counters counters;
  struct stg_kernel_request request = fixture_request();
  snprintf(root, sizeof root, "%s", temp_path(state, "c"));
  struct stg_disk_cache *cache = open_mode(root, STG_DISK_READ_WRITE, &lines);
  char *path = entry_path(root, &request, "nvrtc-13.0.88");
  for (size_t i = 0; i < sizeof spoil / sizeof spoil[0]; i++) {
    struct stat info;
    assert_int_equal(store(cache, &request, "nvrtc-13.0.88"), STG_OK);
    assert_int_equal(stat(path, &info), 0);
    spoil[i](path, (size_t)info.st_size);
    assert_string_equal(found(cache, &request, NULL), "miss");
    assert_int_equal(lines.level[0], STG_LOG_WARN);
    const char *line = log_lines_take_one(&lines);
    assert_non_null(strstr(line, path));
    assert_non_null(strstr(line, "' is bad: "));
    assert_non_null(strstr(line, "; moved to quarantine"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(files_in(temp_path(state, "c/v1/quarantine")), 1);
    assert_int_equal(store(cache, &request, "nvrtc-13.0.88"), STG_OK);
    assert_string_equal(found(cache, &request, NULL), "nvrtc-13.0.88");
    assert_int_equal(lines.count, 0);
  }
  stg_disk_cache_counters(cache, &counters);
  assert_int_equal(counters.quarantined, sizeof spoil / sizeof spoil[0]);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void falls_back_to_another_compiler_when_the_best_entry_is_bad(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  fill(root, &request, "nvrtc-12.8.93");
  fill(root, &request, "nvrtc-13.0.88");
  char *path = entry_path(root, &request, "nvrtc-13.0.88");
  assert_int_equal(truncate(path, 100), 0);
  struct stg_disk_cache *cache = open_mode(root, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(found(cache, &request, NULL), "nvrtc-12.8.93");
  assert_int_equal(lines.count, 1);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void never_takes_the_entry_of_another_kernel_under_this_name(void **state) {
  const char *root = temp_path(state, "c");
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_request other = fixture_request();
  other.source = "// other\n";
  fill(root, &request, "nvrtc-13.0.88");
  fill(root, &other, "nvrtc-13.0.88");
  char *path = entry_path(root, &request, "nvrtc-13.0.88");
  char *other_path = entry_path(root, &other, "nvrtc-13.0.88");
  assert_int_equal(rename(other_path, path), 0);
  struct stg_disk_cache *cache = open_mode(root, STG_DISK_READ_WRITE, &lines);
  assert_string_equal(found(cache, &request, NULL), "miss");
  assert_non_null(strstr(log_lines_take_one(&lines), "' is bad: its name should be '"));
  stg_free(other_path);
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void refuses_to_store_a_cubin_of_another_architecture(void **state) {
  struct log_lines lines = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_kernel_image image = fixture_image("cuda13_sm_80", "nvrtc-13.0.88");
  stg_error err = STG_ERROR_INIT;
  struct stg_disk_cache *cache = open_mode(temp_path(state, "c"), STG_DISK_READ_WRITE, &lines);
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
  struct stg_disk_cache *cache = open_mode(temp_path(state, "c"), STG_DISK_READ_WRITE, NULL);
  assert_int_equal(stg_disk_cache_store(cache, &request, &image, &err), STG_E_INVALID);
  assert_string_equal(err.message, "compiler '../../x' cannot be part of a file name");
  stg_disk_cache_close(cache);
}

static void sets_aside_a_hit_that_the_driver_refused(void **state) {
  struct log_lines lines = {0};
  struct stg_disk_hit hit = {0};
  struct stg_kernel_request request = fixture_request();
  struct stg_disk_cache *cache = open_mode(temp_path(state, "c"), STG_DISK_READ_WRITE, &lines);
  assert_int_equal(store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_int_equal(stg_disk_cache_find(cache, &request, NULL, &hit, NULL), STG_OK);
  stg_disk_cache_reject(cache, &hit, "INVALID_IMAGE");
  assert_non_null(strstr(log_lines_take_one(&lines), "is bad: INVALID_IMAGE; moved to quarantine"));
  assert_int_equal(access(hit.path, F_OK), -1);
  stg_disk_hit_finish(&hit);
  assert_string_equal(found(cache, &request, NULL), "miss");
  stg_disk_cache_close(cache);
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
  fill(root, &request, "nvrtc-13.0.88");
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
  struct stg_disk_cache *cache = open_mode("relative", STG_DISK_READ_WRITE, NULL);
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(store(cache, &request, "nvrtc-13.0.88"), STG_OK);
  assert_string_equal(found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(access(temp_path(state, "relative/v1"), F_OK), 0);
}

static void hits_in_a_copied_folder(void **state) {
  struct stg_kernel_request request = fixture_request();
  fill(temp_path(state, "c"), &request, "nvrtc-13.0.88");
  assert_int_equal(rename(temp_path(state, "c"), temp_path(state, "moved")), 0);
  struct stg_disk_cache *cache = open_mode(temp_path(state, "moved"), STG_DISK_READ_ONLY, NULL);
  assert_string_equal(found(cache, &request, NULL), "nvrtc-13.0.88");
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

static void walks_every_entry_of_every_layer_in_path_order(void **state) {
  char list[512];
  struct seen seen = {0};
  stg_error err = STG_ERROR_INIT;
  for (unsigned i = 0; i < 20; i++) {
    char source[32];
    struct stg_kernel_request request = fixture_request();
    snprintf(source, sizeof source, "// %u\n", i);
    request.source = source;
    fill(temp_path(state, i % 3 == 0 ? "a" : "b"), &request, "nvrtc-13.0.88");
  }
  assert_int_equal(stg_file_write_atomic(temp_path(state, "b/v1/tmp/x.tmp"), "x", 1, 0600, NULL),
                   STG_OK);
  assert_int_equal(mkdir(temp_path(state, "b/v1/zz"), 0700), 0);
  snprintf(list, sizeof list, "%s:%s:%s", temp_path(state, "b"), temp_path(state, "a"),
           temp_path(state, "none"));
  struct stg_disk_cache *cache = open_mode(list, STG_DISK_READ_ONLY, NULL);
  assert_int_equal(stg_disk_cache_walk(cache, remember, &seen, NULL), STG_OK);
  assert_int_equal(seen.count, 20);
  seen = (struct seen){.answer = STG_E_BUSY};
  assert_int_equal(stg_disk_cache_walk(cache, remember, &seen, &err), STG_E_BUSY);
  assert_string_equal(err.message, "stop at 1");
  stg_disk_cache_close(cache);
}

static void moves_a_file_to_quarantine_on_demand(void **state) {
  const char *root = temp_path(state, "c");
  stg_error err = STG_ERROR_INIT;
  struct stg_kernel_request request = fixture_request();
  fill(root, &request, "nvrtc-13.0.88");
  char *path = entry_path(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = open_mode(root, STG_DISK_READ_ONLY, NULL);
  assert_int_equal(stg_disk_cache_quarantine(cache, path, NULL), STG_OK);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(stg_disk_cache_quarantine(cache, path, NULL), STG_OK);
  assert_int_equal(stg_disk_cache_quarantine(cache, "/etc/passwd", &err), STG_E_INVALID);
  assert_string_equal(err.message, "'/etc/passwd' is in no folder of this cache");
  stg_free(path);
  stg_disk_cache_close(cache);
}

static void gives_no_memory_and_no_leak_when_any_allocation_fails(void **state) {
  const char *root = temp_path(state, "c");
  struct stg_kernel_request request = fixture_request();
  fill(root, &request, "nvrtc-13.0.88");
  struct stg_disk_cache *cache = open_mode(root, STG_DISK_READ_WRITE, NULL);
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
    status = store(cache, &request, "nvrtc-13.0.88");
    stg_alloc_fail_at(0);
    assert_true(nth < 200);
  }
  assert_string_equal(found(cache, &request, NULL), "nvrtc-13.0.88");
  stg_disk_cache_close(cache);
}

int main(void) {
#define IN_FOLDER(test)                                                                            \
  cmocka_unit_test_setup_teardown(test, temp_folder_setup, temp_folder_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(hits_what_it_stored),
      IN_FOLDER(misses_when_any_factor_differs),
      IN_FOLDER(lays_its_folder_out_for_one_user_only),
      IN_FOLDER(marks_its_folder_as_a_cache_for_backup_tools),
      IN_FOLDER(makes_no_folder_before_the_first_store),
      IN_FOLDER(prefers_the_loaded_compiler_and_else_the_newest),
      IN_FOLDER(orders_compilers_by_number),
      IN_FOLDER(finds_entries_of_every_layer_and_writes_to_the_last),
      IN_FOLDER(stores_nothing_when_read_only_or_off),
      IN_FOLDER(hits_when_read_only_and_misses_when_off_or_refreshing),
      IN_FOLDER(heals_a_damaged_entry_with_one_warning),
      IN_FOLDER(falls_back_to_another_compiler_when_the_best_entry_is_bad),
      IN_FOLDER(never_takes_the_entry_of_another_kernel_under_this_name),
      IN_FOLDER(refuses_to_store_a_cubin_of_another_architecture),
      IN_FOLDER(refuses_a_compiler_that_would_leave_the_folder),
      IN_FOLDER(sets_aside_a_hit_that_the_driver_refused),
      IN_FOLDER(refuses_folders_that_others_can_write),
      IN_FOLDER(refuses_an_inner_folder_that_others_can_write),
      IN_FOLDER(refuses_a_folder_of_another_user),
      IN_FOLDER(refuses_a_file_given_as_a_folder),
      IN_FOLDER(keeps_its_folder_when_the_process_moves),
      IN_FOLDER(hits_in_a_copied_folder),
      IN_FOLDER(walks_every_entry_of_every_layer_in_path_order),
      IN_FOLDER(moves_a_file_to_quarantine_on_demand),
      IN_FOLDER(gives_no_memory_and_no_leak_when_any_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

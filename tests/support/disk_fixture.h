/*
 * disk_fixture.h: a disk cache in a test's own folder, filled with real entries.
 *
 * After cmocka.h: what must not fail is asserted here.
 */
#ifndef STG_TESTS_SUPPORT_DISK_FIXTURE_H
#define STG_TESTS_SUPPORT_DISK_FIXTURE_H

#include <dirent.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/base/file.h"
#include "runtime/disk_cache_private.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/log_lines.h"

/** Open in a mode; everything that is logged goes to `lines` (may be NULL). */
static inline struct stg_disk_cache *disk_open(const char *path_list, enum stg_disk_mode mode,
                                               struct log_lines *lines) {
  struct stg_disk_options options = {.path_list = path_list, .mode = mode};
  struct stg_disk_cache *cache = NULL;
  if (lines != NULL) {
    options.log = log_lines_to(lines, STG_LOG_DEBUG);
  }
  assert_int_equal(stg_disk_cache_open(&options, &cache, NULL), STG_OK);
  return cache;
}

/** Store the request's kernel as made by `compiler`. */
static inline stg_status disk_store(struct stg_disk_cache *cache,
                                    const struct stg_kernel_request *request,
                                    const char *compiler) {
  struct stg_kernel_image image = fixture_image("cuda13_sm_90", compiler);
  return stg_disk_cache_store(cache, request, &image, NULL);
}

/** Store into a folder of its own cache, so that layers can be put together. */
static inline void disk_fill(const char *folder, const struct stg_kernel_request *request,
                             const char *compiler) {
  struct stg_disk_cache *cache = disk_open(folder, STG_DISK_READ_WRITE, NULL);
  assert_int_equal(disk_store(cache, request, compiler), STG_OK);
  stg_disk_cache_close(cache);
}

/** The compiler of the entry that is found, in a static buffer; "miss" when there is none. */
static inline const char *disk_found(struct stg_disk_cache *cache,
                                     const struct stg_kernel_request *request,
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

/** The path of the request's entry under `folder`; stg_free. */
static inline char *disk_entry_path(const char *folder, const struct stg_kernel_request *request,
                                    const char *compiler) {
  struct stg_key key = {0};
  struct stg_strbuf path = {0};
  assert_int_equal(stg_kernel_request_key(request, &key, NULL), STG_OK);
  char *name = stg_disk_file_name(key, compiler);
  stg_strbuf_printf(&path, "%s/v1/%.2s/%s", folder, name, name);
  stg_free(name);
  return stg_strbuf_take(&path);
}

/** Change a byte of an entry, `from_end` bytes before its end or else `at`, and, so that it is not
 * damaged, its footer. */
static inline void disk_forge(const char *path, size_t at, size_t from_end, unsigned char value) {
  char *bytes = NULL;
  size_t size = 0;
  unsigned char footer[STG_KEY_BYTES];
  assert_int_equal(stg_file_read(path, STG_ENTRY_MAX_BYTES, &bytes, &size, NULL), STG_OK);
  bytes[from_end != 0 ? size - from_end : at] = (char)value;
  stg_key_store(stg_key_of(bytes, size - sizeof footer), footer);
  memcpy(bytes + size - sizeof footer, footer, sizeof footer);
  assert_int_equal(stg_file_write_atomic(path, bytes, size, 0600, NULL), STG_OK);
  stg_free(bytes);
}

/** Make an entry one of another format. */
static inline void disk_set_format(const char *path, unsigned char format) {
  disk_forge(path, 8, 0, format);
}

/** Make the cubin of an entry one of another architecture, in the second byte of CUDA 13's flags.
 */
static inline void disk_set_cubin_sm(const char *path, unsigned char sm) {
  disk_forge(path, 0, STG_KEY_BYTES + test_cubin("cuda13_sm_90")->len - 49, sm);
}

/** Files of a folder, hidden ones left out; 0 when it is not there. */
static inline size_t count_files(const char *path) {
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

#endif

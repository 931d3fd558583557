/*
 * shipped_entries.h: a few real entries, in a cache folder or in a pack, for tests of what carries
 * them from one to the other.
 *
 * After cmocka.h: what must not fail is asserted here.
 */
#ifndef STG_TESTS_SUPPORT_SHIPPED_ENTRIES_H
#define STG_TESTS_SUPPORT_SHIPPED_ENTRIES_H

#include <steergraph/cache.h>

#include "tests/support/disk_fixture.h"
#include "tests/support/pack_fixture.h"

#define SHIPPED 3 /* entries: of two keys, one with two compilers */
#define SHIPPED_NEWER "nvrtc-13.0.88"
#define SHIPPED_OLDER "nvrtc-12.4.127"

static inline struct stg_kernel_request shipped_request(size_t index) {
  struct stg_kernel_request request = fixture_request();
  request.source = index < 2 ? "// source\n" : "// another source\n";
  return request;
}

static inline const char *shipped_compiler(size_t index) {
  return index == 0 ? SHIPPED_OLDER : SHIPPED_NEWER;
}

static inline void shipped_fill(const char *folder) {
  for (size_t i = 0; i < SHIPPED; i++) {
    struct stg_kernel_request request = shipped_request(i);
    disk_fill(folder, &request, shipped_compiler(i));
  }
}

static inline void shipped_pack(const char *path) {
  struct stg_pack_writer *writer = pack_writer();
  for (size_t i = 0; i < SHIPPED; i++) {
    struct stg_kernel_request request = shipped_request(i);
    pack_add(writer, &request, shipped_compiler(i));
  }
  pack_save(writer, path);
}

/* What a callback was told of how far an export or an import is. */
struct shipped_seen {
  size_t calls, total;
};

static inline void shipped_see(void *user, size_t done, size_t total) {
  struct shipped_seen *seen = user;
  assert_int_equal(done, ++seen->calls);
  seen->total = total;
}

static inline struct stg_strbuf shipped_bytes(const char *path) {
  struct stg_strbuf bytes = {0};
  char *data = NULL;
  size_t size = 0;
  assert_int_equal(stg_file_read(path, STG_ENTRY_MAX_BYTES, &data, &size, NULL), STG_OK);
  stg_strbuf_mem(&bytes, data, size);
  stg_free(data);
  return bytes;
}

static inline void shipped_assert_same_files(const char *path, const char *other) {
  struct stg_strbuf a = shipped_bytes(path);
  struct stg_strbuf b = shipped_bytes(other);
  assert_int_equal(a.len, b.len);
  assert_memory_equal(a.data, b.data, a.len);
  stg_strbuf_finish(&a);
  stg_strbuf_finish(&b);
}

/* The path of an entry's file, or of what a pack has under its name, in a static buffer. */
static inline const char *shipped_path(const char *folder, size_t index) {
  static char text[600];
  struct stg_kernel_request request = shipped_request(index);
  char *path = disk_entry_path(folder, &request, shipped_compiler(index));
  snprintf(text, sizeof text, "%s", path);
  stg_free(path);
  return text;
}

static inline stg_cache *shipped_open(const char *path_list) {
  stg_cache *cache = NULL;
  assert_int_equal(stg_cache_open(path_list, &cache, NULL), STG_OK);
  return cache;
}

static inline size_t shipped_count(const char *path_list) {
  stg_cache *cache = shipped_open(path_list);
  size_t count = stg_cache_count(cache);
  for (size_t i = 0; i < count; i++) {
    stg_cache_entry entry;
    assert_int_equal(stg_cache_get(cache, i, &entry, NULL), STG_OK);
    assert_true(entry.ok);
  }
  stg_cache_close(cache);
  return count;
}

#endif

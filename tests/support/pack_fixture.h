/*
 * pack_fixture.h: packs of real entries, made in a test.
 *
 * After cmocka.h: what must not fail is asserted here.
 */
#ifndef STG_TESTS_SUPPORT_PACK_FIXTURE_H
#define STG_TESTS_SUPPORT_PACK_FIXTURE_H

#include "runtime/base/file.h"
#include "runtime/entry.h"
#include "runtime/pack.h"
#include "runtime/pack_writer.h"
#include "tests/support/kernel_fixture.h"

static inline struct stg_pack_writer *pack_writer(void) {
  struct stg_pack_writer *writer = NULL;
  assert_int_equal(stg_pack_writer_create(&writer, NULL), STG_OK);
  return writer;
}

/** The request's entry as made by `compiler` from the cubin of that stem; finish it. */
static inline struct stg_strbuf pack_entry(const struct stg_kernel_request *request,
                                           const char *cubin, const char *compiler) {
  struct stg_kernel_image image = fixture_image(cubin, compiler);
  struct stg_strbuf bytes = {0};
  assert_int_equal(stg_entry_encode(request, &image, &bytes, NULL), STG_OK);
  return bytes;
}

/** Add the request's entry of sm_90 as made by `compiler`. */
static inline void pack_add(struct stg_pack_writer *writer,
                            const struct stg_kernel_request *request, const char *compiler) {
  struct stg_strbuf bytes = pack_entry(request, "cuda13_sm_90", compiler);
  assert_int_equal(stg_pack_writer_add(writer, bytes.data, bytes.len, NULL), STG_OK);
  stg_strbuf_finish(&bytes);
}

/** Write what was added and destroy the writer. */
static inline void pack_save(struct stg_pack_writer *writer, const char *path) {
  size_t size = 0;
  stg_error err = STG_ERROR_INIT;
  if (stg_pack_writer_save(writer, path, &size, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  stg_pack_writer_destroy(writer);
}

/** A pack of one entry. */
static inline void pack_of_one(const char *path, const struct stg_kernel_request *request,
                               const char *compiler) {
  struct stg_pack_writer *writer = pack_writer();
  pack_add(writer, request, compiler);
  pack_save(writer, path);
}

/** Put bytes in place of a file, for damaged packs. */
static inline void pack_put(const char *path, const void *bytes, size_t size) {
  assert_int_equal(stg_file_write_atomic(path, bytes, size, 0644, NULL), STG_OK);
}

static inline struct stg_pack *pack_open(const char *path) {
  struct stg_pack *pack = NULL;
  stg_error err = STG_ERROR_INIT;
  if (stg_pack_open(path, false, &pack, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  return pack;
}

#endif

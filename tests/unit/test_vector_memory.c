/*
 * test_vector_memory.c: files of a mebibyte made to cost as much as they can cost no more than
 * their size justifies.
 *
 * What is counted is all that is asked of our heap while a file is opened, freed or not.
 */
#include "specs/vector_file.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "tests/support/vector_bytes.h"

#define MIB ((size_t)1 << 20)
#define FREE_BYTES ((size_t)65536) /* that any file may cost */
#define GGUF_BYTES_PER_BYTE 8
#define NAME_BYTES 72

/* Open and close a file that must be sound, within the bound; how much it asked for. */
static size_t assert_bounded(struct gguf_bytes *out, size_t bytes_per_byte) {
  struct stg_tensor_file file = {0};
  stg_error err = STG_ERROR_INIT;
  const size_t size = out->text.len;
  assert_int_equal(stg_strbuf_status(&out->text, NULL), STG_OK);
  stg_alloc_asked_bytes(true);
  if (stg_tensor_file_parse("m.gguf", out->text.data, size, NULL, &file, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  const size_t asked = stg_alloc_asked_bytes(true);
  if (asked > FREE_BYTES + bytes_per_byte * size) {
    fail_msg("%zu bytes for a file of %zu", asked, size);
  }
  stg_tensor_file_close(&file);
  gguf_finish(out);
  return asked;
}

/* Tensors without elements, whose names have so many bytes. */
static void write_tensors(struct gguf_bytes *out, size_t n_tensors, int name_bytes) {
  gguf_header(out, 3, n_tensors, 0);
  for (size_t i = 0; i < n_tensors; i++) {
    char name[NAME_BYTES];
    const uint64_t none = 0;
    snprintf(name, sizeof name, "%0*zx", name_bytes, i);
    gguf_tensor(out, name, 1, &none, GGUF_TENSOR_F32, 0);
  }
}

static void a_file_of_tensors(void **state) {
  static const int name_bytes[] = {5, 15, 16, 33, 64};
  (void)state;
  for (size_t i = 0; i < sizeof name_bytes / sizeof name_bytes[0]; i++) {
    static const size_t sizes[] = {MIB / 64, MIB / 16, MIB / 4, MIB};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
      struct gguf_bytes out = {0};
      write_tensors(&out, sizes[k] / (32 + (size_t)name_bytes[i]), name_bytes[i]);
      assert_bounded(&out, GGUF_BYTES_PER_BYTE);
    }
  }
}

/* Metadata of one type, whose values have the fewest bytes that they can have, or the longest text.
 */
static void write_metadata(struct gguf_bytes *out, uint32_t type, size_t size) {
  static const size_t widths[] = {[GGUF_U8] = 1,  [GGUF_I64] = 8,    [GGUF_F32] = 4,
                                  [GGUF_F64] = 8, [GGUF_STRING] = 8, [GGUF_ARRAY] = 12};
  const size_t n = size / (17 + widths[type]);
  gguf_header(out, 3, 0, n);
  for (size_t i = 0; i < n; i++) {
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%05zx", i);
    gguf_key(out, key, type);
    if (type == GGUF_ARRAY) {
      gguf_number(out, GGUF_U8, 4);
      gguf_number(out, 0, 8);
    } else {
      /* a float64 of 17 digits, an empty text, the longest integer of its width */
      const uint64_t bits = type == GGUF_STRING ? 0 : UINT64_C(0x8123456789abcdef);
      gguf_number(out, type == GGUF_F32 ? UINT64_C(0x81234567) : bits, widths[type]);
    }
  }
}

static void a_file_of_metadata(void **state) {
  static const uint32_t types[] = {GGUF_U8, GGUF_I64, GGUF_F32, GGUF_F64, GGUF_STRING, GGUF_ARRAY};
  static const size_t sizes[] = {MIB / 64, MIB / 16, MIB / 4, MIB};
  (void)state;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
      struct gguf_bytes out = {0};
      write_metadata(&out, types[i], sizes[k]);
      assert_bounded(&out, GGUF_BYTES_PER_BYTE);
    }
  }
}

static void write_both(struct gguf_bytes *out, size_t n_metadata, size_t n_tensors) {
  const uint64_t none = 0;
  gguf_header(out, 3, n_tensors, n_metadata);
  for (size_t i = 0; i < n_metadata + n_tensors; i++) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%05zx", i);
    if (i < n_metadata) {
      gguf_key(out, name, GGUF_U8);
      gguf_number(out, 1, 1);
    } else {
      gguf_tensor(out, name, 1, &none, GGUF_TENSOR_F32, 0);
    }
  }
}

/* Metadata, so that the arena has grown, then tensors. */
static void a_file_of_both(void **state) {
  static const size_t sizes[] = {MIB / 64, MIB / 16, MIB / 4, MIB};
  (void)state;
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    for (size_t part = 1; part < 8; part++) {
      struct gguf_bytes out = {0};
      write_both(&out, sizes[k] * part / 8 / 18, sizes[k] * (8 - part) / 8 / 37);
      assert_bounded(&out, GGUF_BYTES_PER_BYTE);
    }
  }
}

/* A vocabulary, and the elements of a tensor, cost nothing. */
static void what_is_not_kept_costs_nothing(void **state) {
  struct gguf_bytes out = {0};
  const uint64_t width = MIB / 4;
  (void)state;
  gguf_header(&out, 3, 0, 1);
  gguf_key(&out, "tokenizer.ggml.tokens", GGUF_ARRAY);
  gguf_number(&out, GGUF_STRING, 4);
  gguf_number(&out, MIB / 9, 8);
  for (size_t i = 0; i < MIB / 9; i++) {
    gguf_text(&out, "t", 1);
  }
  assert_true(assert_bounded(&out, 0) < 8192);
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "direction.1", 1, &width, GGUF_TENSOR_F32, 0);
  gguf_pad(&out, 32);
  gguf_zeros(&out, MIB);
  assert_true(assert_bounded(&out, 0) < 8192);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_of_tensors),
      cmocka_unit_test(a_file_of_metadata),
      cmocka_unit_test(a_file_of_both),
      cmocka_unit_test(what_is_not_kept_costs_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

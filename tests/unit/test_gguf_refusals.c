/*
 * test_gguf_refusals.c: what GGUF files are refused for, each with its whole message.
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

#define HUGE_COUNT (UINT64_C(1) << 62)

/* Parse what was written, which must be refused, in memory of just its size; then forget it. */
static void assert_refused(struct gguf_bytes *out, stg_status status, const char *message) {
  struct stg_tensor_file file = {0};
  stg_error err = STG_ERROR_INIT;
  const size_t size = out->text.len;
  char *bytes = stg_malloc(size);
  assert_non_null(bytes);
  memcpy(bytes, out->text.data, size);
  stg_alloc_asked_bytes(true);
  assert_int_equal(stg_tensor_file_parse("m.gguf", bytes, size, NULL, &file, &err), status);
  assert_in_range(stg_alloc_asked_bytes(true), 1, 65536 + 8 * size);
  assert_string_equal(err.message, message);
  assert_null(file.path);
  stg_free(bytes);
  gguf_finish(out);
}

static void refuses_headers(void **state) {
  struct gguf_bytes out = {0};
  (void)state;
  stg_strbuf_str(&out.text, "GGUF");
  gguf_zeros(&out, 8);
  assert_refused(&out, STG_E_FORMAT, "m.gguf: 12 bytes, a GGUF file begins with 24");
  stg_strbuf_str(&out.text, "GGML");
  gguf_zeros(&out, 20);
  assert_refused(&out, STG_E_FORMAT, "m.gguf: it does not begin with 'GGUF'; it is no GGUF file");
  gguf_header(&out, 1, 0, 0);
  assert_refused(&out, STG_E_UNSUPPORTED,
                 "m.gguf: GGUF version 1; versions 2 and 3 are read; write it again with a newer "
                 "gguf package");
  gguf_header(&out, 4, 0, 0);
  assert_refused(&out, STG_E_UNSUPPORTED,
                 "m.gguf: GGUF version 4; versions 2 and 3 are read; write it again as one of "
                 "them");
  gguf_header(&out, 0x03000000, 0, 0);
  assert_refused(&out, STG_E_UNSUPPORTED,
                 "m.gguf: big-endian; write it again with little-endian byte order");
  gguf_header(&out, 3, HUGE_COUNT, 0);
  gguf_zeros(&out, 296);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: 4611686018427387904 tensors declared, the 296 bytes left hold at most "
                 "12; it is cut short or damaged");
  gguf_header(&out, 3, 0, HUGE_COUNT);
  gguf_zeros(&out, 28);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: 4611686018427387904 metadata entries declared, the 28 bytes left hold at "
                 "most 2; it is cut short or damaged");
}

static void refuses_texts(void **state) {
  struct gguf_bytes out = {0};
  (void)state;
  gguf_header(&out, 3, 0, 2);
  gguf_key_text(&out, "k", "v");
  gguf_number(&out, 99999, 8);
  gguf_zeros(&out, 40);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 2 of 2, byte 46: a text of 99999 bytes does not fit in the 40 "
                 "left; it is cut short or damaged");
  gguf_header(&out, 3, 0, 1);
  gguf_number(&out, UINT64_MAX, 8);
  gguf_zeros(&out, 6);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 1 of 1, byte 24: a text of 18446744073709551615 bytes does not "
                 "fit in the 6 left; it is cut short or damaged");
  gguf_header(&out, 3, 0, 1);
  gguf_number(&out, 0, 8);
  gguf_zeros(&out, 6);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 1 of 1, byte 24: a key of 0 bytes; it has 1 to 65535");
  static const char *const no_names[] = {"a\nb", "\x7f", "\xff", "\xc3", "\xed\xa0\x80", "\x1b[2J"};
  for (size_t i = 0; i < sizeof no_names / sizeof no_names[0]; i++) {
    gguf_header(&out, 3, 0, 1);
    gguf_key_text(&out, no_names[i], "v");
    assert_refused(&out, STG_E_FORMAT,
                   "m.gguf: metadata 1 of 1, byte 24: a key that is not UTF-8, or holds control "
                   "characters");
  }
  gguf_header(&out, 3, 0, 1);
  gguf_key(&out, "abcdefgh", GGUF_U64);
  gguf_zeros(&out, 5);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 1 of 1, byte 44: a number of 8 bytes does not fit in the 5 "
                 "left; it is cut short or damaged");
}

static void refuses_values(void **state) {
  struct gguf_bytes out = {0};
  (void)state;
  gguf_header(&out, 3, 0, 1);
  gguf_key(&out, "k", 13);
  gguf_zeros(&out, 8);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 'k': value type 13 is unknown; 0 to 12 are known");
  gguf_header(&out, 3, 0, 1);
  gguf_key(&out, "k", GGUF_BOOL);
  gguf_number(&out, 2, 1);
  assert_refused(&out, STG_E_FORMAT, "m.gguf: metadata 'k': byte 2 is no bool; 0 and 1 are");
  gguf_header(&out, 3, 0, 2);
  gguf_key_text(&out, "k", "v");
  gguf_key_text(&out, "k", "w");
  assert_refused(&out, STG_E_FORMAT, "m.gguf: metadata 'k' is given twice");
}

static void write_arrays(struct gguf_bytes *out, int depth) {
  gguf_header(out, 3, 0, 1);
  gguf_key(out, "k", GGUF_ARRAY);
  for (int i = 1; i < depth; i++) {
    gguf_number(out, GGUF_ARRAY, 4);
    gguf_number(out, 1, 8);
  }
  gguf_number(out, GGUF_U8, 4);
  gguf_number(out, 3, 8);
  gguf_zeros(out, 3);
}

static void refuses_arrays(void **state) {
  struct gguf_bytes out = {0};
  struct stg_tensor_file file = {0};
  (void)state;
  write_arrays(&out, 4);
  assert_int_equal(stg_tensor_file_parse("m.gguf", out.text.data, out.text.len, NULL, &file, NULL),
                   STG_OK);
  assert_string_equal(file.metadata[1], "[array x 1]");
  stg_tensor_file_close(&file);
  gguf_finish(&out);
  write_arrays(&out, 5);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 'k': arrays nested 5 deep, at most 4 are read");
  static const struct {
    uint32_t type;
    const char *message;
  } counts[] = {
      {GGUF_U8, "m.gguf: metadata 'k': an array of 4611686018427387904 u8 does not fit in the 20 "
                "bytes left; it is cut short or damaged"},
      {GGUF_STRING, "m.gguf: metadata 'k': an array of 4611686018427387904 string does not fit in "
                    "the 20 bytes left; it is cut short or damaged"},
      {GGUF_ARRAY, "m.gguf: metadata 'k': an array of 4611686018427387904 array does not fit in "
                   "the 20 bytes left; it is cut short or damaged"},
  };
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    gguf_header(&out, 3, 0, 1);
    gguf_key(&out, "k", GGUF_ARRAY);
    gguf_number(&out, counts[i].type, 4);
    gguf_number(&out, HUGE_COUNT, 8);
    gguf_zeros(&out, 20);
    assert_refused(&out, STG_E_FORMAT, counts[i].message);
  }
  gguf_header(&out, 3, 0, 1);
  gguf_key(&out, "k", GGUF_ARRAY);
  gguf_number(&out, GGUF_STRING, 4);
  gguf_number(&out, 2, 8);
  gguf_text(&out, "a", 1);
  gguf_number(&out, 9, 8);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 1 of 1, byte 58: a text of 9 bytes does not fit in the 0 left; "
                 "it is cut short or damaged");
}

static void refuses_alignments(void **state) {
  static const uint32_t wrong[] = {0, 1, 4, 48, 1 << 21, UINT32_MAX};
  struct gguf_bytes out = {0};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char message[160];
    snprintf(message, sizeof message,
             "m.gguf: metadata 'general.alignment' is %u; needed: a power of two from 8 to "
             "1048576, as uint32",
             (unsigned)wrong[i]);
    gguf_header(&out, 3, 0, 1);
    gguf_key(&out, "general.alignment", GGUF_U32);
    gguf_number(&out, wrong[i], 4);
    assert_refused(&out, STG_E_FORMAT, message);
  }
  gguf_header(&out, 3, 0, 1);
  gguf_key(&out, "general.alignment", GGUF_U64);
  gguf_number(&out, 32, 8);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: metadata 'general.alignment' is of type u64; needed: a power of two from "
                 "8 to 1048576, as uint32");
}

static void refuses_names_of_tensors(void **state) {
  static const char longer[] = "abcdefghijklmnopqrstuvwxyz012345abcdefghijklmnopqrstuvwxyz0123456";
  const uint64_t width = 1;
  struct gguf_bytes out = {0};
  (void)state;
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "", 1, &width, GGUF_TENSOR_F32, 0);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: tensor 1 of 1, byte 24: a name of 0 bytes; it has 1 to 64");
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, longer, 1, &width, GGUF_TENSOR_F32, 0);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: tensor 1 of 1, byte 24: a name of 65 bytes; it has 1 to 64");
  gguf_header(&out, 3, 2, 0);
  gguf_tensor(&out, "direction.1", 1, &width, GGUF_TENSOR_F32, 0);
  gguf_tensor(&out, "direction.1", 1, &width, GGUF_TENSOR_F32, 32);
  gguf_pad(&out, 32);
  gguf_zeros(&out, 36);
  assert_refused(&out, STG_E_FORMAT, "m.gguf: tensor 'direction.1' is given twice");
  /* ten names that fit one by one, and not together */
  gguf_header(&out, 3, 10, 0);
  gguf_text(&out, longer, 64);
  gguf_zeros(&out, 10 * 24 - 72);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: tensor 1 of 10, byte 24: a name of 64 bytes leaves too few for the "
                 "tensors behind it; it is cut short or damaged");
}

static void refuses_shapes_and_types(void **state) {
  static const uint64_t huge[] = {INT64_MAX, 2, 2, 1};
  static const uint64_t beyond[] = {UINT64_C(1) << 63};
  static const uint64_t odd[] = {33, 2};
  const uint64_t width = 1;
  struct gguf_bytes out = {0};
  (void)state;
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "direction.1", 0, NULL, 0, 0);
  out.text.data[24 + 8 + 11] = 9;
  assert_refused(&out, STG_E_FORMAT, "m.gguf: tensor 'direction.1': 9 dimensions, at most 4");
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "direction.1", 4, huge, GGUF_TENSOR_F32, 0);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: tensor 'direction.1': the number of elements overflows");
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "direction.1", 1, beyond, GGUF_TENSOR_F32, 0);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: tensor 'direction.1': the number of elements overflows");
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "direction.1", 1, huge, GGUF_TENSOR_F64, 0);
  assert_refused(&out, STG_E_FORMAT, "m.gguf: tensor 'direction.1': the number of bytes overflows");
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "direction.1", 1, &width, 57, 0);
  assert_refused(&out, STG_E_UNSUPPORTED,
                 "m.gguf: tensor 'direction.1': type 57 is unknown; F32, F16, BF16 and F64 are "
                 "read");
  gguf_header(&out, 3, 1, 0);
  gguf_tensor(&out, "w", 2, odd, GGUF_TENSOR_Q4_0, 0);
  assert_refused(&out, STG_E_FORMAT,
                 "m.gguf: tensor 'w': a row of 33 elements is no whole number of blocks of 32 "
                 "(Q4_0)");
}

/* Two tensors of eight float32 at these places, and so many bytes of data. */
static void assert_places_refused(uint64_t a, uint64_t b, size_t data_bytes, const char *message) {
  const uint64_t width = 8;
  struct gguf_bytes out = {0};
  gguf_header(&out, 3, 2, 0);
  gguf_tensor(&out, "b", 1, &width, GGUF_TENSOR_F32, b);
  gguf_tensor(&out, "a", 1, &width, GGUF_TENSOR_F32, a);
  gguf_pad(&out, 32);
  gguf_zeros(&out, data_bytes);
  assert_refused(&out, STG_E_FORMAT, message);
}

static void refuses_places(void **state) {
  (void)state;
  assert_places_refused(0, 40, 96,
                        "m.gguf: tensor 'b' begins at byte 40 of the data, no multiple of the "
                        "alignment 32");
  assert_places_refused(0, 0, 64,
                        "m.gguf: tensors 'b' and 'a' overlap: one ends at byte 32, the other "
                        "begins at 0");
  assert_places_refused(0, 64, 96,
                        "m.gguf: hole of 32 bytes before tensor 'b', which begins at byte 64");
  assert_places_refused(32, 64, 96,
                        "m.gguf: hole of 32 bytes before tensor 'a', which begins at byte 32");
  assert_places_refused(0, 32, 63,
                        "m.gguf: tensor 'b' ends at byte 64 of the data, the file has 63; it is "
                        "cut short");
  assert_places_refused(0, 32, 0,
                        "m.gguf: tensor 'a' ends at byte 32 of the data, the file has 0; it is "
                        "cut short");
  assert_places_refused(0, UINT64_MAX - 31, 64,
                        "m.gguf: tensor 'b' begins at byte 18446744073709551584 of the data, and "
                        "its 32 bytes end beyond any file");
  assert_places_refused(0, 32, 64 + 512,
                        "m.gguf: 512 bytes behind the last tensor; it is damaged, or two files in "
                        "one");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_headers),          cmocka_unit_test(refuses_texts),
      cmocka_unit_test(refuses_values),           cmocka_unit_test(refuses_arrays),
      cmocka_unit_test(refuses_alignments),       cmocka_unit_test(refuses_names_of_tensors),
      cmocka_unit_test(refuses_shapes_and_types), cmocka_unit_test(refuses_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

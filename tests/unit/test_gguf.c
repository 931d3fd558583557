/*
 * test_gguf.c: GGUF files as gguf-py and as we write them, whole and damaged in every way.
 */
#include "specs/vector_file.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "specs/gguf.h"
#include "tests/data/vector_files.h"
#include "tests/support/vector_bytes.h"

static stg_status parse(const void *bytes, size_t size, struct stg_tensor_file *ret_file,
                        stg_error *err) {
  return stg_tensor_file_parse("m.gguf", bytes, size, NULL, ret_file, err);
}

static stg_status parse_stem(const char *stem, struct stg_tensor_file *ret_file) {
  const struct stg_embedded_file *bytes = test_vector_file(stem);
  assert_non_null(bytes);
  return parse(bytes->text, bytes->len, ret_file, NULL);
}

static float element(const struct stg_tensor_file *file, const char *name, size_t index) {
  const struct stg_tensor_info *tensor = NULL;
  float value = 0;
  assert_int_equal(stg_tensor_find(file, name, &tensor, NULL), STG_OK);
  stg_tensor_read(tensor, index, 1, STG_F32, &value);
  return value;
}

static const char *metadata(const struct stg_tensor_file *file, const char *key) {
  for (size_t i = 0; i < file->n_metadata; i++) {
    if (strcmp(file->metadata[2 * i], key) == 0) {
      return file->metadata[2 * i + 1];
    }
  }
  return "none";
}

/* Every tensor's data lie in the bytes, and all that can be read is read. */
static void walk(const struct stg_tensor_file *file) {
  for (size_t i = 0; i < file->n_tensors; i++) {
    const struct stg_tensor_info *tensor = &file->tensors[i];
    const size_t at = (size_t)((const unsigned char *)tensor->data - file->bytes);
    assert_true(at <= file->size);
    if (tensor->elem != STG_ELEM_NONE) {
      assert_true(tensor->n_elems <= (file->size - at) / stg_elem_bytes(tensor->elem));
      for (size_t row = 0; row < stg_tensor_rows(tensor); row++) {
        stg_tensor_row_facts(tensor, row);
      }
    }
  }
}

static void reads_a_control_vector_of_the_gguf_package(void **state) {
  struct stg_tensor_file file = {0};
  (void)state;
  assert_int_equal(parse_stem("control", &file), STG_OK);
  assert_int_equal(file.format, STG_FILE_GGUF);
  assert_string_equal(file.format_text, "GGUF v3");
  assert_int_equal(file.n_metadata, 3);
  assert_string_equal(metadata(&file, "general.architecture"), "controlvector");
  assert_string_equal(metadata(&file, "controlvector.model_hint"), "mistral");
  assert_string_equal(metadata(&file, "controlvector.layer_count"), "3");
  assert_int_equal(file.n_tensors, 3);
  static const char *const names[] = {"direction.1", "direction.2", "direction.3"};
  for (size_t i = 0; i < 3; i++) {
    assert_string_equal(file.tensors[i].name, names[i]);
    assert_string_equal(file.tensors[i].dtype_name, "F32");
    assert_int_equal(file.tensors[i].n_dims, 1);
    assert_int_equal(file.tensors[i].shape[0], 8);
    for (size_t k = 0; k < 8; k++) {
      assert_true(element(&file, names[i], k) == (float)(k * (i + 1)) - 0.5f);
    }
  }
  stg_tensor_file_close(&file);
}

static void gives_each_value_type_as_text(void **state) {
  static const char *const expected[][2] = {
      {"general.architecture", "types"},
      {"general.alignment", "64"},
      {"t.u8", "200"},
      {"t.i8", "-100"},
      {"t.u16", "60000"},
      {"t.i16", "-30000"},
      {"t.i32", "-2000000000"},
      {"t.u64", "18446744073709551615"},
      {"t.i64", "-9223372036854775808"},
      {"t.f32", "0.1"},
      {"t.f64", "-1e+300"},
      {"t.bool", "true"},
      {"t.string", "zwei\nZeilen, \xc3\xa4"},
      {"t.ints", "[i32 x 3]"},
      {"t.texts", "[string x 3]"},
      {"t.nested", "[array x 2]"},
  };
  struct stg_tensor_file file = {0};
  (void)state;
  assert_int_equal(parse_stem("types", &file), STG_OK);
  assert_int_equal(file.n_metadata, sizeof expected / sizeof expected[0]);
  for (size_t i = 0; i < file.n_metadata; i++) {
    assert_string_equal(file.metadata[2 * i], expected[i][0]);
    assert_string_equal(file.metadata[2 * i + 1], expected[i][1]);
  }
  stg_tensor_file_close(&file);
}

static void reads_each_element_type_at_another_alignment(void **state) {
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *tensor = NULL;
  stg_error err = STG_ERROR_INIT;
  (void)state;
  assert_int_equal(parse_stem("types", &file), STG_OK);
  assert_true(element(&file, "f16", 0) == 1.5f && element(&file, "f16", 1) == -2);
  assert_true(element(&file, "bf16", 0) == 1.5f && element(&file, "bf16", 1) == -2);
  assert_true(element(&file, "f64", 0) == 0.1f && element(&file, "f64", 2) == 4);
  assert_int_equal(stg_tensor_find(&file, "matrix", &tensor, NULL), STG_OK);
  assert_int_equal(tensor->n_dims, 2);
  assert_int_equal(tensor->shape[0], 3); /* rows first, as numpy has them */
  assert_int_equal(tensor->shape[1], 4);
  assert_true(element(&file, "matrix", 4) == 4 && element(&file, "matrix", 11) == 11);
  assert_int_equal(stg_tensor_find(&file, "q8", &tensor, &err), STG_E_UNSUPPORTED);
  assert_string_equal(err.message, "'m.gguf': tensor 'q8' has dtype Q8_0; convert it to F32, F16 "
                                   "or BF16");
  assert_int_equal(stg_tensor_find(&file, "i32", &tensor, &err), STG_E_UNSUPPORTED);
  stg_tensor_file_close(&file);
}

static const char *const two_names[] = {"direction.1", "direction.2"};
static const struct gguf_control plain = {.architecture = "controlvector",
                                          .model_hint = "m",
                                          .layer_count = 2,
                                          .key = "k",
                                          .value = "v",
                                          .names = two_names,
                                          .n_names = 2,
                                          .width = 5};

static void version_2_is_version_3_but_for_its_word(void **state) {
  struct gguf_bytes out = {0};
  struct stg_tensor_file file = {0};
  (void)state;
  gguf_write_control(&out, &plain);
  assert_int_equal(parse(out.text.data, out.text.len, &file, NULL), STG_OK);
  assert_string_equal(file.format_text, "GGUF v3");
  stg_tensor_file_close(&file);
  out.text.data[4] = 2;
  assert_int_equal(parse(out.text.data, out.text.len, &file, NULL), STG_OK);
  assert_string_equal(file.format_text, "GGUF v2");
  assert_int_equal(file.n_tensors, 2);
  assert_true(element(&file, "direction.2", 4) == 1);
  assert_string_equal(metadata(&file, "k"), "v");
  stg_tensor_file_close(&file);
  gguf_finish(&out);
}

/* Also at an odd address: nothing may rely on the file's own alignment. */
static void survives_any_cut(void **state) {
  static const char *const stems[] = {"control", "types"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    const struct stg_embedded_file *whole = test_vector_file(stems[i]);
    for (size_t size = 0; size < whole->len; size++) {
      unsigned char *bytes = stg_malloc(size + 1);
      assert_non_null(bytes);
      memcpy(bytes + 1, whole->text, size);
      struct stg_tensor_file file = {0};
      stg_error err = STG_ERROR_INIT;
      stg_status status = parse(bytes + 1, size, &file, &err);
      /* 4 bytes of padding behind the last float64 ... of the last tensor, which may be missing */
      if (status == STG_OK) {
        assert_true(whole->len - size < 64);
        walk(&file);
        stg_tensor_file_close(&file);
      } else {
        assert_int_equal(status, STG_E_FORMAT);
        assert_non_null(strstr(err.message, "m.gguf"));
        assert_null(strchr(err.message, '\n'));
      }
      stg_free(bytes);
    }
  }
}

static void survives_any_flipped_bit(void **state) {
  static const char *const stems[] = {"control", "types"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    const struct stg_embedded_file *whole = test_vector_file(stems[i]);
    unsigned char *bytes = stg_malloc(whole->len);
    assert_non_null(bytes);
    for (size_t bit = 0; bit < 8 * whole->len; bit++) {
      memcpy(bytes, whole->text, whole->len);
      bytes[bit / 8] = (unsigned char)(bytes[bit / 8] ^ (1u << bit % 8));
      struct stg_tensor_file file = {0};
      stg_error err = STG_ERROR_INIT;
      stg_status status = parse(bytes, whole->len, &file, &err);
      if (status == STG_OK) {
        walk(&file);
        stg_tensor_file_close(&file);
      } else {
        assert_true(status == STG_E_FORMAT || status == STG_E_UNSUPPORTED);
        assert_null(strchr(err.message, '\n'));
      }
    }
    stg_free(bytes);
  }
}

/* Every number of a file in turn, with the values that break readers. */
static void survives_any_number_in_any_field(void **state) {
  static const uint64_t values[] = {
      0,          1,          2,          7,          12,         13,
      24,         32,         65,         0x7f,       0xff,       0x7fff,
      0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
      1ull << 61, 1ull << 62, 1ull << 63, INT64_MAX,  UINT64_MAX, UINT64_MAX - 31};
  struct gguf_bytes out = {0};
  size_t n_refused = 0;
  (void)state;
  gguf_write_control(&out, &plain);
  for (size_t f = 0; f < out.n_fields; f++) {
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
      char *bytes = stg_malloc(out.text.len);
      assert_non_null(bytes);
      memcpy(bytes, out.text.data, out.text.len);
      memcpy(bytes + out.fields[f].at, &values[v], out.fields[f].width);
      struct stg_tensor_file file = {0};
      stg_alloc_asked_bytes(true);
      stg_status status = parse(bytes, out.text.len, &file, NULL);
      assert_in_range(stg_alloc_asked_bytes(true), 1, 65536 + 8 * out.text.len);
      if (status == STG_OK) {
        walk(&file);
        stg_tensor_file_close(&file);
      } else {
        assert_true(status == STG_E_FORMAT || status == STG_E_UNSUPPORTED);
        n_refused++;
      }
      stg_free(bytes);
    }
  }
  assert_true(n_refused > 20 * (out.n_fields - 4));
  gguf_finish(&out);
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  const struct stg_embedded_file *bytes = test_vector_file("types");
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  while (status != STG_OK) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(++nth);
    status = parse(bytes->text, bytes->len, &file, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    stg_tensor_file_close(&file);
    assert_true(nth < 100);
  }
  assert_true(nth > 5);
}

/* The bytes of one block, and what a row of elements must be a multiple of, as ggml has them. */
static void knows_the_blocks_of_each_type(void **state) {
  static const struct {
    uint32_t id;
    size_t elems, bytes;
  } blocks[] = {{0, 1, 4},      {1, 1, 2},      {2, 32, 18},    {3, 32, 20},    {6, 32, 22},
                {7, 32, 24},    {8, 32, 34},    {9, 32, 36},    {10, 256, 84},  {11, 256, 110},
                {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 256, 292}, {16, 256, 66},
                {17, 256, 74},  {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110},
                {22, 256, 82},  {23, 256, 136}, {24, 1, 1},     {25, 1, 2},     {26, 1, 4},
                {27, 1, 8},     {28, 1, 8},     {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
                {35, 256, 66},  {39, 32, 17},   {40, 64, 36},   {41, 128, 18}};
  (void)state;
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
    for (int off = -1; off <= 1; off++) {
      struct gguf_bytes out = {0};
      struct stg_tensor_file file = {0};
      const uint64_t dims[] = {2 * blocks[i].elems, 3};
      gguf_header(&out, 3, 2, 0);
      gguf_tensor(&out, "q", 2, dims, blocks[i].id, 0);
      const size_t bytes = 6 * blocks[i].bytes;
      const size_t next = (bytes + (size_t)(off + 1) / 2 * 32 + 31) / 32 * 32;
      const uint64_t one = 1;
      gguf_tensor(&out, "behind", 1, &one, GGUF_TENSOR_F32, off < 0 ? next - 32 : next);
      gguf_pad(&out, 32);
      gguf_zeros(&out, next + 4);
      stg_status status = parse(out.text.data, out.text.len, &file, NULL);
      assert_int_equal(status, off == 0 ? STG_OK : STG_E_FORMAT); /* else an overlap, or a hole */
      stg_tensor_file_close(&file);
      gguf_finish(&out);
    }
  }
  static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38, 42, 255};
  for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
    assert_null(stg_gguf_type_find(removed[i]));
  }
  assert_null(stg_gguf_type_find(UINT64_C(1) << 32));
}

/* Infos in any order, a scalar, an empty tensor, names of 64 bytes, no padding at the end. */
static void takes_what_the_format_allows(void **state) {
  static const char longest[] =
      "abcdefghijklmnopqrstuvwxyz012345abcdefghijklmnopqrstuvwxyz01234\xc3\xa4";
  struct gguf_bytes out = {0};
  struct stg_tensor_file file = {0};
  const uint64_t dims[] = {3, 0};
  const uint64_t huge[] = {INT64_MAX, 4, 0};
  (void)state;
  gguf_header(&out, 3, 5, 1);
  gguf_key(&out, "general.alignment", GGUF_U32);
  gguf_number(&out, 8, 4);
  gguf_tensor(&out, "second", 1, dims, GGUF_TENSOR_F16, 16);
  gguf_tensor(&out, longest + 1, 0, NULL, GGUF_TENSOR_F64, 8);
  gguf_tensor(&out, "first", 1, dims, GGUF_TENSOR_F16, 0);
  gguf_tensor(&out, "empty", 2, dims, GGUF_TENSOR_F32, 0);
  gguf_tensor(&out, "huge", 3, huge, GGUF_TENSOR_F32, 0);
  gguf_pad(&out, 8);
  gguf_zeros(&out, 16 + 6);
  assert_int_equal(parse(out.text.data, out.text.len, &file, NULL), STG_OK);
  assert_string_equal(file.tensors[0].name, "second");
  assert_string_equal(file.tensors[1].name, longest + 1);
  assert_int_equal(file.tensors[1].n_dims, 0);
  assert_int_equal(file.tensors[1].n_elems, 1);
  assert_int_equal(file.tensors[3].n_elems, 0);
  assert_int_equal(file.tensors[4].n_elems, 0);
  assert_ptr_equal(file.tensors[2].data, file.bytes + out.text.len - 22);
  stg_tensor_file_close(&file);
  gguf_zeros(&out, 8);
  assert_int_equal(parse(out.text.data, out.text.len, &file, NULL), STG_OK);
  stg_tensor_file_close(&file);
  gguf_zeros(&out, 1);
  assert_int_equal(parse(out.text.data, out.text.len, &file, NULL), STG_E_FORMAT);
  gguf_finish(&out);
}

static void reads_a_file_of_nothing(void **state) {
  struct gguf_bytes out = {0};
  struct stg_tensor_file file = {0};
  (void)state;
  gguf_header(&out, 3, 0, 0);
  assert_int_equal(parse(out.text.data, out.text.len, &file, NULL), STG_OK);
  assert_int_equal(file.n_tensors, 0);
  assert_int_equal(file.n_metadata, 0);
  stg_tensor_file_close(&file);
  gguf_finish(&out);
}

static void says_so_where_a_text_is_none(void **state) {
  struct gguf_bytes out = {0};
  struct stg_tensor_file file = {0};
  (void)state;
  gguf_header(&out, 3, 0, 3);
  gguf_key(&out, "nul", GGUF_STRING);
  gguf_text(&out, "a\0b", 3);
  gguf_key(&out, "latin", GGUF_STRING);
  gguf_text(&out, "\xe4", 1);
  gguf_key_text(&out, "empty", "");
  assert_int_equal(parse(out.text.data, out.text.len, &file, NULL), STG_OK);
  assert_string_equal(metadata(&file, "nul"), "[3 bytes that are no text]");
  assert_string_equal(metadata(&file, "latin"), "[1 bytes that are no text]");
  assert_string_equal(metadata(&file, "empty"), "");
  stg_tensor_file_close(&file);
  gguf_finish(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_control_vector_of_the_gguf_package),
      cmocka_unit_test(gives_each_value_type_as_text),
      cmocka_unit_test(reads_each_element_type_at_another_alignment),
      cmocka_unit_test(version_2_is_version_3_but_for_its_word),
      cmocka_unit_test(survives_any_cut),
      cmocka_unit_test(survives_any_flipped_bit),
      cmocka_unit_test(survives_any_number_in_any_field),
      cmocka_unit_test(gives_no_memory_when_any_allocation_fails),
      cmocka_unit_test(knows_the_blocks_of_each_type),
      cmocka_unit_test(takes_what_the_format_allows),
      cmocka_unit_test(reads_a_file_of_nothing),
      cmocka_unit_test(says_so_where_a_text_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

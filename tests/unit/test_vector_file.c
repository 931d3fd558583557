/*
 * test_vector_file.c: which reader a file gets, files in memory, raw files, and finding a tensor.
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
#include "tests/support/temp_folder.h"

/* One tensor "v" of two float64, 2 and -0.5. */
static const char doubles[] = "\x38\0\0\0\0\0\0\0"
                              "{\"v\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}} "
                              "\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\xe0\xbf";

static const float four[4] = {1, 2, 3, -4};

/* Parse bytes that must be refused; the whole message. */
static void assert_refused(const char *path, const void *bytes, size_t size,
                           const struct stg_tensor_hint *hint, stg_status status,
                           const char *message) {
  struct stg_tensor_file file = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_tensor_file_parse(path, bytes, size, hint, &file, &err), status);
  assert_string_equal(err.message, message);
  assert_null(file.path);
}

static void reads_a_file_and_the_same_bytes_in_memory(void **state) {
  const char *path = temp_path(state, "v.dat");
  assert_int_equal(stg_file_write_atomic(path, doubles, sizeof doubles - 1, 0600, NULL), STG_OK);
  struct stg_tensor_file file = {0};
  struct stg_tensor_file memory = {0};
  unsigned char odd[sizeof doubles];
  memcpy(odd + 1, doubles, sizeof doubles - 1);
  assert_int_equal(stg_tensor_file_open(path, NULL, &file, NULL), STG_OK);
  assert_int_equal(stg_tensor_file_parse("v.dat", odd + 1, sizeof doubles - 1, NULL, &memory, NULL),
                   STG_OK);
  assert_string_equal(file.path, path);
  assert_string_equal(memory.path, "v.dat");
  const struct stg_tensor_file *both[] = {&file, &memory};
  for (size_t i = 0; i < 2; i++) {
    const struct stg_tensor_info *tensor = NULL;
    float values[2];
    assert_int_equal(both[i]->format, STG_FILE_SAFETENSORS);
    assert_string_equal(both[i]->format_text, "safetensors");
    assert_int_equal(stg_tensor_find(both[i], "v", &tensor, NULL), STG_OK);
    assert_int_equal(tensor->elem, STG_ELEM_F64);
    stg_tensor_read(tensor, 0, 2, STG_F32, values);
    assert_true(values[0] == 2 && values[1] == -0.5f);
  }
  assert_true(stg_key_equal(stg_tensor_file_key(&file), stg_tensor_file_key(&memory)));
  stg_tensor_file_close(&memory);
  stg_tensor_file_close(&file);
  assert_null(file.path);
  stg_tensor_file_close(&file);
}

static void reads_raw_elements_as_the_hint_says(void **state) {
  static const struct {
    struct stg_tensor_hint hint;
    uint32_t n_dims;
    int64_t shape[2];
    float first;
  } cases[] = {
      {{.count_elems = 4}, 1, {4}, 1},
      {{.offset_elems = 1, .count_elems = 2}, 1, {2}, 2},
      {{.offset_elems = 3, .count_elems = 1, .width_elems = 9}, 1, {1}, -4},
      {{.width_elems = 2}, 2, {2, 2}, 1},
      {{.width_elems = 4}, 2, {1, 4}, 1},
      {{.offset_elems = 2, .width_elems = 1}, 2, {2, 1}, 3},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_tensor_file file = {0};
    const struct stg_tensor_info *tensor = NULL;
    float value = 0;
    assert_int_equal(stg_tensor_file_parse("v.f32", four, sizeof four, &cases[i].hint, &file, NULL),
                     STG_OK);
    assert_int_equal(file.format, STG_FILE_RAW);
    assert_string_equal(file.format_text, "raw float32");
    assert_int_equal(stg_tensor_find(&file, NULL, &tensor, NULL), STG_OK);
    assert_string_equal(tensor->name, "raw");
    assert_string_equal(tensor->dtype_name, "F32");
    assert_int_equal(tensor->n_dims, cases[i].n_dims);
    size_t n_elems = 1;
    for (uint32_t k = 0; k < tensor->n_dims; k++) {
      assert_int_equal(tensor->shape[k], cases[i].shape[k]);
      n_elems *= (size_t)tensor->shape[k];
    }
    assert_int_equal(tensor->n_elems, n_elems);
    stg_tensor_read(tensor, 0, 1, STG_F32, &value);
    assert_true(value == cases[i].first);
    stg_tensor_file_close(&file);
  }
}

static void reads_an_empty_raw_file_as_no_rows(void **state) {
  struct stg_tensor_file file = {0};
  struct stg_tensor_hint hint = {.width_elems = 4};
  (void)state;
  assert_int_equal(stg_tensor_file_parse("v.f32", NULL, 0, &hint, &file, NULL), STG_OK);
  assert_int_equal(stg_tensor_rows(&file.tensors[0]), 0);
  assert_int_equal(stg_tensor_width(&file.tensors[0]), 4);
  stg_tensor_file_close(&file);
}

static void refuses_raw_files_that_do_not_fit_the_hint(void **state) {
  static const struct {
    size_t size;
    struct stg_tensor_hint hint;
    const char *message;
  } cases[] = {
      {15,
       {.count_elems = 3},
       "v.f32: 15 bytes are no whole number of float32 elements; it is cut short, or of another "
       "type"},
      {16, {.count_elems = 5}, "v.f32: elements 0 to 4 were asked for, it has 4"},
      {16,
       {.offset_elems = 2, .count_elems = 3},
       "v.f32: elements 2 to 4 were asked for, it has 4"},
      {16,
       {.offset_elems = INT64_MAX, .count_elems = INT64_MAX},
       "v.f32: elements 9223372036854775807 to 18446744073709551613 were asked for, it has 4"},
      {16,
       {.offset_elems = 5, .width_elems = 1},
       "v.f32: elements from 5 on were asked for, it has 4"},
      {16,
       {.width_elems = 3},
       "v.f32: 4 float32 elements are no whole number of rows of 3; it is cut short, or of "
       "another width"},
      {16,
       {.offset_elems = 1, .width_elems = 2},
       "v.f32: 3 float32 elements are no whole number of rows of 2; it is cut short, or of "
       "another width"},
      {0, {.count_elems = 1}, "v.f32: elements 0 to 0 were asked for, it has 0"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_refused("v.f32", four, cases[i].size, &cases[i].hint, STG_E_FORMAT, cases[i].message);
  }
}

static void takes_the_hint_over_the_content(void **state) {
  struct stg_tensor_file file = {0};
  struct stg_tensor_hint hint = {.count_elems = 2};
  (void)state;
  assert_int_equal(stg_tensor_file_parse("v.f32", "GGUF\0\0\x80\x3f", 8, &hint, &file, NULL),
                   STG_OK);
  float values[2];
  stg_tensor_read(&file.tensors[0], 0, 2, STG_F32, values);
  assert_true(values[0] > 13649 && values[0] < 13650 && values[1] == 1);
  stg_tensor_file_close(&file);
}

/* A GGUF file of 123 tensors has '{' where safetensors has it. */
static void tells_gguf_from_safetensors_by_the_size_word(void **state) {
  static const char gguf[] = "GGUF\3\0\0\0{\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
  (void)state;
  assert_refused("m.bin", gguf, sizeof gguf - 1, NULL, STG_E_FORMAT,
                 "m.bin: 123 tensors declared, the 0 bytes left hold at most 0; it is cut short or "
                 "damaged");
}

static const struct stg_tensor_hint unsaid = {.count_elems = 0};

/* Where the content tells nothing, the suffix names the reader that says what is wrong. */
static void lets_the_suffix_speak_where_the_content_is_none(void **state) {
  (void)state;
  assert_refused("v.npy", "text", 4, NULL, STG_E_FORMAT,
                 "v.npy: does not begin as a .npy file does");
  assert_refused("v.gguf", "text", 4, NULL, STG_E_FORMAT,
                 "v.gguf: 4 bytes, a GGUF file begins with 24");
  assert_refused("v.safetensors", "text", 4, NULL, STG_E_FORMAT,
                 "v.safetensors: 4 bytes, a safetensors file begins with 8 bytes of header size");
  static const char *const others[] = {"v.f32", "npy", "v.npy/x", ".safetensors/v"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    char message[192];
    snprintf(message, sizeof message,
             "'%s' is none of safetensors, GGUF, .npy and JSON directions; to read it as raw "
             "float32 say how wide it is "
             "(\"count\" in a spec, --width in a command)",
             others[i]);
    assert_refused(others[i], "text", 4, &unsaid, STG_E_FORMAT, message);
    assert_refused(others[i], NULL, 0, &unsaid, STG_E_FORMAT, message);
    snprintf(message, sizeof message,
             "'%s' is none of safetensors, GGUF, .npy and JSON directions; save it as safetensors",
             others[i]);
    assert_refused(others[i], "text", 4, NULL, STG_E_FORMAT, message);
  }
}

/* Whatever it is called. */
static void says_of_safetensors_without_its_end_that_it_is_cut(void **state) {
  static const char cut[] = "\x40\0\0\0\0\0\0\0{\"in.weight\":{\"dty";
  static const char *const names[] = {"p.safetensors", "p.st", "p", "p.npy"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char message[128];
    snprintf(message, sizeof message,
             "%s: a header of 64 bytes does not fit in a file of 26; it is not safetensors, or cut "
             "short",
             names[i]);
    assert_refused(names[i], cut, sizeof cut - 1, NULL, STG_E_FORMAT, message);
    assert_refused(names[i], cut, sizeof cut - 1, &unsaid, STG_E_FORMAT, message);
  }
}

/* Whatever protocol a pickle has; two bytes that only begin like one are none. */
static void tells_pickles_of_every_protocol(void **state) {
  static const char remedy[] = "'v.bin' is a Python pickle, which is never read; convert a file of "
                               "PyTorch with tools/pt_to_safetensors.py";
  static const char *const pickles[] = {"\x80\x02}q", "\x80\x03}q", "\x80\x04\x95x",
                                        "\x80\x05\x95x"};
  static const char *const others[] = {"\x80\x01}q", "\x80\x06}q", "\x81\x04}q"};
  (void)state;
  for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++) {
    assert_refused("v.bin", pickles[i], 4, NULL, STG_E_UNSUPPORTED, remedy);
  }
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    struct stg_tensor_file file = {0};
    assert_int_equal(stg_tensor_file_parse("v.bin", others[i], 4, NULL, &file, NULL), STG_E_FORMAT);
  }
}

static void asks_for_a_name_where_tensors_have_names(void **state) {
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *tensor = NULL;
  stg_error err = STG_ERROR_INIT;
  (void)state;
  assert_int_equal(stg_tensor_file_parse("v.dat", doubles, sizeof doubles - 1, NULL, &file, NULL),
                   STG_OK);
  assert_int_equal(stg_tensor_find(&file, NULL, &tensor, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "'v.dat' is safetensors, which holds tensors by name; name one "
                                   "of its 1, see 'steergraph vectors ls'");
  assert_null(tensor);
  stg_tensor_file_close(&file);
}

static void asks_for_no_more_than_it_says(void **state) {
  struct stg_tensor_file file = {0};
  struct stg_tensor_hint hint = {.width_elems = 1};
  static const unsigned char megabyte[1 << 20];
  (void)state;
  stg_alloc_asked_bytes(true);
  assert_int_equal(stg_tensor_file_parse("v.f32", megabyte, sizeof megabyte, &hint, &file, NULL),
                   STG_OK);
  assert_in_range(stg_alloc_asked_bytes(true), 1, 65536);
  assert_int_equal(stg_alloc_asked_bytes(false), 0);
  stg_tensor_file_close(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reads_a_file_and_the_same_bytes_in_memory, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test(reads_raw_elements_as_the_hint_says),
      cmocka_unit_test(reads_an_empty_raw_file_as_no_rows),
      cmocka_unit_test(refuses_raw_files_that_do_not_fit_the_hint),
      cmocka_unit_test(takes_the_hint_over_the_content),
      cmocka_unit_test(tells_gguf_from_safetensors_by_the_size_word),
      cmocka_unit_test(lets_the_suffix_speak_where_the_content_is_none),
      cmocka_unit_test(says_of_safetensors_without_its_end_that_it_is_cut),
      cmocka_unit_test(tells_pickles_of_every_protocol),
      cmocka_unit_test(asks_for_a_name_where_tensors_have_names),
      cmocka_unit_test(asks_for_no_more_than_it_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

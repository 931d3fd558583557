/*
 * test_directions.c: JSON files of directions: read, with another thing in every place, and broken.
 */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/strbuf.h"
#include "specs/vector_file.h"

static const char small[] =
    " \r\n\t{\"model_hint\": \"m\", \"note\": \"n\", \"directions\": {\"12\": "
    "[1, -2.5, 1e-3], \"0\": [0.1, 0, 4]}}\n";
#define FILE_BYTES (sizeof small - 1)

static stg_status parse(const char *bytes, size_t size, struct stg_tensor_file *ret_file,
                        stg_error *err) {
  return stg_tensor_file_parse("v.json", bytes, size, NULL, ret_file, err);
}

static void reads_layers_in_the_order_of_the_file(void **state) {
  struct stg_tensor_file file = {0};
  const struct stg_tensor_info *tensor = NULL;
  float values[3];
  (void)state;
  assert_int_equal(parse(small, FILE_BYTES, &file, NULL), STG_OK);
  assert_int_equal(file.format, STG_FILE_DIRECTIONS);
  assert_string_equal(file.format_text, "JSON directions");
  assert_int_equal(file.n_tensors, 2);
  assert_string_equal(file.tensors[0].name, "12");
  assert_string_equal(file.tensors[1].name, "0");
  assert_int_equal(stg_tensor_find(&file, "12", &tensor, NULL), STG_OK);
  assert_int_equal(tensor->elem, STG_ELEM_F32);
  assert_string_equal(tensor->dtype_name, "F32");
  assert_true(tensor->n_dims == 1 && tensor->shape[0] == 3 && tensor->n_elems == 3);
  stg_tensor_read(tensor, 0, 3, STG_F32, values);
  static const float expected[3] = {1.0f, -2.5f, 1e-3f};
  assert_memory_equal(values, expected, sizeof expected);
  stg_tensor_read(&file.tensors[1], 0, 3, STG_F32, values);
  assert_true(values[0] == 0.1f && values[1] == 0 && values[2] == 4);
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_tensor_find(&file, "13", &tensor, &err), STG_E_NOT_FOUND);
  assert_string_equal(err.message, "'v.json' has no tensor '13'; nearest of 2: '12', '0'");
  assert_int_equal(stg_tensor_find(&file, NULL, &tensor, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "'v.json' is JSON directions, which holds tensors by name; name "
                                   "one of its 2, see 'steergraph vectors ls'");
  stg_tensor_file_close(&file);
}

static void gives_its_texts_as_metadata(void **state) {
  struct stg_tensor_file file = {0};
  (void)state;
  assert_int_equal(parse(small, FILE_BYTES, &file, NULL), STG_OK);
  assert_int_equal(file.n_metadata, 2);
  assert_string_equal(file.metadata[0], "controlvector.model_hint");
  assert_string_equal(file.metadata[1], "m");
  assert_string_equal(file.metadata[2], "note");
  assert_string_equal(file.metadata[3], "n");
  stg_tensor_file_close(&file);
  static const char bare[] = "{\"directions\":{\"1023\":[1]}}";
  assert_int_equal(parse(bare, sizeof bare - 1, &file, NULL), STG_OK);
  assert_int_equal(file.n_metadata, 0);
  assert_string_equal(file.tensors[0].name, "1023");
  stg_tensor_file_close(&file);
}

static void refuses_what_is_no_file_of_directions(void **state) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{}", "directions: missing; a vector file is {\"directions\": {\"12\": [numbers]}}"},
      {"{\"12\": [1]}",
       "directions: missing; a vector file is {\"directions\": {\"12\": [numbers]}}"},
      {"{\"directions\": {\"1\": [1]}, \"scale\": 2}",
       "scale: unknown member; allowed: 'directions', 'model_hint', 'note'"},
      {"{\"directions\": {\"1\": [1]}, \"note\": 2}", "note: expected a string, found 2"},
      {"{\"directions\": [[1]]}", "directions: expected an object, found an array"},
      {"{\"directions\": {}}", "directions: no layer; a member is \"12\": [numbers]"},
      {"{\"directions\": {\"012\": [1]}}",
       "directions.012: not a layer; write 0 to 1023 without leading zeros"},
      {"{\"directions\": {\"-1\": [1]}}",
       "directions.-1: not a layer; write 0 to 1023 without leading zeros"},
      {"{\"directions\": {\"1024\": [1]}}",
       "directions.1024: not a layer; write 0 to 1023 without leading zeros"},
      {"{\"directions\": {\"layer_3\": [1]}}",
       "directions.layer_3: not a layer; write 0 to 1023 without leading zeros"},
      {"{\"directions\": {\"1\": 1}}", "directions.1: expected an array, found 1"},
      {"{\"directions\": {\"1\": {\"vector\": [1]}}}",
       "directions.1: expected an array, found an object"},
      {"{\"directions\": {\"1\": []}}", "directions.1: no numbers; a direction has hidden_size"},
      {"{\"directions\": {\"12\": [1, 2], \"13\": [1]}}",
       "directions.13: 1 number, but directions.12 has 2"},
      {"{\"directions\": {\"1\": [1, \"2\"]}}", "directions.1[1]: expected a number, found \"2\""},
      {"{\"directions\": {\"1\": [1, 4e38]}}",
       "directions.1[1]: expected a number that fits float32 (at most 3.4e38), found 4e+38"},
      {"{\"directions\": {\"1\": [1], \"1\": [1]}}",
       "directions.1: this member is given twice; keep one"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    char message[256];
    snprintf(message, sizeof message, "v.json: %s", cases[i].message);
    assert_int_equal(parse(cases[i].text, strlen(cases[i].text), &file, &err), STG_E_FORMAT);
    assert_string_equal(err.message, message);
    assert_null(file.path);
  }
}

static void gives_line_and_column_where_it_is_not_json(void **state) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{\"directions\": {\"1\": [1,]}}", "v.json:1:25: "},
      {"{\"directions\": {\"1\": [NaN]}}", "v.json:1:23: "},
      {"text", "v.json:1:1: "},
      {"\xef\xbb\xbf{}", "v.json:1:1: "},
      {"", "v.json:1:1: "},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    const size_t size = strlen(cases[i].text);
    assert_int_equal(parse(size > 0 ? cases[i].text : NULL, size, &file, &err), STG_E_FORMAT);
    if (strncmp(err.message, cases[i].message, strlen(cases[i].message)) != 0) {
      fail_msg("'%s' does not begin with '%s'", err.message, cases[i].message);
    }
  }
}

static void refuses_a_file_cut_at_any_byte(void **state) {
  (void)state;
  for (size_t size = 0; size + 1 < FILE_BYTES; size++) { /* the last byte is a newline */
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    char *cut = size > 0 ? stg_malloc(size) : NULL; /* exact, for the sanitizers */
    memcpy(cut != NULL ? cut : (char[1]){0}, small, size);
    assert_int_equal(parse(cut, size, &file, &err), STG_E_FORMAT);
    stg_free(cut);
  }
}

static void survives_any_flipped_bit(void **state) {
  char bytes[FILE_BYTES];
  (void)state;
  for (size_t bit = 0; bit < 8 * FILE_BYTES; bit++) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    memcpy(bytes, small, FILE_BYTES);
    bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    stg_status status = parse(bytes, FILE_BYTES, &file, &err);
    if (status == STG_OK) {
      assert_in_range(file.n_tensors, 1, 2);
      assert_int_equal(file.tensors[0].n_elems, file.tensors[file.n_tensors - 1].n_elems);
    } else {
      assert_int_equal(status, STG_E_FORMAT);
      assert_int_equal(strncmp(err.message, "v.json:", 7), 0);
    }
    stg_tensor_file_close(&file);
  }
}

static void gives_no_memory_when_any_allocation_fails(void **state) {
  stg_status status = STG_E_NO_MEMORY;
  size_t nth = 0;
  (void)state;
  while (status != STG_OK) {
    struct stg_tensor_file file = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(++nth);
    status = parse(small, FILE_BYTES, &file, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    stg_tensor_file_close(&file);
    assert_true(nth < 200);
  }
  assert_true(nth > 1);
}

/* What the largest file can make of each byte is bounded: here by our own heap, see
 * runtime/base/json_scan.h for the tree. */
static void asks_for_memory_in_proportion_to_the_file(void **state) {
  struct stg_strbuf text = {0};
  struct stg_tensor_file file = {0};
  (void)state;
  stg_strbuf_str(&text, "{\"directions\":{\"0\":[");
  for (size_t i = 0; i < 100000; i++) {
    stg_strbuf_str(&text, "1,");
  }
  stg_strbuf_str(&text, "1]}}");
  assert_int_equal(stg_strbuf_status(&text, NULL), STG_OK);
  stg_alloc_asked_bytes(true);
  assert_int_equal(parse(text.data, text.len, &file, NULL), STG_OK);
  assert_in_range(stg_alloc_asked_bytes(true), 400000, 65536 + 8 * text.len);
  assert_int_equal(file.tensors[0].n_elems, 100001);
  stg_tensor_file_close(&file);
  stg_strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_layers_in_the_order_of_the_file),
      cmocka_unit_test(gives_its_texts_as_metadata),
      cmocka_unit_test(refuses_what_is_no_file_of_directions),
      cmocka_unit_test(gives_line_and_column_where_it_is_not_json),
      cmocka_unit_test(refuses_a_file_cut_at_any_byte),
      cmocka_unit_test(survives_any_flipped_bit),
      cmocka_unit_test(gives_no_memory_when_any_allocation_fails),
      cmocka_unit_test(asks_for_memory_in_proportion_to_the_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_workload_layers.c: sources that are one vector for each layer of a file.
 */
#include "specs/workload.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "specs/vector_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/workload_text.h"

/* A workload of width 4 whose "vectors" and "slots" are given as JSON. */
static struct stg_workload parse(void **state, const char *vectors, const char *slots) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text,
                    "{\"steergraph\": 1, \"family\": \"steer\", \"geometry\": {\"hidden_size\": 4, "
                    "\"dtype\": \"bf16\"}, \"vectors\": {%s}, \"slots\": {%s}, \"batch\": "
                    "{\"requests\": []}, \"input\": {\"hidden\": {\"random\": {\"seed\": 1}}}}",
                    vectors, slots);
  return parse_workload(state, &text);
}

static void write_tensors(void **state, const struct stg_tensor_out *tensors, size_t n) {
  const char *path = temp_path(state, "t.safetensors");
  assert_int_equal(stg_safetensors_write(path, tensors, n, NULL, 0, NULL), STG_OK);
}

static const float matrix[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

#define LAYERS_OF_ROWS                                                                             \
  "\"m\": {\"file\": \"t.safetensors\", \"tensor\": \"m\", \"row\": \"{}\"}, "                     \
  "\"n\": {\"file\": \"t.safetensors\", \"tensor\": \"a.{}.b\"}"

static void reads_one_vector_per_layer(void **state) {
  const struct stg_tensor_out tensors[] = {
      {.name = "m", .dtype = STG_F32, .n_dims = 2, .shape = {3, 4}, .data = matrix},
      {.name = "a.10.b", .dtype = STG_F32, .n_dims = 1, .shape = {4}, .data = matrix + 4},
      {.name = "a.1.b", .dtype = STG_F32, .n_dims = 1, .shape = {4}, .data = matrix + 8},
  };
  write_tensors(state, tensors, 3);
  struct stg_workload w = parse(state, LAYERS_OF_ROWS,
                                "\"up\": {\"layers\": {\"0\": [{\"op\": \"add\", \"v\": \"m[2]\"}, "
                                "{\"op\": \"add\", \"v\": \"n[10]\"}]}}");
  float values[4];
  assert_true(w.vectors[0].indexable && w.vectors[0].copies == 1024);
  assert_int_equal(w.slots[0].chains[0].ops[0].args[0].copy, 2);
  assert_int_equal(w.slots[0].chains[0].ops[1].args[0].copy, 10);
  for (uint32_t row = 0; row < 3; row++) {
    assert_int_equal(stg_workload_read_vector(&w, 0, row, values, NULL), STG_OK);
    assert_memory_equal(values, matrix + (size_t)(4 * row), sizeof values);
  }
  assert_int_equal(stg_workload_read_vector(&w, 1, 10, values, NULL), STG_OK);
  assert_memory_equal(values, matrix + 4, sizeof values);
  assert_int_equal(stg_workload_read_vector(&w, 1, 1, values, NULL), STG_OK);
  assert_memory_equal(values, matrix + 8, sizeof values);
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_workload_read_vector(&w, 0, 3, values, &err), STG_E_FORMAT);
  assert_string_equal(after_file(&err), "w.json: vectors.m: 'm[3]': tensor 'm' has shape [3, 4]; "
                                        "needed: more than 3 rows, because \"row\" is 3");
  assert_int_equal(stg_workload_read_vector(&w, 1, 2, values, &err), STG_E_NOT_FOUND);
  assert_non_null(strstr(err.message, "w.json: vectors.n: 'n[2]': '"));
  assert_non_null(strstr(err.message, "has no tensor 'a.2.b'; nearest of 3: 'a.1.b', "));
  stg_workload_finish(&w);
}

/* A file that is parsed for each of its layers would show what is written into it meanwhile. */
static void opens_a_file_once_for_all_its_layers(void **state) {
  struct stg_tensor_out tensor = {
      .name = "m", .dtype = STG_F32, .n_dims = 2, .shape = {3, 4}, .data = matrix};
  static const float other[12] = {0};
  float values[4];
  write_tensors(state, &tensor, 1);
  struct stg_workload w =
      parse(state, "\"m\": {\"file\": \"t.safetensors\", \"tensor\": \"m\", \"row\": \"{}\"}", "");
  assert_int_equal(stg_workload_read_vector(&w, 0, 0, values, NULL), STG_OK);
  tensor.data = other;
  write_tensors(state, &tensor, 1);
  assert_int_equal(stg_workload_read_vector(&w, 0, 1, values, NULL), STG_OK);
  assert_memory_equal(values, matrix + 4, sizeof values);
  stg_workload_finish(&w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(reads_one_vector_per_layer),
      TEST(opens_a_file_once_for_all_its_layers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

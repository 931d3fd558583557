/*
 * test_workload_vectors.c: the numbers behind a workload: vectors, rows, unit vectors.
 */
#include "specs/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "specs/random.h"
#include "specs/vector_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/workload_text.h"

/* A workload of width 4 with 3 rows whose "vectors", "slots" and input are given as JSON. */
static struct stg_workload parse(void **state, const char *dtype, const char *vectors,
                                 const char *slots, const char *input) {
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text,
                    "{\"steergraph\": 1, \"family\": \"steer\", \"geometry\": {\"hidden_size\": 4, "
                    "\"dtype\": \"%s\", \"state\": \"hidden+residual\"}, \"vectors\": {%s}, "
                    "\"slots\": {%s}, \"batch\": {\"row_stride\": 6, \"requests\": [{\"slot\": "
                    "null, \"rows\": 3}]}, \"input\": {\"hidden\": {%s}, \"residual\": {%s}}}",
                    dtype, vectors, slots, input, input);
  return parse_workload(state, &text);
}

#define RANDOM "\"random\": {\"seed\": 1}"

static void write_tensors(void **state, const struct stg_tensor_out *tensors, size_t n) {
  stg_error err = STG_ERROR_INIT;
  stg_status status =
      stg_safetensors_write(temp_path(state, "t.safetensors"), tensors, n, NULL, 0, &err);
  if (status != STG_OK) {
    print_error("%s\n", err.message);
  }
  assert_int_equal(status, STG_OK);
}

static const float matrix[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static void gives_inline_values_as_written(void **state) {
  struct stg_workload w =
      parse(state, "bf16", "\"v\": {\"values\": [0.1, -2, 3e-5, 0]}", "", RANDOM);
  float values[4];
  assert_int_equal(stg_workload_read_vector(&w, 0, 0, values, NULL), STG_OK);
  static const float expected[4] = {0.1f, -2.0f, 3e-5f, 0.0f};
  assert_memory_equal(values, expected, sizeof expected);
  stg_workload_finish(&w);
}

static void gives_each_copy_its_own_stream(void **state) {
  struct stg_workload w =
      parse(state, "bf16", "\"v\": {\"random\": {\"seed\": 9, \"scale\": 0.5}, \"copies\": 2}", "",
            RANDOM);
  float values[4];
  float expected[4];
  for (uint32_t copy = 0; copy < 2; copy++) {
    assert_int_equal(stg_workload_read_vector(&w, 0, copy, values, NULL), STG_OK);
    stg_random_normal(9, copy, 0, 0.5f, expected, 4);
    assert_memory_equal(values, expected, sizeof expected);
  }
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_workload_read_vector(&w, 0, 2, values, &err), STG_E_INVALID);
  assert_string_equal(after_file(&err), "w.json: vectors.v: copy 2 of 2");
  stg_workload_finish(&w);
}

static void reads_vectors_of_every_dtype_and_rows_of_a_matrix(void **state) {
  float one[4] = {1.5f, -2.0f, 0.25f, 4.0f};
  uint16_t half[4];
  uint16_t brain[4];
  for (int i = 0; i < 4; i++) {
    half[i] = stg_f16_from_f32(one[i]);
    brain[i] = stg_bf16_from_f32(one[i]);
  }
  const struct stg_tensor_out tensors[] = {
      {.name = "a", .dtype = STG_F32, .n_dims = 1, .shape = {4}, .data = one},
      {.name = "b", .dtype = STG_F16, .n_dims = 1, .shape = {4}, .data = half},
      {.name = "c", .dtype = STG_BF16, .n_dims = 1, .shape = {4}, .data = brain},
      {.name = "m", .dtype = STG_F32, .n_dims = 2, .shape = {3, 4}, .data = matrix},
  };
  write_tensors(state, tensors, 4);
  struct stg_workload w =
      parse(state, "bf16",
            "\"a\": {\"file\": \"t.safetensors\", \"tensor\": \"a\"},"
            "\"b\": {\"file\": \"t.safetensors\", \"tensor\": \"b\"},"
            "\"c\": {\"file\": \"t.safetensors\", \"tensor\": \"c\"},"
            "\"m\": {\"file\": \"t.safetensors\", \"tensor\": \"m\", \"row\": 2}",
            "", RANDOM);
  float values[4];
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(stg_workload_read_vector(&w, i, 0, values, NULL), STG_OK);
    assert_memory_equal(values, one, sizeof one);
  }
  assert_int_equal(stg_workload_read_vector(&w, 3, 0, values, NULL), STG_OK);
  assert_memory_equal(values, matrix + 8, sizeof values);
  stg_workload_finish(&w);
}

static void write_bytes(void **state, const char *name, const void *bytes, size_t size) {
  FILE *file = fopen(temp_path(state, name), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

/* A .npy file of float64 [3, 4], whose elements lie at no multiple of 8. */
static void write_npy(void **state, const char *name, const double *values) {
  static const char header[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)}";
  unsigned char bytes[10 + sizeof header - 1 + 12 * sizeof(double)] = "\x93NUMPY\1\0";
  bytes[8] = sizeof header - 1;
  memcpy(bytes + 10, header, sizeof header - 1);
  memcpy(bytes + 10 + sizeof header - 1, values, 12 * sizeof(double));
  write_bytes(state, name, bytes, sizeof bytes);
}

static void reads_arrays_of_numpy_and_ranges_of_raw_files(void **state) {
  double doubles[12];
  float expected[4];
  float values[4];
  for (size_t i = 0; i < 12; i++) {
    doubles[i] = 0.1 * (double)matrix[i];
  }
  write_npy(state, "m.npy", doubles);
  write_bytes(state, "blob.f32", matrix, sizeof matrix);
  write_bytes(state, "blob", matrix, sizeof matrix);
  struct stg_workload w =
      parse(state, "f32",
            "\"r\": {\"file\": \"m.npy\", \"row\": 2},"
            "\"a\": {\"file\": \"blob.f32\", \"count\": 4},"
            "\"b\": {\"file\": \"blob\", \"offset\": 3, \"count\": 4},"
            "\"c\": {\"file\": \"blob.f32\", \"offset\": 4, \"count\": 4, \"row\": 1}",
            "", "\"file\": \"blob.f32\", \"count\": 12");
  for (size_t i = 0; i < 4; i++) {
    expected[i] = (float)doubles[8 + i];
  }
  static const size_t first[] = {0, 0, 3, 8};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(stg_workload_read_vector(&w, i, 0, values, NULL), STG_OK);
    assert_memory_equal(values, i == 0 ? expected : matrix + first[i], sizeof values);
  }
  float rows[18];
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, NULL), STG_OK);
  for (size_t row = 0; row < 3; row++) {
    assert_memory_equal(rows + row * 6, matrix + row * 4, sizeof values);
  }
  stg_workload_finish(&w);
}

static void fills_rows_from_an_array_of_numpy(void **state) {
  double doubles[12];
  float rows[18];
  for (size_t i = 0; i < 12; i++) {
    doubles[i] = (double)matrix[i];
  }
  write_npy(state, "m.npy", doubles);
  struct stg_workload w = parse(state, "f32", "", "", "\"file\": \"m.npy\"");
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, NULL), STG_OK);
  for (size_t row = 0; row < 3; row++) {
    assert_memory_equal(rows + row * 6, matrix + row * 4, 4 * sizeof(float));
  }
  stg_workload_finish(&w);
}

static void tells_a_value_beyond_float32_from_an_infinity(void **state) {
  double doubles[12] = {0, 1, -1e39, 2, 0, 1, (double)INFINITY, 2, 0x1.fffffe8p127};
  float values[4];
  stg_error err = STG_ERROR_INIT;
  write_npy(state, "m.npy", doubles);
  struct stg_workload w = parse(state, "f32",
                                "\"a\": {\"file\": \"m.npy\", \"row\": 0},"
                                "\"b\": {\"file\": \"m.npy\", \"row\": 1},"
                                "\"c\": {\"file\": \"m.npy\", \"row\": 2}",
                                "", RANDOM);
  assert_int_equal(stg_workload_read_vector(&w, 0, 0, values, &err), STG_E_NON_FINITE);
  assert_string_equal(after_file(&err), "w.json: vectors.a: element 2 is -1e+39, beyond float32");
  err = (stg_error)STG_ERROR_INIT;
  assert_int_equal(stg_workload_read_vector(&w, 1, 0, values, &err), STG_E_NON_FINITE);
  assert_string_equal(after_file(&err),
                      "w.json: vectors.b: element 2 is inf; a vector must be finite");
  assert_int_equal(stg_workload_read_vector(&w, 2, 0, values, NULL), STG_OK);
  assert_true(values[0] == 0x1.fffffep127f);
  stg_workload_finish(&w);
}

static void refuses_tensors_of_the_wrong_shape_with_both_shapes(void **state) {
  const struct stg_tensor_out tensors[] = {
      {.name = "short", .dtype = STG_F32, .n_dims = 1, .shape = {3}, .data = matrix},
      {.name = "long", .dtype = STG_F32, .n_dims = 1, .shape = {5}, .data = matrix},
      {.name = "empty", .dtype = STG_F32, .n_dims = 1, .shape = {0}, .data = matrix},
      {.name = "m", .dtype = STG_F32, .n_dims = 2, .shape = {3, 4}, .data = matrix},
      {.name = "right", .dtype = STG_F32, .n_dims = 1, .shape = {4}, .data = matrix},
  };
  static const struct {
    const char *tensor;
    const char *more;
    stg_status status;
    const char *message;
  } cases[] = {
      {"short", "", STG_E_FORMAT,
       "w.json: vectors.v: tensor 'short' has shape [3]; needed: [4], by geometry.hidden_size"},
      {"long", "", STG_E_FORMAT,
       "w.json: vectors.v: tensor 'long' has shape [5]; needed: [4], by geometry.hidden_size"},
      {"empty", "", STG_E_FORMAT,
       "w.json: vectors.v: tensor 'empty' has shape [0]; needed: [4], by geometry.hidden_size"},
      {"m", "", STG_E_FORMAT,
       "w.json: vectors.v: tensor 'm' has shape [3, 4]; needed: [4], or a \"row\" of it"},
      {"m", ", \"row\": 3", STG_E_FORMAT,
       "w.json: vectors.v: tensor 'm' has shape [3, 4]; needed: more than 3 rows, because \"row\" "
       "is 3"},
      {"right", ", \"row\": 0", STG_E_FORMAT,
       "w.json: vectors.v: tensor 'right' has shape [4]; needed: [rows, 4], because \"row\" is "
       "given"},
  };
  write_tensors(state, tensors, 5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char vectors[128];
    snprintf(vectors, sizeof vectors, "\"v\": {\"file\": \"t.safetensors\", \"tensor\": \"%s\"%s}",
             cases[i].tensor, cases[i].more);
    struct stg_workload w = parse(state, "bf16", vectors, "", RANDOM);
    float values[4] = {0};
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(stg_workload_read_vector(&w, 0, 0, values, &err), cases[i].status);
    assert_string_equal(after_file(&err), cases[i].message);
    stg_workload_finish(&w);
  }
}

static void puts_the_vector_before_what_its_file_gave(void **state) {
  const struct stg_tensor_out tensor = {
      .name = "a", .dtype = STG_F32, .n_dims = 1, .shape = {4}, .data = matrix};
  write_tensors(state, &tensor, 1);
  struct stg_workload w =
      parse(state, "bf16", "\"v\": {\"file\": \"t.safetensors\", \"tensor\": \"b\"}", "", RANDOM);
  float values[4];
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_workload_read_vector(&w, 0, 0, values, &err), STG_E_NOT_FOUND);
  assert_true(strncmp(after_file(&err), "w.json: vectors.v: ", 19) == 0);
  assert_non_null(strstr(err.message, "'b'"));
  stg_workload_finish(&w);
}

static void refuses_values_that_are_not_finite_and_names_the_element(void **state) {
  const float bad[4] = {1.0f, 2.0f, NAN, 4.0f};
  const struct stg_tensor_out tensor = {
      .name = "a", .dtype = STG_F32, .n_dims = 1, .shape = {4}, .data = bad};
  write_tensors(state, &tensor, 1);
  struct stg_workload w =
      parse(state, "bf16", "\"v\": {\"file\": \"t.safetensors\", \"tensor\": \"a\"}", "", RANDOM);
  float values[4];
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_workload_read_vector(&w, 0, 0, values, &err), STG_E_NON_FINITE);
  assert_string_equal(after_file(&err),
                      "w.json: vectors.v: element 2 is nan; a vector must be finite");
  stg_workload_finish(&w);
}

/* 3 rows of pitch 6, painted so that untouched elements show. */
static void paint(void *rows, size_t size) {
  memset(rows, 0x5a, size);
}

static void fills_rows_at_their_pitch_and_leaves_the_gap(void **state) {
  struct stg_workload w =
      parse(state, "f32", "", "", "\"values\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]");
  float rows[18];
  float gap;
  paint(rows, sizeof rows);
  paint(&gap, sizeof gap);
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, NULL), STG_OK);
  for (size_t row = 0; row < 3; row++) {
    assert_memory_equal(rows + row * 6, matrix + row * 4, 4 * sizeof(float));
    assert_memory_equal(rows + row * 6 + 4, &gap, sizeof gap);
    assert_memory_equal(rows + row * 6 + 5, &gap, sizeof gap);
  }
  stg_workload_finish(&w);
}

static void fills_from_seeds_by_element_number_and_separates_the_two_inputs(void **state) {
  struct stg_workload w = parse(state, "f32", "", "", RANDOM);
  float hidden[18];
  float residual[18];
  float expected[12];
  assert_int_equal(stg_workload_fill(&w, &w.hidden, hidden, NULL), STG_OK);
  assert_int_equal(stg_workload_fill(&w, &w.residual, residual, NULL), STG_OK);
  stg_random_normal(1, (uint64_t)1 << 32, 0, 1.0f, expected, 12);
  for (size_t row = 0; row < 3; row++) {
    assert_memory_equal(hidden + row * 6, expected + row * 4, 4 * sizeof(float));
  }
  assert_memory_not_equal(hidden, residual, 4 * sizeof(float));
  stg_workload_finish(&w);
}

static void rounds_rows_once_to_the_dtype(void **state) {
  struct stg_workload w =
      parse(state, "bf16", "", "", "\"values\": [0.1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1e-3]");
  uint16_t rows[18];
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, NULL), STG_OK);
  assert_int_equal(rows[0], stg_bf16_from_f32(0.1f));
  assert_int_equal(rows[15], stg_bf16_from_f32(1e-3f));
  stg_workload_finish(&w);
}

static void fills_from_a_tensor_with_its_non_finite_values(void **state) {
  float special[12];
  memcpy(special, matrix, sizeof special);
  special[5] = NAN;
  special[6] = -INFINITY;
  special[7] = -0.0f;
  const struct stg_tensor_out tensor = {
      .name = "h", .dtype = STG_F32, .n_dims = 2, .shape = {3, 4}, .data = special};
  write_tensors(state, &tensor, 1);
  struct stg_workload w =
      parse(state, "f32", "", "", "\"file\": \"t.safetensors\", \"tensor\": \"h\"");
  float rows[18];
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, NULL), STG_OK);
  for (size_t row = 0; row < 3; row++) {
    assert_memory_equal(rows + row * 6, special + row * 4, 4 * sizeof(float));
  }
  stg_workload_finish(&w);
}

static void refuses_input_of_another_shape_and_writes_nothing(void **state) {
  const struct stg_tensor_out tensor = {
      .name = "h", .dtype = STG_F32, .n_dims = 2, .shape = {2, 4}, .data = matrix};
  write_tensors(state, &tensor, 1);
  struct stg_workload w =
      parse(state, "f32", "", "", "\"file\": \"t.safetensors\", \"tensor\": \"h\"");
  float rows[18];
  float before[18];
  paint(rows, sizeof rows);
  paint(before, sizeof before);
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, &err), STG_E_FORMAT);
  assert_string_equal(after_file(&err),
                      "w.json: input.hidden: tensor 'h' has shape [2, 4]; needed: [3, 4]");
  assert_memory_equal(rows, before, sizeof rows);
  stg_workload_finish(&w);
}

/* Wider than a piece of the conversion, and of a width that is no multiple of anything. */
static void fills_wide_rows_piece_by_piece(void **state) {
  (void)state;
  enum { WIDTH = 1283 };
  char text[512];
  snprintf(text, sizeof text,
           "{\"steergraph\": 1, \"family\": \"steer\", \"geometry\": {\"hidden_size\": %d, "
           "\"dtype\": \"f16\"}, \"batch\": {\"requests\": [{\"slot\": null, \"rows\": 2}]}, "
           "\"input\": {\"hidden\": {\"random\": {\"seed\": 4}}}}",
           WIDTH);
  struct stg_workload w = {0};
  assert_int_equal(stg_workload_parse("w.json", text, strlen(text), NULL, &w, NULL), STG_OK);
  uint16_t rows[2 * WIDTH];
  float expected[2 * WIDTH];
  assert_int_equal(stg_workload_fill(&w, &w.hidden, rows, NULL), STG_OK);
  stg_random_normal(4, (uint64_t)1 << 32, 0, 1.0f, expected, (size_t)2 * WIDTH);
  for (size_t i = 0; i < (size_t)2 * WIDTH; i++) {
    assert_int_equal(rows[i], stg_f16_from_f32(expected[i]));
  }
  stg_workload_finish(&w);
}

static void decides_unsaid_normalisation_by_the_ops(void **state) {
  struct stg_workload w = parse(
      state, "f32",
      "\"unit\": {\"values\": [1, 0, 0, 0]}, \"stored\": {\"values\": [1, 0, 0, 0]},"
      "\"both\": {\"values\": [1, 0, 0, 0]}, \"idle\": {\"values\": [1, 0, 0, 0]},"
      "\"said\": {\"values\": [1, 0, 0, 0], \"normalize\": false},"
      "\"told\": {\"values\": [1, 0, 0, 0], \"normalize\": true}",
      "\"s\": {\"layers\": {\"0\": ["
      "{\"op\": \"ablation\", \"v\": \"unit\"}, {\"op\": \"swap\", \"a\": \"unit\", \"b\": "
      "\"both\"},"
      "{\"op\": \"projection_cap\", \"v\": \"said\", \"max\": 1},"
      "{\"op\": \"add\", \"v\": \"stored\"}, {\"op\": \"gated_add\", \"u\": \"stored\", \"v\": "
      "\"both\"}, {\"op\": \"add\", \"v\": \"told\"}]}}",
      RANDOM);
  static const bool expected[] = {true, false, false, false, false, true};
  for (size_t i = 0; i < 6; i++) {
    bool normalize = !expected[i];
    if (i == 2) {
      continue;
    }
    assert_int_equal(stg_workload_resolve_normalize(&w, i, &normalize, NULL), STG_OK);
    assert_true(normalize == expected[i]);
  }
  bool untouched = true;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_workload_resolve_normalize(&w, 2, &untouched, &err), STG_E_INVALID);
  assert_string_equal(after_file(&err),
                      "w.json: vectors.both: used where a unit vector is expected "
                      "(slots.s.layers.0[1]) and where it is not (slots.s.layers.0[4]); say "
                      "\"normalize\": true or false");
  assert_true(untouched);
  stg_workload_finish(&w);
}

static void normalises_in_float64(void **state) {
  (void)state;
  float values[4] = {3.0f, 0.0f, -4.0f, 0.0f};
  assert_int_equal(stg_normalize(values, 4, NULL), STG_OK);
  assert_true(values[0] == 0.6f && values[2] == -0.8f && values[1] == 0.0f);
  float large[2] = {3e38f, 3e38f}; /* their squares leave float32 */
  assert_int_equal(stg_normalize(large, 2, NULL), STG_OK);
  assert_true(large[0] == (float)(1.0 / sqrt(2.0)));
  float small[1] = {1e-45f};
  assert_int_equal(stg_normalize(small, 1, NULL), STG_OK);
  assert_true(small[0] == 1.0f);
}

static void refuses_to_normalise_nothing(void **state) {
  (void)state;
  float zeros[3] = {0.0f, -0.0f, 0.0f};
  float infinite[1] = {INFINITY};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_normalize(zeros, 3, &err), STG_E_INVALID);
  assert_string_equal(err.message,
                      "cannot normalise a vector of 3 elements with norm 0; give a direction");
  assert_int_equal(stg_normalize(infinite, 1, &err), STG_E_INVALID);
  assert_true(infinite[0] == INFINITY);
}

static void reports_every_failed_allocation_of_a_file_read(void **state) {
  const struct stg_tensor_out tensor = {
      .name = "a", .dtype = STG_F32, .n_dims = 1, .shape = {4}, .data = matrix};
  write_tensors(state, &tensor, 1);
  struct stg_workload w =
      parse(state, "bf16", "\"v\": {\"file\": \"t.safetensors\", \"tensor\": \"a\"}", "", RANDOM);
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  while (status != STG_OK) {
    float values[4];
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(failures + 1);
    status = stg_workload_read_vector(&w, 0, 0, values, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    failures += status != STG_OK;
  }
  assert_true(failures >= 1);
  stg_workload_finish(&w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_folder_setup, temp_folder_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(gives_inline_values_as_written),
      TEST(gives_each_copy_its_own_stream),
      TEST(reads_vectors_of_every_dtype_and_rows_of_a_matrix),
      TEST(reads_arrays_of_numpy_and_ranges_of_raw_files),
      TEST(fills_rows_from_an_array_of_numpy),
      TEST(tells_a_value_beyond_float32_from_an_infinity),
      TEST(refuses_tensors_of_the_wrong_shape_with_both_shapes),
      TEST(puts_the_vector_before_what_its_file_gave),
      TEST(refuses_values_that_are_not_finite_and_names_the_element),
      TEST(fills_rows_at_their_pitch_and_leaves_the_gap),
      TEST(fills_from_seeds_by_element_number_and_separates_the_two_inputs),
      TEST(rounds_rows_once_to_the_dtype),
      TEST(fills_from_a_tensor_with_its_non_finite_values),
      TEST(refuses_input_of_another_shape_and_writes_nothing),
      cmocka_unit_test(fills_wide_rows_piece_by_piece),
      TEST(decides_unsaid_normalisation_by_the_ops),
      cmocka_unit_test(normalises_in_float64),
      cmocka_unit_test(refuses_to_normalise_nothing),
      TEST(reports_every_failed_allocation_of_a_file_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

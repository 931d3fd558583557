/*
 * test_tensor_elems.c: elements of every type at any address, and what is said of rows.
 */
#include "specs/tensor_elems.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"

#define ALL_HALVES 65536

static struct stg_tensor_info vector_of(enum stg_elem elem, const void *data, size_t count) {
  return (struct stg_tensor_info){.name = "t",
                                  .elem = elem,
                                  .n_dims = 1,
                                  .shape = {(int64_t)count},
                                  .n_elems = count,
                                  .data = data};
}

static struct stg_tensor_info matrix_of(enum stg_elem elem, const void *data, int64_t rows,
                                        int64_t width) {
  return (struct stg_tensor_info){.name = "t",
                                  .elem = elem,
                                  .n_dims = 2,
                                  .shape = {rows, width},
                                  .n_elems = (size_t)(rows * width),
                                  .data = data};
}

static void knows_its_types(void **state) {
  static const struct {
    enum stg_elem elem;
    const char *name;
    size_t bytes;
    stg_dtype dtype;
  } rows[] = {{STG_ELEM_BF16, "BF16", 2, STG_BF16},
              {STG_ELEM_F16, "F16", 2, STG_F16},
              {STG_ELEM_F32, "F32", 4, STG_F32},
              {STG_ELEM_F64, "F64", 8, STG_DTYPE_NONE}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_string_equal(stg_elem_name(rows[i].elem), rows[i].name);
    assert_int_equal(stg_elem_of_name(rows[i].name), rows[i].elem);
    assert_int_equal(stg_elem_bytes(rows[i].elem), rows[i].bytes);
    assert_int_equal(stg_elem_dtype(rows[i].elem), rows[i].dtype);
  }
  assert_int_equal(stg_elem_of_name("I64"), STG_ELEM_NONE);
  assert_int_equal(stg_elem_of_name("f32"), STG_ELEM_NONE);
  assert_int_equal(stg_elem_of_name("none"), STG_ELEM_NONE);
  assert_int_equal(stg_elem_bytes(STG_ELEM_NONE), 0);
}

/* Every pattern of a 16-bit type, one byte off any alignment, against the scalar conversion. */
static void check_all_halves(enum stg_elem elem, float (*widen)(uint16_t)) {
  static unsigned char bytes[1 + 2 * ALL_HALVES];
  static float values[ALL_HALVES];
  static uint16_t same[ALL_HALVES];
  for (uint32_t i = 0; i < ALL_HALVES; i++) {
    bytes[1 + 2 * i] = (unsigned char)i;
    bytes[2 + 2 * i] = (unsigned char)(i >> 8);
  }
  struct stg_tensor_info tensor = vector_of(elem, bytes + 1, ALL_HALVES);
  stg_tensor_read(&tensor, 0, ALL_HALVES, STG_F32, values);
  stg_tensor_read(&tensor, 0, ALL_HALVES, stg_elem_dtype(elem), same);
  for (uint32_t i = 0; i < ALL_HALVES; i++) {
    assert_int_equal(stg_f32_bits(values[i]), stg_f32_bits(widen((uint16_t)i)));
    assert_int_equal(same[i], i);
  }
}

static float widen_bf16(uint16_t bits) {
  return stg_bf16_to_f32(bits);
}

static void widens_every_half_and_keeps_bits_of_its_own_type(void **state) {
  (void)state;
  check_all_halves(STG_ELEM_F16, stg_f16_to_f32);
  check_all_halves(STG_ELEM_BF16, widen_bf16);
}

static void rounds_float64_to_nearest_even_once(void **state) {
  static const struct {
    double from;
    uint32_t bits;
  } cases[] = {
      {0.1, 0x3dcccccd},
      {1.0 + 0x1p-24, 0x3f800000},           /* halfway: to the even one below */
      {1.0 + 0x3p-24, 0x3f800002},           /* halfway: to the even one above */
      {1.0 + 0x1p-24 + 0x1p-50, 0x3f800001}, /* a trace above halfway */
      {-(1.0 + 0x1p-24 - 0x1p-50), 0xbf800000} /* a trace below */,
      {0x1p-149, 0x00000001},
      {0x1p-150, 0x00000000}, /* halfway to the least subnormal: even is 0 */
      {0x1p-150 + 0x1p-190, 0x00000001},
      {0x3p-150, 0x00000002},
      {-0.0, 0x80000000},
      {0x1.fffffep127, 0x7f7fffff},
      {0x1.fffffefffffffp127, 0x7f7fffff}, /* below halfway to 2^128 */
      {0x1.ffffffp127, 0x7f800000},        /* halfway: 2^128 is even */
      {1e300, 0x7f800000},
      {-1e300, 0xff800000},
      {(double)INFINITY, 0x7f800000},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned char bytes[1 + sizeof(double)];
    memcpy(bytes + 1, &cases[i].from, sizeof(double));
    struct stg_tensor_info tensor = vector_of(STG_ELEM_F64, bytes + 1, 1);
    float to = 0;
    stg_tensor_read(&tensor, 0, 1, STG_F32, &to);
    if (stg_f32_bits(to) != cases[i].bits) {
      fail_msg("%a gives 0x%08x, not 0x%08x", cases[i].from, stg_f32_bits(to), cases[i].bits);
    }
  }
  double nan = (double)NAN;
  struct stg_tensor_info tensor = vector_of(STG_ELEM_F64, &nan, 1);
  float to = 0;
  stg_tensor_read(&tensor, 0, 1, STG_F32, &to);
  assert_true(isnan(to));
}

static void reads_any_range_into_any_type(void **state) {
  enum { COUNT = 1000 };
  static unsigned char bytes[3 + COUNT * sizeof(double)];
  static float f32[COUNT];
  static uint16_t half[COUNT];
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    double value = (double)i + 0.5;
    memcpy(bytes + 3 + i * sizeof value, &value, sizeof value);
  }
  struct stg_tensor_info tensor = vector_of(STG_ELEM_F64, bytes + 3, COUNT);
  static const size_t ranges[][2] = {{0, 1}, {0, 256}, {1, 257}, {255, 513}, {999, 1}, {7, 0}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    size_t first = ranges[i][0];
    size_t count = ranges[i][1];
    memset(f32, 0xff, sizeof f32);
    memset(half, 0xff, sizeof half);
    stg_tensor_read(&tensor, first, count, STG_F32, f32);
    stg_tensor_read(&tensor, first, count, STG_BF16, half);
    for (size_t k = 0; k < count; k++) {
      float expected = (float)(first + k) + 0.5f;
      assert_true(f32[k] == expected);
      assert_int_equal(half[k], stg_bf16_from_f32(expected));
    }
    assert_int_equal(stg_f32_bits(f32[count]), 0xffffffffu);
    assert_int_equal(half[count], 0xffff);
  }
}

static void counts_rows_of_any_rank(void **state) {
  (void)state;
  struct stg_tensor_info scalar = {.elem = STG_ELEM_F32, .n_elems = 1};
  struct stg_tensor_info cube = {.n_dims = 3, .shape = {2, 3, 4}, .n_elems = 24};
  struct stg_tensor_info no_width = {.n_dims = 2, .shape = {4, 0}, .n_elems = 0};
  struct stg_tensor_info no_rows = {.n_dims = 2, .shape = {0, 4}, .n_elems = 0};
  assert_int_equal(stg_tensor_width(&scalar), 1);
  assert_int_equal(stg_tensor_rows(&scalar), 1);
  assert_int_equal(stg_tensor_width(&cube), 4);
  assert_int_equal(stg_tensor_rows(&cube), 6);
  assert_int_equal(stg_tensor_rows(&no_width), 0);
  assert_int_equal(stg_tensor_width(&no_rows), 4);
  assert_int_equal(stg_tensor_rows(&no_rows), 0);
}

static void counts_elements_and_none_beside_an_extent_of_0(void **state) {
  const int64_t huge = (int64_t)1 << 62;
  const struct {
    struct stg_tensor_info tensor;
    bool fits;
    size_t n_elems;
  } cases[] = {
      {{.n_dims = 0}, true, 1},
      {{.n_dims = 3, .shape = {2, 3, 4}}, true, 24},
      {{.n_dims = 3, .shape = {0, huge, huge}}, true, 0},
      {{.n_dims = 3, .shape = {huge, huge, 0}}, true, 0},
      {{.n_dims = 2, .shape = {huge, 2}}, true, (size_t)1 << 63},
      {{.n_dims = 2, .shape = {huge, 4}}, false, 0},
      {{.n_dims = 3, .shape = {huge, 4, 2}}, false, 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_tensor_info tensor = cases[i].tensor;
    assert_int_equal(stg_tensor_count_elems(&tensor), cases[i].fits);
    if (cases[i].fits) {
      assert_true(tensor.n_elems == cases[i].n_elems);
    }
  }
}

static void measures_rows(void **state) {
  static const float rows[5][2] = {{3, -4}, {0, -0.0f}, {NAN, 1}, {-INFINITY, NAN}, {0x1p-149f, 0}};
  (void)state;
  struct stg_tensor_info tensor = matrix_of(STG_ELEM_F32, rows, 5, 2);
  struct stg_row_facts facts = stg_tensor_row_facts(&tensor, 0);
  assert_true(facts.norm == 5 && facts.max_abs == 4 && facts.non_finite == 0 && !facts.zero);
  facts = stg_tensor_row_facts(&tensor, 1);
  assert_true(facts.norm == 0 && facts.max_abs == 0 && facts.non_finite == 0 && facts.zero);
  facts = stg_tensor_row_facts(&tensor, 2);
  assert_true(isnan(facts.norm) && facts.max_abs == 1 && facts.non_finite == 1 && !facts.zero);
  facts = stg_tensor_row_facts(&tensor, 3);
  assert_true(isnan(facts.norm) && isinf(facts.max_abs) && facts.non_finite == 2 && !facts.zero);
  facts = stg_tensor_row_facts(&tensor, 4);
  assert_true(facts.norm == 0x1p-149 && !facts.zero);
}

static void measures_float64_beyond_the_range_of_squares(void **state) {
  static const double rows[3][2] = {{3e300, -4e300}, {3e-320, 4e-320}, {DBL_TRUE_MIN, 0}};
  (void)state;
  struct stg_tensor_info tensor = matrix_of(STG_ELEM_F64, rows, 3, 2);
  assert_true(fabs(stg_tensor_row_facts(&tensor, 0).norm / 5e300 - 1) < 1e-15);
  assert_true(fabs(stg_tensor_row_facts(&tensor, 1).norm - 5e-320) <= 2 * DBL_TRUE_MIN);
  assert_true(stg_tensor_row_facts(&tensor, 2).norm == DBL_TRUE_MIN);
}

static void finds_the_cosine_across_types_and_scales(void **state) {
  static const float a[4][2] = {{1, 0}, {3, 4}, {0, 0}, {INFINITY, 1}};
  static const double b[5][2] = {{0, -2}, {6e200, 8e200}, {-3e-200, -4e-200}, {4, -3}, {24, 7}};
  (void)state;
  struct stg_tensor_info x = matrix_of(STG_ELEM_F32, a, 4, 2);
  struct stg_tensor_info y = matrix_of(STG_ELEM_F64, b, 5, 2);
  static const struct {
    size_t row_x, row_y;
    double cosine;
  } cases[] = {{0, 0, 0}, {1, 1, 1}, {1, 2, -1}, {1, 3, 0}, {1, 4, 0.8}, {0, 4, 0.96}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double cosine = 7;
    assert_true(stg_tensor_cosine(&x, cases[i].row_x, &y, cases[i].row_y, &cosine));
    assert_true(fabs(cosine - cases[i].cosine) < 1e-15);
    assert_true(cosine >= -1 && cosine <= 1);
  }
  double untouched = 7;
  assert_false(stg_tensor_cosine(&x, 2, &y, 0, &untouched));
  assert_false(stg_tensor_cosine(&y, 0, &x, 2, &untouched));
  assert_false(stg_tensor_cosine(&x, 3, &y, 0, &untouched));
  struct stg_tensor_info wide = matrix_of(STG_ELEM_F32, a, 2, 4);
  assert_false(stg_tensor_cosine(&x, 0, &wide, 0, &untouched));
  assert_true(untouched == 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(knows_its_types),
      cmocka_unit_test(widens_every_half_and_keeps_bits_of_its_own_type),
      cmocka_unit_test(rounds_float64_to_nearest_even_once),
      cmocka_unit_test(reads_any_range_into_any_type),
      cmocka_unit_test(counts_rows_of_any_rank),
      cmocka_unit_test(counts_elements_and_none_beside_an_extent_of_0),
      cmocka_unit_test(measures_rows),
      cmocka_unit_test(measures_float64_beyond_the_range_of_squares),
      cmocka_unit_test(finds_the_cosine_across_types_and_scales),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

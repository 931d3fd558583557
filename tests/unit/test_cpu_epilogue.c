/*
 * test_cpu_epilogue.c: rows at the edge of float32 behind the epilogue, on the CPU backend.
 */
#include "engine/cpu/steer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/error.h"

#define WIDTH 3
#define STRIDE 4
#define ROWS 5

/* Unsteered rows of STRIDE elements, through the norm with the weights 1, -2, 4. */
static void normalise(float *hidden, float *residual, float *out, int64_t width, float epsilon) {
  static const float weight[WIDTH] = {1, -2, 4};
  static const int32_t unsteered[ROWS] = {-1, -1, -1, -1, -1};
  const struct stg_cpu_batch batch = {
      .hidden_size = width,
      .dtype = STG_F32,
      .bank_dtype = STG_F32,
      .rows = ROWS,
      .row_stride = STRIDE,
      .hidden = hidden,
      .out = out,
      .residual = residual,
      .row_chain = unsteered,
      .weight = weight,
      .epsilon = epsilon,
  };
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, NULL));
}

static void rows_beyond_the_norm_become_zero_or_nan_and_stay_apart(void **state) {
  float hidden[ROWS * STRIDE] = {3,        0,      -4, 7, /* an ordinary row */
                                 1e20F,    -1e20F, 1,  7, /* its squares are infinite */
                                 INFINITY, 1,      1,  7, /**/
                                 1,        NAN,    1,  7, /**/
                                 3,        0,      -4, 7};
  float residual[ROWS * STRIDE] = {0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9};
  normalise(hidden, residual, hidden, WIDTH, 0x1p-20F);
  assert_true(hidden[0] > 1 && hidden[0] < 1.1F && hidden[1] == 0 && hidden[2] < -5);
  assert_true(residual[4] == 1e20F && residual[5] == -1e20F && residual[6] == 1);
  assert_true(hidden[4] == 0 && hidden[5] == 0 && hidden[6] == 0);
  assert_true(isinf(residual[8]) && residual[9] == 1);
  assert_true(isnan(hidden[8]) && hidden[9] == 0 && hidden[10] == 0);
  for (size_t j = 12; j < 15; j++) {
    assert_true(isnan(hidden[j]));
    assert_int_equal(j == 13, isnan(residual[j]) != 0);
  }
  assert_memory_equal(hidden, hidden + 16, WIDTH * sizeof *hidden);
  for (size_t row = 0; row < ROWS; row++) {
    assert_true(hidden[row * STRIDE + WIDTH] == 7 && residual[row * STRIDE + WIDTH] == 9);
  }
  (void)state;
}

static void a_row_of_one_element_becomes_its_sign_and_zeros_stay_zeros(void **state) {
  float hidden[ROWS * STRIDE] = {5, 7, 7, 7, -5, 7, 7, 7, 0, 7, 7, 7, -0.0F, 7, 7, 7, 1, 7, 7, 7};
  float residual[ROWS * STRIDE] = {0};
  float out[ROWS * STRIDE] = {0};
  residual[12] = -0.0F;
  residual[16] = -1;
  normalise(hidden, residual, out, 1, 0x1p-126F);
  assert_true(out[0] == 1 && out[4] == -1 && residual[0] == 5 && residual[4] == -5);
  assert_true(out[8] == 0 && out[12] == 0 && signbit(out[12]) && signbit(residual[12]));
  assert_true(out[16] == 0 && residual[16] == 0 && !signbit(residual[16]));
  assert_true(hidden[0] == 5 && out[1] == 0 && residual[1] == 0);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_beyond_the_norm_become_zero_or_nan_and_stay_apart),
      cmocka_unit_test(a_row_of_one_element_becomes_its_sign_and_zeros_stay_zeros),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

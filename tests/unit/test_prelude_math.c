/*
 * test_prelude_math.c: the float32 functions of programs against libm in float64: their error
 * over a sample of all arguments, and the arguments where functions usually go wrong.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/prelude/math.h"

/* Prime, so that the sample hits every exponent and no pattern of mantissas. 1 checks everything.
 */
#define SAMPLE_STEP 1009

static double logistic(double x) {
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* One unit in the last place of float32 at `x`. */
static double unit_at(double x) {
  int exponent;
  if (fabs(x) < 0x1p-126) {
    return 0x1p-149;
  }
  (void)frexp(x, &exponent);
  return ldexp(1, exponent - 24);
}

/* The largest error in units in the last place; arguments without a finite result are skipped. */
static double worst_error(float (*function)(float), double (*reference)(double)) {
  double worst = 0;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += SAMPLE_STEP) {
    float x = stg_f32_from_bits((uint32_t)bits);
    double expected = reference((double)x);
    float rounded = (float)expected;
    float y = function(x);
    if (isnan(x) || isnan(expected)) {
      assert_true(isnan(y));
    } else if (isinf(rounded) || isinf(y)) {
      assert_true(rounded == y);
    } else {
      worst = fmax(worst, fabs((double)y - expected) / unit_at(expected));
    }
  }
  return worst;
}

static void exp_is_within_1_03_units_everywhere(void **state) {
  (void)state;
  assert_true(worst_error(stg_math_exp, exp) <= 1.03);
}

static void log_is_within_0_84_units_everywhere(void **state) {
  (void)state;
  assert_true(worst_error(stg_math_log, log) <= 0.84);
}

static void tanh_is_within_1_48_units_everywhere(void **state) {
  (void)state;
  assert_true(worst_error(stg_math_tanh, tanh) <= 1.48);
}

static void sigmoid_is_within_2_42_units_everywhere(void **state) {
  (void)state;
  assert_true(worst_error(stg_math_sigmoid, logistic) <= 2.42);
}

static void assert_bits(float expected, float actual) {
  assert_int_equal(stg_f32_bits(expected), stg_f32_bits(actual));
}

static void functions_are_exact_at_zero(void **state) {
  (void)state;
  assert_bits(1.0F, stg_math_exp(0.0F));
  assert_bits(1.0F, stg_math_exp(-0.0F));
  assert_bits(0.0F, stg_math_log(1.0F));
  assert_bits(0.0F, stg_math_tanh(0.0F));
  assert_bits(-0.0F, stg_math_tanh(-0.0F));
  assert_bits(0.5F, stg_math_sigmoid(0.0F));
  assert_bits(0.5F, stg_math_sigmoid(-0.0F));
}

static void functions_take_infinities_to_their_limits(void **state) {
  (void)state;
  assert_bits(INFINITY, stg_math_exp(INFINITY));
  assert_bits(0.0F, stg_math_exp(-INFINITY));
  assert_bits(INFINITY, stg_math_log(INFINITY));
  assert_bits(1.0F, stg_math_tanh(INFINITY));
  assert_bits(-1.0F, stg_math_tanh(-INFINITY));
  assert_bits(1.0F, stg_math_sigmoid(INFINITY));
  assert_bits(0.0F, stg_math_sigmoid(-INFINITY));
}

static void functions_keep_nan(void **state) {
  (void)state;
  float nans[] = {NAN, -NAN, stg_f32_from_bits(0x7f800001U), stg_f32_from_bits(0xffffffffU)};
  for (size_t k = 0; k < sizeof nans / sizeof nans[0]; k++) {
    assert_true(isnan(stg_math_exp(nans[k])));
    assert_true(isnan(stg_math_log(nans[k])));
    assert_true(isnan(stg_math_tanh(nans[k])));
    assert_true(isnan(stg_math_sigmoid(nans[k])));
  }
}

static void log_of_what_has_none_is_infinite_or_nan(void **state) {
  (void)state;
  assert_bits(-INFINITY, stg_math_log(0.0F));
  assert_bits(-INFINITY, stg_math_log(-0.0F));
  assert_true(isnan(stg_math_log(-0x1p-149F)));
  assert_true(isnan(stg_math_log(-1.0F)));
  assert_true(isnan(stg_math_log(-INFINITY)));
}

static void exp_reaches_both_ends_of_the_range(void **state) {
  (void)state;
  float last_finite = 0x1.62e42ep+6F;
  assert_true(isfinite(stg_math_exp(last_finite)));
  assert_bits(INFINITY, stg_math_exp(nextafterf(last_finite, INFINITY)));
  float last_positive = -0x1.9fe368p+6F;
  assert_bits(0x1p-149F, stg_math_exp(last_positive));
  assert_bits(0.0F, stg_math_exp(nextafterf(last_positive, -INFINITY)));
}

static void subnormal_arguments_and_results_are_not_flushed(void **state) {
  (void)state;
  assert_bits((float)log(0x1p-149), stg_math_log(0x1p-149F));
  assert_bits(0x1p-149F, stg_math_tanh(0x1p-149F));
  assert_true(stg_math_exp(-100.0F) > 0 && stg_math_exp(-100.0F) < 0x1p-126F);
  assert_true(stg_math_sigmoid(-100.0F) > 0 && stg_math_sigmoid(-100.0F) < 0x1p-126F);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exp_is_within_1_03_units_everywhere),
      cmocka_unit_test(log_is_within_0_84_units_everywhere),
      cmocka_unit_test(tanh_is_within_1_48_units_everywhere),
      cmocka_unit_test(sigmoid_is_within_2_42_units_everywhere),
      cmocka_unit_test(functions_are_exact_at_zero),
      cmocka_unit_test(functions_take_infinities_to_their_limits),
      cmocka_unit_test(functions_keep_nan),
      cmocka_unit_test(log_of_what_has_none_is_infinite_or_nan),
      cmocka_unit_test(exp_reaches_both_ends_of_the_range),
      cmocka_unit_test(subnormal_arguments_and_results_are_not_flushed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

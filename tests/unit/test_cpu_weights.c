/*
 * test_cpu_weights.c: the exponentials and the sum of the CPU backend's softmax.
 */
#include "engine/cpu/weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/cpu/lanes.h"
#include "runtime/base/dtype.h"
#include "tests/support/quick.h"

/* One unit in the last place of float32 at `x`. */
static double unit_at(double x) {
  int exponent;
  if (x < 0x1p-126) {
    return 0x1p-149;
  }
  (void)frexp(x, &exponent);
  return ldexp(1, exponent - 24);
}

/* Every float from -0 to -105 that the step hits, in batches behind a 0, which is the largest. */
static void exponentials_are_within_2_units(void **state) {
  float scores[STG_CPU_LANES];
  double worst = 0;
  const uint32_t step = test_is_quick() ? 100003 : 499;
  for (uint32_t bits = stg_f32_bits(-0.0F); bits < stg_f32_bits(-105.0F);) {
    float arguments[STG_CPU_LANES] = {0};
    for (size_t j = 1; j < STG_CPU_LANES; j++, bits += step) {
      arguments[j] = stg_f32_from_bits(bits);
    }
    for (size_t j = 0; j < STG_CPU_LANES; j++) {
      scores[j] = arguments[j];
    }
    stg_cpu_weights_of(scores, STG_CPU_LANES);
    for (size_t j = 0; j < STG_CPU_LANES; j++) {
      const double expected = exp((double)arguments[j]);
      worst = fmax(worst, fabs((double)scores[j] - expected) / unit_at(expected));
    }
  }
  assert_true(worst <= 2);
  (void)state;
}

static void the_largest_is_taken_off_and_the_tail_is_zeros(void **state) {
  float scores[2 * STG_CPU_LANES];
  for (size_t j = 0; j < (size_t)2 * STG_CPU_LANES; j++) {
    scores[j] = NAN;
  }
  scores[0] = 1000;
  scores[1] = -1e30F;
  for (size_t j = 2; j < 35; j++) {
    scores[j] = 1000;
  }
  const struct stg_cpu_weights weights = stg_cpu_weights_of(scores, 35);
  assert_true(weights.largest == 1000 && weights.sum == 34);
  assert_true(scores[0] == 1 && scores[1] == 0 && scores[34] == 1);
  for (size_t j = 35; j < (size_t)2 * STG_CPU_LANES; j++) {
    assert_true(scores[j] == 0);
  }
  (void)state;
}

static void scores_of_minus_infinity_have_no_weight_and_make_no_nan(void **state) {
  float scores[STG_CPU_LANES] = {-INFINITY, -INFINITY, -INFINITY};
  const struct stg_cpu_weights weights = stg_cpu_weights_of(scores, 3);
  assert_true(weights.largest == -INFINITY && weights.sum == 0);
  assert_true(scores[0] == 0 && scores[1] == 0 && scores[2] == 0);
  assert_true(stg_cpu_weight_base(-INFINITY) == 0 && stg_cpu_weight_base(-3) == -3);
  (void)state;
}

static void nan_stays_nan(void **state) {
  float scores[STG_CPU_LANES] = {1, NAN, 3};
  const struct stg_cpu_weights weights = stg_cpu_weights_of(scores, 3);
  assert_true(weights.largest == 3 && isnan(weights.sum));
  assert_true(isnan(scores[1]) && scores[2] == 1);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exponentials_are_within_2_units),
      cmocka_unit_test(the_largest_is_taken_off_and_the_tail_is_zeros),
      cmocka_unit_test(scores_of_minus_infinity_have_no_weight_and_make_no_nan),
      cmocka_unit_test(nan_stays_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

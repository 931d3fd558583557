/*
 * test_prelude_angle.c: sine and cosine of the rotations against libm in float64, over the angles
 * that positions have.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/prelude/angle.h"
#include "codegen/rope_freq.h"
#include "tests/support/quick.h"

#define ROT 128
#define POSITIONS 131072

/* One unit in the last place of float32 at `x`. */
static double unit_at(double x) {
  int exponent;
  (void)frexp(x, &exponent);
  return ldexp(1, exponent - 24);
}

struct worst {
  double sine, cosine;
};

static void add(struct worst *worst, float x) {
  float s;
  float c;
  stg_math_sincos(x, &s, &c);
  const double sine = sin((double)x);
  const double cosine = cos((double)x);
  if (sine != 0) {
    worst->sine = fmax(worst->sine, fabs((double)s - sine) / unit_at(sine));
  }
  worst->cosine = fmax(worst->cosine, fabs((double)c - cosine) / unit_at(cosine));
}

static void expect(struct worst worst, double sine, double cosine) {
  if (worst.sine > sine || worst.cosine > cosine) {
    fail_msg("off by %.4g and %.4g units, not %.4g and %.4g", worst.sine, worst.cosine, sine,
             cosine);
  }
}

static void every_angle_of_131072_positions_is_within_0_80_units(void **state) {
  const struct stg_rope_freq freq = {.base = 10000};
  float inv[ROT / 2];
  struct worst worst = {0};
  stg_rope_inv_freq(&freq, ROT, inv);
  const int64_t step = test_is_quick() ? 97 : 1;
  for (int64_t position = 0; position < POSITIONS; position += step) {
    for (size_t i = 0; i < ROT / 2; i++) {
      add(&worst, (float)position * inv[i]);
    }
  }
  expect(worst, 0.80, 0.80);
  (void)state;
}

/* Where the sine is smallest for its angle: floats next to a multiple of pi/2. */
static void floats_next_to_multiples_of_half_pi_are_within_0_80_units(void **state) {
  struct worst worst = {0};
  const int64_t step = test_is_quick() ? 101 : 1;
  for (int64_t n = 1; n < 83443; n += step) {
    const float x = (float)((double)n * 1.57079632679489661923);
    add(&worst, x);
    add(&worst, -x);
    add(&worst, nextafterf(x, 0));
  }
  expect(worst, 0.80, 0.80);
  (void)state;
}

static void angles_up_to_2_to_the_31_are_within_0_80_units(void **state) {
  struct worst worst = {0};
  const uint32_t last = stg_f32_bits(0x1p31F);
  const uint32_t step = test_is_quick() ? 10007 : 11;
  for (uint32_t bits = stg_f32_bits(0x1p17F); bits <= last; bits += step) {
    add(&worst, stg_f32_from_bits(bits));
    add(&worst, -stg_f32_from_bits(bits));
  }
  expect(worst, 0.80, 0.80);
  (void)state;
}

static void the_border_between_the_two_reductions_shows_nowhere(void **state) {
  struct worst worst = {0};
  float x = 0x1p17F;
  for (int k = 0; k < 1000; k++) {
    x = nextafterf(x, 0);
  }
  for (int k = 0; k < 2000; k++) {
    add(&worst, x);
    x = nextafterf(x, 0x1p18F);
  }
  expect(worst, 0.80, 0.80);
  (void)state;
}

static void zero_has_sine_zero_and_cosine_one(void **state) {
  float s;
  float c;
  stg_math_sincos(0, &s, &c);
  assert_true(s == 0 && !signbit(s) && c == 1);
  (void)state;
}

/* Positions 1, 2 and 3 lie in the first and second quadrant, 4 and 5 in the third and fourth. */
static void each_quadrant_has_its_signs(void **state) {
  static const bool sine_negative[] = {false, false, false, true, true};
  static const bool cosine_negative[] = {false, true, true, true, false};
  for (int p = 1; p <= 5; p++) {
    float s;
    float c;
    stg_math_sincos((float)p, &s, &c);
    assert_int_equal(sine_negative[p - 1], signbit(s) != 0);
    assert_int_equal(cosine_negative[p - 1], signbit(c) != 0);
  }
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_angle_of_131072_positions_is_within_0_80_units),
      cmocka_unit_test(floats_next_to_multiples_of_half_pi_are_within_0_80_units),
      cmocka_unit_test(angles_up_to_2_to_the_31_are_within_0_80_units),
      cmocka_unit_test(the_border_between_the_two_reductions_shows_nowhere),
      cmocka_unit_test(zero_has_sine_zero_and_cosine_one),
      cmocka_unit_test(each_quadrant_has_its_signs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

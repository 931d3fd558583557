/*
 * test_rope_freq.c: frequencies and scales worked out by hand.
 */
#include "codegen/rope_freq.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void frequencies_fall_by_equal_factors(void **state) {
  const struct stg_rope_freq freq = {.base = 10000};
  float inv[4];
  stg_rope_inv_freq(&freq, 8, inv);
  assert_true(inv[0] == 1.0F && inv[1] == 0.1F && inv[2] == 0.01F && inv[3] == 0.001F);
  (void)state;
}

/* 500000^(-1/32), to 20 digits 0.66360123769088944328: its nearest float32. */
static void a_frequency_is_rounded_once(void **state) {
  const struct stg_rope_freq freq = {.base = 500000};
  float inv[32];
  stg_rope_inv_freq(&freq, 64, inv);
  assert_true(inv[1] == (float)pow(500000, -1.0 / 32));
  assert_true(fabs((double)inv[1] - 0.66360123769088944328) <= 0x1p-25);
  (void)state;
}

static void linear_scaling_stretches_all(void **state) {
  const struct stg_rope_freq freq = {
      .base = 10000, .scaling = STG_ROPE_SCALING_LINEAR, .factor = 4};
  float inv[2];
  stg_rope_inv_freq(&freq, 4, inv);
  assert_true(inv[0] == 0.25F && inv[1] == 0.0025F);
  (void)state;
}

/*
 * Base 16, frequencies 1, 1/2, 1/4 and 1/8: 7.96, 3.98, 1.99 and 0.99 waves in 50 positions. From 6
 * on a frequency is kept, below 2 stretched by 8, and 3.98 lies about halfway between.
 */
static void llama3_keeps_high_stretches_low_and_ramps_between(void **state) {
  const struct stg_rope_freq freq = {.base = 16,
                                     .scaling = STG_ROPE_SCALING_LLAMA3,
                                     .factor = 8,
                                     .low_freq = 2,
                                     .high_freq = 6,
                                     .original = 50};
  float inv[4];
  stg_rope_inv_freq(&freq, 8, inv);
  const double waves = 50 * 0.5 / 6.28318530717958647692;
  const double kept = (waves - 2) / 4;
  assert_true(inv[0] == 1.0F);
  assert_true(fabs((double)inv[1] - (kept * 0.5 + (1 - kept) * 0.0625)) < 1e-7);
  assert_true(inv[2] == 0.03125F && inv[3] == 0.015625F);
  (void)state;
}

/* rot 4: (0 + 1.6)/5.6 = 2/7 and (2 + 1.6)/5.6 = 9/14. */
static void the_scale_of_xpos_grows_with_the_frequency_number(void **state) {
  float log_scale[2];
  stg_rope_log_scale(4, log_scale);
  assert_true(log_scale[0] == (float)log(2.0 / 7) && log_scale[1] == (float)log(9.0 / 14));
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frequencies_fall_by_equal_factors),
      cmocka_unit_test(a_frequency_is_rounded_once),
      cmocka_unit_test(linear_scaling_stretches_all),
      cmocka_unit_test(llama3_keeps_high_stretches_low_and_ramps_between),
      cmocka_unit_test(the_scale_of_xpos_grows_with_the_frequency_number),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

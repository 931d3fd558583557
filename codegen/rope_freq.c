/*
 * rope_freq.c: see rope_freq.h.
 *
 * Float64 up to the one rounding: an inverse frequency that is off by a unit in the last place of
 * float32 turns a pair at position 131 071 by 2^-7.
 */
#include "codegen/rope_freq.h"

#include <math.h>

#define TWO_PI 6.28318530717958647692

/* Between the two bounds the share of the frequency that stays as it is grows from 0 to 1. */
static double llama3(const struct stg_rope_freq *freq, double inv) {
  const double waves = (double)freq->original * inv / TWO_PI; /* in the original length */
  if (waves > freq->high_freq) {
    return inv;
  }
  if (waves < freq->low_freq) {
    return inv / freq->factor;
  }
  const double kept = (waves - freq->low_freq) / (freq->high_freq - freq->low_freq);
  return (1 - kept) * inv / freq->factor + kept * inv;
}

void stg_rope_inv_freq(const struct stg_rope_freq *freq, uint32_t rot, float *ret_inv_freq) {
  for (uint32_t i = 0; i < rot / 2; i++) {
    double inv = pow(freq->base, -2.0 * (double)i / (double)rot);
    switch (freq->scaling) {
    case STG_ROPE_SCALING_LINEAR:
      inv /= freq->factor;
      break;
    case STG_ROPE_SCALING_LLAMA3:
      inv = llama3(freq, inv);
      break;
    case STG_ROPE_SCALING_NONE:
      break;
    }
    ret_inv_freq[i] = (float)inv;
  }
}

void stg_rope_log_scale(uint32_t rot, float *ret_log_scale) {
  for (uint32_t i = 0; i < rot / 2; i++) {
    ret_log_scale[i] = (float)log((2.0 * (double)i + 0.4 * (double)rot) / (1.4 * (double)rot));
  }
}

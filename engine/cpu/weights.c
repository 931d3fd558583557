/*
 * cpu/weights.c: see weights.h.
 *
 * The exponential is not the prelude's: that one is fused, which a baseline x86-64 does by a call
 * for each element. This one is of products and sums alone, so that the compiler vectorises it; it
 * is within 2 units in the last place for arguments that are not above 0.
 */
#include "engine/cpu/weights.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/lanes.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define LANES STG_CPU_LANES
/* 1.5 * 2^23, and its bits: added to a small number it rounds to an integer. */
#define ROUNDER 12582912.0F
#define ROUNDER_BITS 0x4b400000U

/* x, but no less than -104, where e^x is 0; NaN stays NaN. Of ?: gcc would make a branch. */
static inline float limit(float x) {
  uint32_t below = 0U - (uint32_t)(x < -104.0F);
  return stg_f32_from_bits((stg_f32_bits(-104.0F) & below) | (stg_f32_bits(x) & ~below));
}

/* e^x for x <= 0; NaN stays NaN. */
static inline float exponential(float x) {
  float y = limit(x);
  float shifted = y * 1.44269502F + ROUNDER;
  float n = shifted - ROUNDER;
  /* ln 2 in two parts; n times the first is exact, and so is what it leaves */
  float r = (y - n * 0.693359375F) + n * 2.12194442e-4F;
  float p = 1.38146931e-3F;
  p = p * r + 8.36878456e-3F;
  p = p * r + 4.16683927e-2F;
  p = p * r + 0.166665196F;
  p = p * r + 0.49999994F;
  float e = (r * r * p + r) + 1.0F;
  /* 2^n in two factors, which are in the normal range where 2^n is not; n + 256 is positive */
  uint32_t biased = stg_f32_bits(shifted) - ROUNDER_BITS + 256;
  uint32_t half = biased >> 1;
  float low = stg_f32_from_bits((half - 1) << 23);
  float high = stg_f32_from_bits((biased - half - 1) << 23);
  return e * low * high;
}

float stg_cpu_weight_base(float largest) {
  return largest == -INFINITY ? 0 : largest;
}

static float largest_of(const float *scores, size_t count) {
  float largest = -INFINITY;
  for (size_t j = 0; j < count; j++) {
    largest = scores[j] > largest ? scores[j] : largest;
  }
  return largest;
}

struct stg_cpu_weights stg_cpu_weights_of(float *scores, size_t count) {
  const size_t padded = stg_round_up(count, LANES);
  struct stg_cpu_weights weights = {.largest = largest_of(scores, count)};
  const float base = stg_cpu_weight_base(weights.largest);
  float total[LANES] = {0};
  memset(scores + count, 0, (padded - count) * sizeof *scores);
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      scores[j + l] = exponential(scores[j + l] - base);
    }
  }
  memset(scores + count, 0, (padded - count) * sizeof *scores);
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      total[l] += scores[j + l];
    }
  }
  for (size_t width = LANES / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; l++) {
      total[l] += total[l + width];
    }
  }
  weights.sum = total[0];
  return weights;
}

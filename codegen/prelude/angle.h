/*
 * prelude/angle.h: sine and cosine of an angle in float32, the same bits on every machine.
 *
 * As math.h, which it needs: plain enough to be CUDA as well, fused where the text says so.
 * Largest errors, in units in the last place of the result: 0.80 (tests/unit/test_prelude_angle.c).
 * It must not know of rows, heads or frequencies.
 */
#ifndef STG_CODEGEN_PRELUDE_ANGLE_H
#define STG_CODEGEN_PRELUDE_ANGLE_H

#ifdef __CUDACC__
#define STG_ANGLE_FMA(a, b, c) __fma_rn((a), (b), (c))
#else
#include "codegen/prelude/math.h"

#define STG_ANGLE_FMA(a, b, c) fma((a), (b), (c))
#endif

/* An angle less the nearest multiple of pi/2: high + low, at most pi/4 or little more, and how many
 * quarters of a turn that was, in the last two bits. */
struct stg_angle {
  float high, low;
  unsigned quarters;
};

STG_MATH struct stg_angle stg_angle_reduce(float x) {
  struct stg_angle a;
  if (x < 131072.0f && x > -131072.0f) {
    /* adding 1.5 * 2^23 rounds to the nearest integer */
    float n = STG_MATH_FMA(x, 0.636619747f, 12582912.0f) - 12582912.0f;
    /* pi/2 in three parts; what is left after the first is exact */
    float r = STG_MATH_FMA(n, -1.57079637f, x);
    float second = n * 4.37113883e-8f;
    float third = STG_MATH_FMA(n, 4.37113883e-8f, -second); /* what that rounded off */
    third = STG_MATH_FMA(n, 1.71512451e-15f, third);
    /* a sum and its own rounding error: r may be the smaller by far */
    a.high = r + second;
    float of_second = a.high - r;
    a.low = (r - (a.high - of_second)) + (second - of_second) + third;
    a.quarters = (unsigned)(int)n;
    return a;
  }
  /* here n takes up to 31 bits: in float64, adding 1.5 * 2^52 */
  double m = STG_ANGLE_FMA((double)x, 0.63661977236758138, 6755399441055744.0) - 6755399441055744.0;
  double s = STG_ANGLE_FMA(m, -1.5707963267948966, (double)x);
  s = STG_ANGLE_FMA(m, -6.123233995736766e-17, s);
  a.high = (float)s;
  a.low = (float)(s - (double)a.high);
  a.quarters = (unsigned)(long long)m;
  return a;
}

/** Sine and cosine of x, |x| <= 2^31. */
STG_MATH void stg_math_sincos(float x, float *ret_sin, float *ret_cos) {
  struct stg_angle a = stg_angle_reduce(x);
  float z = a.high * a.high;
  float half = 0.5f * z;
  float w = 1.0f - half;
  /* (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 on |r| <= pi/4, in r^2 */
  float p = -1.95152959e-4f;
  p = STG_MATH_FMA(p, z, 8.33216087e-3f);
  p = STG_MATH_FMA(p, z, -0.166666546f);
  float s = a.high + STG_MATH_FMA(a.high * z, p, a.low * w);
  float q = 2.44331571e-5f;
  q = STG_MATH_FMA(q, z, -1.38873162e-3f);
  q = STG_MATH_FMA(q, z, 4.16666456e-2f);
  /* with what the rounding of 1 - r^2/2 lost */
  float c = w + STG_MATH_FMA(z * z, q, STG_MATH_FMA(-a.high, a.low, (1.0f - w) - half));
  bool odd = (a.quarters & 1u) != 0u;
  unsigned sin_sign = (a.quarters & 2u) << 30;
  unsigned cos_sign = ((a.quarters + 1u) & 2u) << 30;
  *ret_sin = STG_MATH_FLOAT(STG_MATH_BITS(odd ? c : s) ^ sin_sign);
  *ret_cos = STG_MATH_FLOAT(STG_MATH_BITS(odd ? s : c) ^ cos_sign);
}

#endif

/*
 * prelude/math.h: exp, log, tanh and sigmoid in float32, the same bits on every machine.
 *
 * Only + - * /, a fused multiply-add and bit casts; no libm, whose last bits differ between
 * versions. The text is plain enough to be CUDA as well: a kernel that includes it computes what
 * the CPU computes, bit for bit, provided that neither side contracts or relaxes floating point.
 * Largest errors, in units in the last place of the result, over all 2^32 arguments: exp 1.02,
 * log 0.83, tanh 1.47, sigmoid 2.41 (tests/unit/test_prelude_math.c).
 * It must not know of rows, ops or programs.
 */
#ifndef STG_CODEGEN_PRELUDE_MATH_H
#define STG_CODEGEN_PRELUDE_MATH_H

#ifdef __CUDACC__

#define STG_MATH static __device__ __forceinline__
#define STG_MATH_FMA(a, b, c) __fmaf_rn((a), (b), (c))
#define STG_MATH_BITS(x) __float_as_uint(x)
#define STG_MATH_FLOAT(u) __uint_as_float(u)

#else

#include <math.h>

#include "runtime/base/dtype.h"

#define STG_MATH static inline
#define STG_MATH_FMA(a, b, c) fmaf((a), (b), (c))
#define STG_MATH_BITS(x) stg_f32_bits(x)
#define STG_MATH_FLOAT(u) stg_f32_from_bits(u)

#endif

/** e^x. Subnormal results are rounded, not flushed; +Inf from 88.7228394, 0 from -103.972084. */
STG_MATH float stg_math_exp(float x) {
  if (!(x == x)) {
    return x + x;
  }
  /* beyond these the result is Inf or 0 anyway, and n would not fit the exponent */
  float y = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  /* adding 1.5 * 2^23 rounds to the nearest integer */
  float n = STG_MATH_FMA(y, 1.44269502f, 12582912.0f) - 12582912.0f;
  /* ln 2 in two parts; n times the first is exact */
  float r = STG_MATH_FMA(n, -0.693359375f, y);
  r = STG_MATH_FMA(n, 2.12194442e-4f, r);
  /* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, relative error of e^r 3e-9 */
  float p = 1.38146931e-3f;
  p = STG_MATH_FMA(p, r, 8.36878456e-3f);
  p = STG_MATH_FMA(p, r, 4.16683927e-2f);
  p = STG_MATH_FMA(p, r, 0.166665196f);
  p = STG_MATH_FMA(p, r, 0.49999994f);
  float e = STG_MATH_FMA(r * r, p, r) + 1.0f;
  /* 2^n in two factors: it may lie outside the normal range, they do not */
  int k = (int)n;
  int half = k / 2;
  float low = STG_MATH_FLOAT((unsigned)(half + 127) << 23);
  float high = STG_MATH_FLOAT((unsigned)(k - half + 127) << 23);
  return e * low * high;
}

/** Natural logarithm: -Inf at +-0, NaN below, subnormal arguments included. */
STG_MATH float stg_math_log(float x) {
  if (!(x > 0.0f)) {
    return x == 0.0f ? STG_MATH_FLOAT(0xff800000u) : STG_MATH_FLOAT(0x7fc00000u);
  }
  if (x > 3.40282347e38f) {
    return x;
  }
  bool subnormal = x < 1.17549435e-38f;
  unsigned bits = STG_MATH_BITS(subnormal ? x * 8388608.0f : x);
  /* x = 2^k * m with m in [sqrt(1/2), sqrt(2)), whose lower end has bits 0x3f3504f3 */
  unsigned shifted = bits + (0x3f800000u - 0x3f3504f3u);
  int k = (int)(shifted >> 23) - 127;
  float m = STG_MATH_FLOAT((shifted & 0x7fffffu) + 0x3f3504f3u);
  float n = (float)(subnormal ? k - 23 : k);
  /* log(1+f) = f - f^2/2 + s*(f^2/2 + R), s = f/(2+f), R = z*Q(z), z = s^2, error 1e-11 */
  float f = m - 1.0f;
  float s = f / (2.0f + f);
  float z = s * s;
  float q = 0.235835686f;
  q = STG_MATH_FMA(q, z, 0.285372376f);
  q = STG_MATH_FMA(q, z, 0.400003374f);
  q = STG_MATH_FMA(q, z, 0.666666627f);
  float square = 0.5f * f * f;
  /* ln 2 in two parts; n times the first is exact */
  float tail = STG_MATH_FMA(s, STG_MATH_FMA(z, q, square), n * 1.42860677e-6f);
  return STG_MATH_FMA(n, 0.693145752f, f - (square - tail));
}

/** Hyperbolic tangent: keeps -0, is exactly +-1 from 9.02 on. */
STG_MATH float stg_math_tanh(float x) {
  unsigned sign = STG_MATH_BITS(x) & 0x80000000u;
  float a = STG_MATH_FLOAT(STG_MATH_BITS(x) & 0x7fffffffu);
  float y;
  if (!(x == x)) {
    return x + x;
  }
  if (a < 2.44140625e-4f) {
    return x;
  }
  if (a < 0.55f) {
    /* (tanh(a) - a) / a^3 in a^2, relative error of tanh 1e-9 */
    float z = a * a;
    float p = -6.27424102e-3f;
    p = STG_MATH_FMA(p, z, 2.10716799e-2f);
    p = STG_MATH_FMA(p, z, -5.38523085e-2f);
    p = STG_MATH_FMA(p, z, 0.13332586f);
    p = STG_MATH_FMA(p, z, -0.333333164f);
    y = STG_MATH_FMA(a * z, p, a);
  } else {
    y = 1.0f - 2.0f / (stg_math_exp(2.0f * a) + 1.0f);
  }
  return STG_MATH_FLOAT(STG_MATH_BITS(y) | sign);
}

/** 1 / (1 + e^-x), with full relative precision down to the subnormals. */
STG_MATH float stg_math_sigmoid(float x) {
  float t = stg_math_exp(x > 0.0f ? -x : x);
  return (x > 0.0f ? 1.0f : t) / (1.0f + t);
}

#endif

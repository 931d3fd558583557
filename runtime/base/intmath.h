/*
 * intmath.h: size arithmetic that cannot wrap silently.
 */
#ifndef STG_RUNTIME_BASE_INTMATH_H
#define STG_RUNTIME_BASE_INTMATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** a*b into *ret; false (ret untouched) on overflow. */
static inline bool stg_mul_size(size_t a, size_t b, size_t *ret) {
  size_t r;
  if (__builtin_mul_overflow(a, b, &r)) {
    return false;
  }
  *ret = r;
  return true;
}
static inline bool stg_add_size(size_t a, size_t b, size_t *ret) {
  size_t r;
  if (__builtin_add_overflow(a, b, &r)) {
    return false;
  }
  *ret = r;
  return true;
}
static inline size_t stg_ceil_div(size_t a, size_t b) {
  return a / b + (a % b != 0);
}
/** Round up to a multiple of `unit`, which must not be 0; the caller knows that it cannot wrap. */
static inline size_t stg_round_up(size_t a, size_t unit) {
  return stg_ceil_div(a, unit) * unit;
}
/** The smallest power of two that is >= a (1 for 0); the caller knows that a <= 2^63. */
static inline size_t stg_next_pow2(size_t a) {
  size_t p = 1;
  while (p < a) {
    p <<= 1;
  }
  return p;
}
static inline bool stg_is_pow2(size_t a) {
  return a != 0 && (a & (a - 1)) == 0;
}

#endif

/*
 * dtype.h: sizes, names and exact conversions of element types.
 *
 * Every narrowing conversion rounds to nearest even, overflows to infinity, keeps NaN a NaN (quiet)
 * and handles subnormals, so that the CPU and the GPU store the same bits.
 */
#ifndef STG_RUNTIME_BASE_DTYPE_H
#define STG_RUNTIME_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <steergraph/dtype.h>

/** Bytes of one element; 0 for STG_DTYPE_NONE or an unknown value. */
size_t stg_dtype_bytes(stg_dtype dtype);
/** "bf16", "f16", "f32"; "none" otherwise. */
const char *stg_dtype_name(stg_dtype dtype);
bool stg_dtype_parse(const char *text, stg_dtype *ret_dtype);
/** Half a unit of rounding, as 2^-p: 2^-8 bf16, 2^-11 f16, 2^-24 f32. */
double stg_dtype_unit(stg_dtype dtype);
/** Smallest positive subnormal and largest finite value. */
double stg_dtype_tiny(stg_dtype dtype);
double stg_dtype_max(stg_dtype dtype);

static inline uint32_t stg_f32_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float stg_f32_from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static inline float stg_bf16_to_f32(uint16_t b) {
  return stg_f32_from_bits((uint32_t)b << 16);
}
static inline uint16_t stg_bf16_from_f32(float x) {
  uint32_t u = stg_f32_bits(x);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  uint32_t nan = (u >> 16) | 0x40u;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}
float stg_f16_to_f32(uint16_t h);
uint16_t stg_f16_from_f32(float x);

/** Element `index` of an array of `dtype`, widened exactly. */
float stg_load_f32(stg_dtype dtype, const void *data, size_t index);
/** Round `value` once and store it as element `index`. */
void stg_store_f32(stg_dtype dtype, void *data, size_t index, float value);
/** Convert `count` elements between any two types, rounding once. Arrays must not overlap. */
void stg_convert(stg_dtype to, void *dst, stg_dtype from, const void *src, size_t count);

#endif

/*
 * dtype.c: element types: the table, half precision, and conversions of arrays.
 *
 * The conversions are straight lines of selects, so that the compiler can vectorise the loops over
 * them; they assume the default rounding mode and are right under flush-to-zero, which hosts set.
 */
#include "runtime/base/dtype.h"

#include <float.h>

#define CHUNK_ELEMS ((size_t)256)
#define GROUP_ELEMS 16

struct dtype_row {
  const char *name;
  size_t bytes;
};

/* By value; the gap at 0 is STG_DTYPE_NONE. */
static const struct dtype_row dtype_rows[] = {
#define STG_DTYPE_ROW(name, value, text, bytes) [value] = {text, bytes},
    STG_DTYPE_LIST(STG_DTYPE_ROW)
#undef STG_DTYPE_ROW
};

static struct dtype_row row_of(stg_dtype dtype) {
  size_t index = (size_t)dtype;
  if (index >= sizeof dtype_rows / sizeof dtype_rows[0] || dtype_rows[index].name == NULL) {
    return (struct dtype_row){"none", 0};
  }
  return dtype_rows[index];
}

size_t stg_dtype_bytes(stg_dtype dtype) {
  return row_of(dtype).bytes;
}

const char *stg_dtype_name(stg_dtype dtype) {
  return row_of(dtype).name;
}

bool stg_dtype_parse(const char *text, stg_dtype *ret_dtype) {
#define STG_DTYPE_PARSE(name, value, spelled, bytes)                                               \
  if (strcmp(text, spelled) == 0) {                                                                \
    *ret_dtype = STG_##name;                                                                       \
    return true;                                                                                   \
  }
  STG_DTYPE_LIST(STG_DTYPE_PARSE)
#undef STG_DTYPE_PARSE
  return false;
}

double stg_dtype_unit(stg_dtype dtype) {
  switch (dtype) {
  case STG_BF16:
    return 0x1p-8;
  case STG_F16:
    return 0x1p-11;
  case STG_F32:
    return 0x1p-24;
  case STG_DTYPE_NONE:
    break;
  }
  return 0;
}

double stg_dtype_tiny(stg_dtype dtype) {
  switch (dtype) {
  case STG_BF16:
    return 0x1p-133;
  case STG_F16:
    return 0x1p-24;
  case STG_F32:
    return 0x1p-149;
  case STG_DTYPE_NONE:
    break;
  }
  return 0;
}

double stg_dtype_max(stg_dtype dtype) {
  switch (dtype) {
  case STG_BF16:
    return 0x1.fep127;
  case STG_F16:
    return 65504;
  case STG_F32:
    return (double)FLT_MAX;
  case STG_DTYPE_NONE:
    break;
  }
  return 0;
}

/* A select that stays one: of ?: with a float operation in an arm gcc would make a branch. */
static inline uint32_t choose(bool condition, uint32_t x, uint32_t y) {
  uint32_t mask = 0u - (uint32_t)condition;
  return (x & mask) | (y & ~mask);
}

static inline float widen_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t magnitude = h & 0x7fffu;
  uint32_t normal = (magnitude << 13) + 0x38000000u; /* exponent bias 15 -> 127 */
  uint32_t quiet = choose(magnitude > 0x7c00u, 0x400000u, 0u);
  uint32_t special = magnitude << 13 | 0x7f800000u | quiet;
  /* below 2^-14 the value is an integer of units 2^-24, exact and normal in f32 */
  uint32_t subnormal = stg_f32_bits((float)magnitude * 0x1p-24f);
  uint32_t finite = choose(magnitude < 0x400u, subnormal, normal);
  uint32_t bits = choose(magnitude >= 0x7c00u, special, finite);
  return stg_f32_from_bits(sign | bits);
}

static inline uint16_t narrow_f16(float x) {
  uint32_t bits = stg_f32_bits(x);
  uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  /* adding half a unit less one, and one if odd, carries exactly when nearest-even rounds up;
   * a carry out of 65504 gives infinity */
  uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  /* the units of 0.5 are those of the subnormals, 2^-24, so the addition does the rounding */
  uint32_t subnormal = stg_f32_bits(stg_f32_from_bits(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  uint32_t special = choose(magnitude > 0x7f800000u, nan, 0x7c00u);
  uint32_t finite = choose(magnitude < 0x38800000u, subnormal, normal);
  uint32_t rounded = choose(magnitude >= 0x47800000u, special, finite);
  return (uint16_t)(sign | rounded);
}

float stg_f16_to_f32(uint16_t h) {
  return widen_f16(h);
}

uint16_t stg_f16_from_f32(float x) {
  return narrow_f16(x);
}

float stg_load_f32(stg_dtype dtype, const void *data, size_t index) {
  switch (dtype) {
  case STG_BF16:
    return stg_bf16_to_f32(((const uint16_t *)data)[index]);
  case STG_F16:
    return widen_f16(((const uint16_t *)data)[index]);
  case STG_F32:
    return ((const float *)data)[index];
  case STG_DTYPE_NONE:
    break;
  }
  return 0;
}

void stg_store_f32(stg_dtype dtype, void *data, size_t index, float value) {
  switch (dtype) {
  case STG_BF16:
    ((uint16_t *)data)[index] = stg_bf16_from_f32(value);
    break;
  case STG_F16:
    ((uint16_t *)data)[index] = narrow_f16(value);
    break;
  case STG_F32:
    ((float *)data)[index] = value;
    break;
  case STG_DTYPE_NONE:
    break;
  }
}

/* Whole groups first: with a constant count and no aliasing, gcc vectorises at -O2 as well. */
static void widen_bf16s(const uint16_t *restrict src, float *restrict dst, size_t count) {
  size_t i = 0;
  for (; count - i >= GROUP_ELEMS; i += GROUP_ELEMS) {
    for (size_t k = 0; k < GROUP_ELEMS; k++) {
      dst[i + k] = stg_bf16_to_f32(src[i + k]);
    }
  }
  for (; i < count; i++) {
    dst[i] = stg_bf16_to_f32(src[i]);
  }
}

static void widen_f16s(const uint16_t *restrict src, float *restrict dst, size_t count) {
  size_t i = 0;
  for (; count - i >= GROUP_ELEMS; i += GROUP_ELEMS) {
    for (size_t k = 0; k < GROUP_ELEMS; k++) {
      dst[i + k] = widen_f16(src[i + k]);
    }
  }
  for (; i < count; i++) {
    dst[i] = widen_f16(src[i]);
  }
}

static void narrow_bf16s(const float *restrict src, uint16_t *restrict dst, size_t count) {
  size_t i = 0;
  for (; count - i >= GROUP_ELEMS; i += GROUP_ELEMS) {
    for (size_t k = 0; k < GROUP_ELEMS; k++) {
      dst[i + k] = stg_bf16_from_f32(src[i + k]);
    }
  }
  for (; i < count; i++) {
    dst[i] = stg_bf16_from_f32(src[i]);
  }
}

static void narrow_f16s(const float *restrict src, uint16_t *restrict dst, size_t count) {
  size_t i = 0;
  for (; count - i >= GROUP_ELEMS; i += GROUP_ELEMS) {
    for (size_t k = 0; k < GROUP_ELEMS; k++) {
      dst[i + k] = narrow_f16(src[i + k]);
    }
  }
  for (; i < count; i++) {
    dst[i] = narrow_f16(src[i]);
  }
}

static void widen(stg_dtype from, const void *src, float *dst, size_t count) {
  if (from == STG_F32) {
    memcpy(dst, src, count * sizeof *dst);
  } else if (from == STG_F16) {
    widen_f16s(src, dst, count);
  } else {
    widen_bf16s(src, dst, count);
  }
}

static void narrow(stg_dtype to, const float *src, void *dst, size_t count) {
  if (to == STG_F32) {
    memcpy(dst, src, count * sizeof *src);
  } else if (to == STG_F16) {
    narrow_f16s(src, dst, count);
  } else {
    narrow_bf16s(src, dst, count);
  }
}

void stg_convert(stg_dtype to, void *dst, stg_dtype from, const void *src, size_t count) {
  size_t to_bytes = stg_dtype_bytes(to);
  size_t from_bytes = stg_dtype_bytes(from);
  float chunk[CHUNK_ELEMS];
  if (count == 0) {
    return;
  }
  if (to == from) {
    memcpy(dst, src, count * to_bytes);
    return;
  }
  if (to == STG_F32) {
    widen(from, src, dst, count);
    return;
  }
  if (from == STG_F32) {
    narrow(to, src, dst, count);
    return;
  }
  for (size_t done = 0; done < count; done += CHUNK_ELEMS) {
    size_t elems = count - done < CHUNK_ELEMS ? count - done : CHUNK_ELEMS;
    widen(from, (const unsigned char *)src + done * from_bytes, chunk, elems);
    narrow(to, chunk, (unsigned char *)dst + done * to_bytes, elems);
  }
}

/*
 * lanes.c: the loops over padded float32 rows.
 *
 * Each loop walks whole chunks of STG_CPU_LANES with a constant inner count, the form that gcc and
 * clang vectorise at -O2. Sums run in two levels, lanes within a block and then lanes over the
 * blocks, so that the rounding error grows with the number of blocks only.
 * It must not know of ops, programs or batches.
 */
#include "engine/cpu/lanes.h"

#include <string.h>

#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define LANES STG_CPU_LANES
#define BLOCK_ELEMS ((size_t)(32 * LANES))
#define BOUNCE_ELEMS ((size_t)256)

size_t stg_cpu_padded(int64_t hidden_size) {
  return stg_round_up((size_t)hidden_size, LANES);
}

static bool is_aligned(const void *ptr, size_t unit) {
  return (uintptr_t)ptr % unit == 0;
}

void stg_cpu_load(stg_dtype dtype, const void *src, size_t count, float *ret_row) {
  size_t unit = stg_dtype_bytes(dtype);
  size_t padded = stg_round_up(count, LANES);
  memset(ret_row + count, 0, (padded - count) * sizeof *ret_row);
  if (is_aligned(src, unit)) {
    stg_convert(STG_F32, ret_row, dtype, src, count);
    return;
  }
  uint32_t bounce[BOUNCE_ELEMS];
  for (size_t done = 0; done < count; done += BOUNCE_ELEMS) {
    size_t elems = count - done < BOUNCE_ELEMS ? count - done : BOUNCE_ELEMS;
    memcpy(bounce, (const unsigned char *)src + done * unit, elems * unit);
    stg_convert(STG_F32, ret_row + done, dtype, bounce, elems);
  }
}

void stg_cpu_store(stg_dtype dtype, const float *row, size_t count, void *dst) {
  size_t unit = stg_dtype_bytes(dtype);
  if (is_aligned(dst, unit)) {
    stg_convert(dtype, dst, STG_F32, row, count);
    return;
  }
  uint32_t bounce[BOUNCE_ELEMS];
  for (size_t done = 0; done < count; done += BOUNCE_ELEMS) {
    size_t elems = count - done < BOUNCE_ELEMS ? count - done : BOUNCE_ELEMS;
    stg_convert(dtype, bounce, STG_F32, row + done, elems);
    memcpy((unsigned char *)dst + done * unit, bounce, elems * unit);
  }
}

static void add_lanes(const float *from, float *to) {
  for (size_t l = 0; l < LANES; l++) {
    to[l] += from[l];
  }
}

static float sum_lanes(float *lanes) {
  for (size_t width = LANES / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; l++) {
      lanes[l] += lanes[l + width];
    }
  }
  return lanes[0];
}

float stg_cpu_dot(const float *a, const float *b, size_t padded) {
  float total[LANES] = {0};
  for (size_t start = 0; start < padded; start += BLOCK_ELEMS) {
    size_t end = padded - start < BLOCK_ELEMS ? padded : start + BLOCK_ELEMS;
    float partial[LANES] = {0};
    for (size_t j = start; j < end; j += LANES) {
      for (size_t l = 0; l < LANES; l++) {
        partial[l] += a[j + l] * b[j + l];
      }
    }
    add_lanes(partial, total);
  }
  return sum_lanes(total);
}

void stg_cpu_scale(float factor, const float *restrict x, size_t padded, float *restrict ret_y) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      ret_y[j + l] = factor * x[j + l];
    }
  }
}

void stg_cpu_axpy(float factor, const float *restrict x, size_t padded, float *restrict y) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      y[j + l] += factor * x[j + l];
    }
  }
}

void stg_cpu_add(const float *restrict x, size_t padded, float *restrict y) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      y[j + l] += x[j + l];
    }
  }
}

void stg_cpu_scale_by(float factor, const float *restrict x, const float *restrict w, size_t padded,
                      float *restrict ret_y) {
  for (size_t j = 0; j < padded; j += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      ret_y[j + l] = factor * x[j + l] * w[j + l];
    }
  }
}

float stg_cpu_combined_squares(float scale, const float *row, const float *factors,
                               const float *const *vectors, size_t n_vectors, size_t padded) {
  float total[LANES] = {0};
  for (size_t start = 0; start < padded; start += BLOCK_ELEMS) {
    size_t elems = padded - start < BLOCK_ELEMS ? padded - start : BLOCK_ELEMS;
    float sum[BLOCK_ELEMS];
    stg_cpu_scale(scale, row + start, elems, sum);
    for (size_t i = 0; i < n_vectors; i++) {
      if (factors[i] != 0.0F) {
        stg_cpu_axpy(factors[i], vectors[i] + start, elems, sum);
      }
    }
    float partial[LANES] = {0};
    for (size_t j = 0; j < elems; j += LANES) {
      for (size_t l = 0; l < LANES; l++) {
        partial[l] += sum[j + l] * sum[j + l];
      }
    }
    add_lanes(partial, total);
  }
  return sum_lanes(total);
}

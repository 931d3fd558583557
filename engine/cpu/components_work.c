/*
 * cpu/components_work.c: see components_work.h.
 *
 * A matrix is widened and rounded once for all rows. It must not know which products a direction
 * needs.
 */
#include "engine/cpu/components_work.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/lanes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define BOUNCE_ELEMS ((size_t)256)

struct stg_cpu_matrix stg_cpu_cut(struct stg_cpu_cutter *cutter, size_t rows, size_t columns) {
  struct stg_cpu_matrix matrix = {NULL, rows, columns, stg_cpu_padded((int64_t)columns)};
  size_t elems;
  if (!stg_mul_size(rows, matrix.padded, &elems)) {
    cutter->too_large = true;
    return matrix;
  }
  if (cutter->next != NULL) {
    matrix.data = cutter->next;
    cutter->next += elems;
    return matrix;
  }
  cutter->too_large = cutter->too_large || !stg_add_size(cutter->floats, elems, &cutter->floats);
  return matrix;
}

stg_status stg_cpu_cutter_allocate(struct stg_cpu_cutter *cutter, void **ret_block,
                                   stg_error *reterr) {
  size_t bytes;
  if (cutter->too_large || !stg_mul_size(cutter->floats, sizeof(float), &bytes)) {
    bytes = SIZE_MAX;
  }
  void *block = bytes == SIZE_MAX ? NULL : stg_malloc_aligned(bytes);
  if (block == NULL) {
    return stg_error_memory(reterr, "component buffers of the CPU backend", bytes);
  }
  memset(block, 0, bytes);
  cutter->next = block;
  *ret_block = block;
  return STG_OK;
}

void stg_cpu_components_cut(struct stg_cpu_components_work *work, struct stg_cpu_cutter *cutter) {
  const struct stg_components_geometry *g = work->geometry;
  work->v = stg_cpu_cut(cutter, g->d_in, g->components);
  work->u = stg_cpu_cut(cutter, g->components, g->d_out);
  work->delta = stg_cpu_cut(cutter, g->delta ? g->d_out : 0, g->d_in);
  work->bias = stg_cpu_cut(cutter, g->bias ? 1 : 0, g->d_out);
  work->x = stg_cpu_cut(cutter, 1, g->d_in);
  work->mask = stg_cpu_cut(cutter, 1, g->components);
  work->t = stg_cpu_cut(cutter, 1, g->components);
  work->s = stg_cpu_cut(cutter, 1, g->components);
}

/* To 11 bits, ties away from 0; NaN is kept. */
static float round_to_tf32(float value) {
  const uint32_t bits = stg_f32_bits(value);
  return isnan(value) ? value : stg_f32_from_bits((bits + 0x1000U) & ~0x1fffU);
}

void stg_cpu_components_round(const struct stg_components_geometry *geometry, float *row,
                              size_t count) {
  if (geometry->dtype == STG_F32) {
    for (size_t j = 0; geometry->tf32 && j < count; j++) {
      row[j] = round_to_tf32(row[j]);
    }
    return;
  }
  uint16_t bounce[BOUNCE_ELEMS];
  for (size_t done = 0; done < count; done += BOUNCE_ELEMS) {
    const size_t elems = count - done < BOUNCE_ELEMS ? count - done : BOUNCE_ELEMS;
    stg_convert(geometry->dtype, bounce, STG_F32, row + done, elems);
    stg_convert(STG_F32, row + done, geometry->dtype, bounce, elems);
  }
}

static void load_elements(const struct stg_components_geometry *geometry, const void *tensor,
                          int64_t first, size_t count, float *ret) {
  const int64_t unit = (int64_t)stg_dtype_bytes(geometry->dtype);
  stg_cpu_load(geometry->dtype, (const unsigned char *)tensor + first * unit, count, ret);
}

static void load_matrix(const struct stg_components_geometry *geometry, const void *tensor,
                        struct stg_cpu_matrix *ret) {
  for (size_t row = 0; row < ret->rows; row++) {
    float *to = stg_cpu_matrix_row(ret, row);
    load_elements(geometry, tensor, (int64_t)(row * ret->columns), ret->columns, to);
    stg_cpu_components_round(geometry, to, ret->columns);
  }
}

void stg_cpu_components_load_matrices(struct stg_cpu_components_work *work) {
  const struct stg_components_geometry *g = work->geometry;
  load_matrix(g, work->inputs->v, &work->v);
  load_matrix(g, work->inputs->u, &work->u);
  load_matrix(g, work->inputs->delta, &work->delta);
  if (work->bias.rows != 0) { /* is added and not multiplied: as it is */
    load_elements(g, work->inputs->bias, 0, work->bias.columns, work->bias.data);
  }
}

void stg_cpu_components_load(const struct stg_cpu_components_work *work, const void *tensor,
                             int64_t first, struct stg_cpu_matrix *ret) {
  load_elements(work->geometry, tensor, first, ret->columns, ret->data);
}

void stg_cpu_components_load_mask(struct stg_cpu_components_work *work, int64_t row) {
  const struct stg_components_geometry *g = work->geometry;
  const int64_t first = stg_components_mask_row(work->inputs, row) * work->inputs->mask_stride;
  float *mask = work->mask.data;
  switch (g->mask) {
  case STG_COMPONENTS_MASK_DTYPE:
    load_elements(g, work->inputs->mask, first, g->components, mask);
    return;
  case STG_COMPONENTS_MASK_BOOL:
    for (size_t c = 0; c < g->components; c++) {
      mask[c] = ((const uint8_t *)work->inputs->mask)[first + (int64_t)c] != 0 ? 1.0F : 0.0F;
    }
    return;
  case STG_COMPONENTS_MASK_NONE:
    break;
  }
  for (size_t c = 0; c < g->components; c++) {
    mask[c] = 1.0F;
  }
}

float stg_cpu_components_load_d(const struct stg_cpu_components_work *work, int64_t row) {
  const stg_dtype dtype = work->geometry->dtype;
  return stg_load_f32(dtype, work->inputs->d, (size_t)row);
}

/* part[l] += a0*row0[l] + ... + a3*row3[l], from left to right. */
static void add_four(const float *a, const float *rows, size_t stride, float *restrict part) {
  const float a0 = a[0];
  const float a1 = a[1];
  const float a2 = a[2];
  const float a3 = a[3];
  for (size_t l = 0; l < STG_CPU_LANES; l++) {
    float sum = part[l] + a0 * rows[l];
    sum += a1 * rows[stride + l];
    sum += a2 * rows[2 * stride + l];
    part[l] = sum + a3 * rows[3 * stride + l];
  }
}

/* Lanes from `at` on of rows [begin, end), times a each, into ret. */
static void add_part(const float *a, const struct stg_cpu_matrix *matrix, size_t begin, size_t end,
                     size_t at, float *restrict ret) {
  float part[STG_CPU_LANES] = {0};
  size_t i = begin;
  for (; i + 4 <= end; i += 4) {
    add_four(a + i, stg_cpu_matrix_row(matrix, i) + at, matrix->padded, part);
  }
  for (; i < end; i++) {
    stg_cpu_axpy(a[i], stg_cpu_matrix_row(matrix, i) + at, STG_CPU_LANES, part);
  }
  stg_cpu_add(part, STG_CPU_LANES, ret);
}

void stg_cpu_components_multiply(const float *a, const struct stg_cpu_matrix *matrix, float *ret) {
  for (size_t at = 0; at < matrix->padded; at += STG_CPU_LANES) {
    for (size_t begin = 0; begin < matrix->rows; begin += STG_COMPONENTS_PART) {
      const size_t rest = matrix->rows - begin;
      const size_t rows = rest < STG_COMPONENTS_PART ? rest : STG_COMPONENTS_PART;
      add_part(a, matrix, begin, begin + rows, at, ret + at);
    }
  }
}

void stg_cpu_components_weigh(const struct stg_cpu_components_work *work, const float *row,
                              struct stg_cpu_matrix *ret) {
  const float *restrict mask = work->mask.data;
  float *restrict to = ret->data;
  for (size_t c = 0; c < ret->padded; c += STG_CPU_LANES) {
    for (size_t l = 0; l < STG_CPU_LANES; l++) {
      to[c + l] = row[c + l] * mask[c + l];
    }
  }
  stg_cpu_components_round(work->geometry, to, ret->columns);
}

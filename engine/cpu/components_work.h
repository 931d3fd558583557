/*
 * cpu/components_work.h: what both directions of the components family share on the CPU: matrices
 * as padded float32 operands, and products of a row with them.
 */
#ifndef STG_ENGINE_CPU_COMPONENTS_WORK_H
#define STG_ENGINE_CPU_COMPONENTS_WORK_H

#include <steergraph/status.h>

#include "codegen/components.h"

/* A matrix as operands. Rows are padded with zeros to whole lanes. */
struct stg_cpu_matrix {
  float *data;
  size_t rows, columns, padded;
};

static inline float *stg_cpu_matrix_row(const struct stg_cpu_matrix *matrix, size_t row) {
  return matrix->data + row * matrix->padded;
}

/* One allocation that is cut into buffers of floats, in two passes: with `next` NULL sizes are
 * added up alone. */
struct stg_cpu_cutter {
  float *next;
  size_t floats;
  bool too_large;
};

/** The next `rows` rows of `columns` elements in whole lanes. */
struct stg_cpu_matrix stg_cpu_cut(struct stg_cpu_cutter *cutter, size_t rows, size_t columns);
/** Memory for all that was added up, zeroed; begins the second pass. The caller frees it. */
STG_NODISCARD stg_status stg_cpu_cutter_allocate(struct stg_cpu_cutter *cutter, void **ret_block,
                                                 stg_error *reterr);

/* The matrices of a call, and room for a row of each width. */
struct stg_cpu_components_work {
  const struct stg_components_geometry *geometry;
  const struct stg_components_inputs *inputs;
  struct stg_cpu_matrix v, u, delta, bias; /* [d_in, C] [C, d_out] [d_out, d_in] [1, d_out] */
  struct stg_cpu_matrix x, mask, t, s;     /* of one row: [1, d_in], [1, C] thrice */
};

/** Cut what the work needs. */
void stg_cpu_components_cut(struct stg_cpu_components_work *work, struct stg_cpu_cutter *cutter);
/** Widen and round the matrices. */
void stg_cpu_components_load_matrices(struct stg_cpu_components_work *work);

/** Round a row to operands of products. */
void stg_cpu_components_round(const struct stg_components_geometry *geometry, float *row,
                              size_t count);
/** A row of the tensors' type, from element `first` on, as it is. */
void stg_cpu_components_load(const struct stg_cpu_components_work *work, const void *tensor,
                             int64_t first, struct stg_cpu_matrix *ret);
/** The row's mask, in work->mask; ones where there is none. */
void stg_cpu_components_load_mask(struct stg_cpu_components_work *work, int64_t row);
/** d of a row, as it is. */
float stg_cpu_components_load_d(const struct stg_cpu_components_work *work, int64_t row);

/** ret[j] += sum over i of a[i] * matrix[i][j], one part of the sum after the other. */
void stg_cpu_components_multiply(const float *a, const struct stg_cpu_matrix *matrix, float *ret);
/** row * work->mask, rounded to operands. */
void stg_cpu_components_weigh(const struct stg_cpu_components_work *work, const float *row,
                              struct stg_cpu_matrix *ret);

#endif

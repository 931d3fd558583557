/*
 * oracle/judge.h: one row of a result against what it must be.
 */
#ifndef STG_ENGINE_ORACLE_JUDGE_H
#define STG_ENGINE_ORACLE_JUDGE_H

#include "engine/oracle/steer.h"

/* What came of one row. */
struct stg_oracle_verdict {
  uint64_t violations;
  uint64_t overflows;
  int64_t first_element; /* of the first violation, or -1 */
  bool in_residual;      /* that element is one of the residual */
  bool in_probes;        /* it is a cell of the probes */
  double max_abs_err;
  double worst_ratio;
};

/* A row as stored, at any alignment, and how many elements of what it has. */
struct stg_oracle_width {
  stg_dtype dtype;
  int64_t n;
};

/** The elements of a row as doubles. */
void stg_oracle_widen(struct stg_oracle_width width, const void *row, double *ret_row);

/** Each element of `after` against its own bound around `ref`. */
struct stg_oracle_verdict stg_oracle_judge(struct stg_oracle_width width, const double *after,
                                           const double *ref, const double *bound);
/** Every element whose bytes differ is a violation without bound. */
struct stg_oracle_verdict stg_oracle_judge_bytes(struct stg_oracle_width width,
                                                 const void *expected, const void *after);

/** Add the residual's verdict to that of hidden, for the row as a whole. */
void stg_oracle_verdict_join(struct stg_oracle_verdict *verdict,
                             const struct stg_oracle_verdict *residual);
/** Add the cells' verdict. */
void stg_oracle_verdict_join_cells(struct stg_oracle_verdict *verdict,
                                   const struct stg_oracle_verdict *cells);
/** The row's `n` cells: those that `cells` name within their bounds, others as they were. */
struct stg_oracle_verdict stg_oracle_judge_cells(const struct stg_oracle_cell *cells,
                                                 size_t n_cells, const float *before,
                                                 const float *after, uint32_t n);
/** Whether `other` excuses the row better. */
bool stg_oracle_verdict_is_worse(const struct stg_oracle_verdict *verdict,
                                 const struct stg_oracle_verdict *other);

#endif

/*
 * oracle/norm.h: the epilogue add_rmsnorm behind a chain: reference and bound.
 */
#ifndef STG_ENGINE_ORACLE_NORM_H
#define STG_ENGINE_ORACLE_NORM_H

#include "engine/oracle/judge.h"

struct stg_oracle_norm {
  struct stg_oracle_width width;
  double epsilon;
  const double *weight; /* [n], as stored */
};

/** Row s' divided by its root mean square, times the weight. */
void stg_oracle_norm_row(const struct stg_oracle_norm *norm, const double *sum, double *ret_ref);
/**
 * How far each element of the normalised row may be from `ref`, when s' is `sum` within
 * `sum_bound`, the bound that holds for s' as stored.
 */
void stg_oracle_norm_bound(const struct stg_oracle_norm *norm, const double *sum,
                           const double *sum_bound, const double *ref, double *ret_bound);

/**
 * hidden + residual as a row that nothing acts on stores it: exact, since one addition and one
 * rounding leave no choice. A NaN is whatever NaN `after` holds there.
 */
void stg_oracle_sum_bytes(struct stg_oracle_width width, const void *hidden, const void *residual,
                          const void *after, void *ret_row);

#endif

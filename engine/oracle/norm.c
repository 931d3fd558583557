/*
 * oracle/norm.c: the bound of the epilogue.
 *
 * With s' the reference row, B_j the chain's bound without its storage term, n = hidden_size and
 * r = 1/sqrt(|s'|^2/n + epsilon), element j of the normalised row y_j = s'_j*r*w_j may be off by
 *
 *   u*|y_j| + tiny/2 + |w_j| * ( r*B_j + (|s'_j| + B_j)*D ) + 2^-23 * (4 + sqrt(n)) * |y_j|
 *   D = r * r_max * |B|/sqrt(n),  r_max = 1/sqrt( max(0, |s'| - |B|)^2/n + epsilon )
 *
 * The row that is normalised is s'' with |s''_j - s'_j| <= B_j, so that its root mean square is off
 * by at most |B|/sqrt(n), its inverse by D. To first order, and for a small epsilon, the bracket is
 * r*(B_j + |s'_j|*|B|/|s'|); the exact form holds as well where a chain leaves little of a row. The
 * last term is the arithmetic of the norm itself: a sum of n squares in any fixed order of the two
 * backends, quotient, sum, root, quotient, two products.
 */
#include "engine/oracle/norm.h"

#include <math.h>
#include <string.h>

#include "runtime/base/dtype.h"

static double mean_square(const struct stg_oracle_norm *norm, const double *row) {
  double squares = 0;
  for (int64_t j = 0; j < norm->width.n; j++) {
    squares += row[j] * row[j];
  }
  return squares / (double)norm->width.n;
}

void stg_oracle_norm_row(const struct stg_oracle_norm *norm, const double *sum, double *ret_ref) {
  double factor = 1 / sqrt(mean_square(norm, sum) + norm->epsilon);
  for (int64_t j = 0; j < norm->width.n; j++) {
    ret_ref[j] = sum[j] * factor * norm->weight[j];
  }
}

/* What arithmetic, not storage, may do to element j of s'. */
static double error_of(const struct stg_oracle_norm *norm, const double *sum,
                       const double *sum_bound, int64_t j) {
  const stg_dtype dtype = norm->width.dtype;
  double storage = stg_dtype_unit(dtype) * fabs(sum[j]) + stg_dtype_tiny(dtype) / 2;
  double error = sum_bound[j] - storage;
  return error > 0 ? error : 0; /* also for a NaN */
}

void stg_oracle_norm_bound(const struct stg_oracle_norm *norm, const double *sum,
                           const double *sum_bound, const double *ref, double *ret_bound) {
  const stg_dtype dtype = norm->width.dtype;
  const double n = (double)norm->width.n;
  double squares = 0;
  for (int64_t j = 0; j < norm->width.n; j++) {
    squares += pow(error_of(norm, sum, sum_bound, j), 2);
  }
  const double mean = mean_square(norm, sum);
  const double drift = sqrt(squares / n);
  const double least = sqrt(mean) > drift ? sqrt(mean) - drift : 0;
  const double factor = 1 / sqrt(mean + norm->epsilon);
  const double inverse_drift = drift * factor / sqrt(least * least + norm->epsilon);
  const double relative = stg_dtype_unit(dtype) + 0x1p-23 * (4 + sqrt(n));
  for (int64_t j = 0; j < norm->width.n; j++) {
    const double error = error_of(norm, sum, sum_bound, j);
    const double carried = factor * error + (fabs(sum[j]) + error) * inverse_drift;
    ret_bound[j] =
        relative * fabs(ref[j]) + stg_dtype_tiny(dtype) / 2 + fabs(norm->weight[j]) * carried;
  }
}

void stg_oracle_sum_bytes(struct stg_oracle_width width, const void *hidden, const void *residual,
                          const void *after, void *ret_row) {
  const size_t unit = stg_dtype_bytes(width.dtype);
  for (int64_t j = 0; j < width.n; j++) {
    const size_t at = (size_t)j * unit;
    uint32_t h = 0, r = 0, now = 0, sum = 0;
    memcpy(&h, (const unsigned char *)hidden + at, unit);
    memcpy(&r, (const unsigned char *)residual + at, unit);
    memcpy(&now, (const unsigned char *)after + at, unit);
    const float x = stg_load_f32(width.dtype, &h, 0) + stg_load_f32(width.dtype, &r, 0);
    stg_store_f32(width.dtype, &sum, 0, x);
    const bool both_nan = isnan(x) && isnan(stg_load_f32(width.dtype, &now, 0));
    memcpy((unsigned char *)ret_row + at, both_nan ? &now : &sum, unit);
  }
}

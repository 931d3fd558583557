/*
 * oracle/judge.c: see judge.h.
 *
 * Comparing the largest error with the largest bound would let a wrong result pass, so each element
 * is held to its own. It must not know where reference and bound come from.
 */
#include "engine/oracle/judge.h"

#include <math.h>
#include <string.h>

#include "runtime/base/dtype.h"

static double element_of(struct stg_oracle_width width, const void *row, int64_t element) {
  const size_t unit = stg_dtype_bytes(width.dtype);
  uint32_t bits = 0;
  memcpy(&bits, (const unsigned char *)row + (size_t)element * unit, unit);
  return (double)stg_load_f32(width.dtype, &bits, 0);
}

void stg_oracle_widen(struct stg_oracle_width width, const void *row, double *ret_row) {
  for (int64_t j = 0; j < width.n; j++) {
    ret_row[j] = element_of(width, row, j);
  }
}

/* Error over bound: at most 1 where the element is right, infinite where no bound could help. */
static double error_ratio(double y, double ref, double bound, double largest, bool *ret_overflow) {
  *ret_overflow = false;
  if (!isfinite(ref)) {
    return isfinite(y) ? HUGE_VAL : 0;
  }
  bool leaves = y > 0 ? ref + bound >= largest : ref - bound <= -largest;
  if (isinf(y) && leaves) {
    *ret_overflow = true;
    return 0;
  }
  double ratio = fabs(y - ref) / bound;
  return isnan(ratio) ? HUGE_VAL : ratio;
}

struct stg_oracle_verdict stg_oracle_judge(struct stg_oracle_width width, const double *after,
                                           const double *ref, const double *bound) {
  double largest = stg_dtype_max(width.dtype);
  struct stg_oracle_verdict verdict = {.first_element = -1};
  for (int64_t j = 0; j < width.n; j++) {
    bool overflow;
    double error = fabs(after[j] - ref[j]);
    double ratio = error_ratio(after[j], ref[j], bound[j], largest, &overflow);
    if (!(ratio <= 1)) {
      verdict.first_element = verdict.violations == 0 ? j : verdict.first_element;
      verdict.violations++;
    }
    verdict.overflows += overflow;
    verdict.worst_ratio = fmax(verdict.worst_ratio, ratio);
    verdict.max_abs_err = fmax(verdict.max_abs_err, isfinite(error) ? error : 0);
  }
  return verdict;
}

struct stg_oracle_verdict stg_oracle_judge_bytes(struct stg_oracle_width width,
                                                 const void *expected, const void *after) {
  const size_t unit = stg_dtype_bytes(width.dtype);
  struct stg_oracle_verdict verdict = {.first_element = -1};
  for (int64_t j = 0; j < width.n; j++) {
    const size_t at = (size_t)j * unit;
    if (memcmp((const unsigned char *)expected + at, (const unsigned char *)after + at, unit) ==
        0) {
      continue;
    }
    double error = fabs(element_of(width, after, j) - element_of(width, expected, j));
    verdict.first_element = verdict.violations == 0 ? j : verdict.first_element;
    verdict.violations++;
    verdict.worst_ratio = HUGE_VAL;
    verdict.max_abs_err = fmax(verdict.max_abs_err, isfinite(error) ? error : 0);
  }
  return verdict;
}

void stg_oracle_verdict_join(struct stg_oracle_verdict *verdict,
                             const struct stg_oracle_verdict *residual) {
  if (verdict->violations == 0 && residual->violations != 0) {
    verdict->first_element = residual->first_element;
    verdict->in_residual = true;
  }
  verdict->violations += residual->violations;
  verdict->overflows += residual->overflows;
  verdict->worst_ratio = fmax(verdict->worst_ratio, residual->worst_ratio);
  verdict->max_abs_err = fmax(verdict->max_abs_err, residual->max_abs_err);
}

void stg_oracle_verdict_join_cells(struct stg_oracle_verdict *verdict,
                                   const struct stg_oracle_verdict *cells) {
  const bool first = verdict->violations == 0 && cells->violations != 0;
  stg_oracle_verdict_join(verdict, cells);
  if (first) {
    verdict->in_residual = false;
    verdict->in_probes = true;
  }
}

/* The last of the cells with this column has it. */
static const struct stg_oracle_cell *cell_of(const struct stg_oracle_cell *cells, size_t n_cells,
                                             size_t column) {
  const struct stg_oracle_cell *found = NULL;
  for (size_t k = 0; k < n_cells; k++) {
    found = cells[k].column == column ? &cells[k] : found;
  }
  return found;
}

struct stg_oracle_verdict stg_oracle_judge_cells(const struct stg_oracle_cell *cells,
                                                 size_t n_cells, const float *before,
                                                 const float *after, uint32_t n) {
  static const struct stg_oracle_width width = {STG_F32, 1};
  struct stg_oracle_verdict verdict = {.first_element = -1};
  for (uint32_t column = 0; column < n; column++) {
    const struct stg_oracle_cell *cell = cell_of(cells, n_cells, column);
    const double value = (double)after[column];
    struct stg_oracle_verdict one =
        cell != NULL ? stg_oracle_judge(width, &value, &cell->ref, &cell->bound)
                     : stg_oracle_judge_bytes(width, &before[column], &after[column]);
    one.first_element = one.violations != 0 ? (int64_t)column : -1;
    stg_oracle_verdict_join_cells(&verdict, &one);
  }
  return verdict;
}

bool stg_oracle_verdict_is_worse(const struct stg_oracle_verdict *verdict,
                                 const struct stg_oracle_verdict *other) {
  return other->violations != verdict->violations ? other->violations < verdict->violations
                                                  : other->worst_ratio < verdict->worst_ratio;
}

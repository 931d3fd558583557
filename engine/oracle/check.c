/*
 * oracle/check.c: a whole batch against the oracle, row by row, element by element.
 *
 * Each element is held to its own bound; comparing the largest error with the largest bound would
 * let a wrong result pass. It must not know how the result was computed.
 */
#include <math.h>
#include <string.h>

#include "engine/oracle/worker.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"

/* hidden, residual, after; ref and bound of every alternative */
#define OWN_ROWS (3 + 2 * STG_ORACLE_MAX_ALTERNATIVES)

struct checker {
  const struct stg_oracle_batch *batch;
  struct stg_oracle_worker *worker;
  struct stg_oracle_report report;
  double *block; /* owns the rows below */
  double *hidden;
  double *residual;
  double *after;
  struct stg_oracle_row expected;
};

/* What came of one row. */
struct verdict {
  uint64_t violations;
  uint64_t overflows;
  int64_t first_element; /* of the first violation, or -1 */
  double max_abs_err;
  double worst_ratio;
};

static stg_status checker_init(const struct stg_oracle_batch *batch, struct checker *ret_checker,
                               stg_error *reterr) {
  size_t scratch = 0;
  for (int64_t r = 0; r < batch->rows; r++) {
    if (batch->row_chain[r] >= 0) {
      size_t own = stg_oracle_chain_rows(&batch->chains[batch->row_chain[r]]);
      scratch = own > scratch ? own : scratch;
    }
  }
  size_t count = (size_t)batch->hidden_size;
  size_t bytes;
  if (!stg_mul_size(count, OWN_ROWS, &bytes) || !stg_mul_size(bytes, sizeof(double), &bytes)) {
    stg_error_memory(reterr, "rows of the oracle", SIZE_MAX);
    return STG_E_NO_MEMORY;
  }
  double *block = stg_malloc_aligned(bytes);
  if (block == NULL) {
    stg_error_memory(reterr, "rows of the oracle", bytes);
    return STG_E_NO_MEMORY;
  }
  *ret_checker = (struct checker){
      .batch = batch,
      .report = {.first_row = -1, .first_element = -1},
      .block = block,
      .hidden = block,
      .residual = block + count,
      .after = block + 2 * count,
      .expected = {.ref = block + 3 * count,
                   .bound = block + (3 + STG_ORACLE_MAX_ALTERNATIVES) * count},
  };
  stg_status status =
      stg_oracle_worker_create(batch->hidden_size, scratch, &ret_checker->worker, reterr);
  if (status != STG_OK) {
    stg_free(block);
  }
  return status;
}

static void checker_fini(struct checker *checker) {
  stg_oracle_worker_destroy(checker->worker);
  stg_free(checker->block);
}

static size_t row_offset(const struct stg_oracle_batch *batch, int64_t row) {
  return (size_t)row * (size_t)batch->row_stride * stg_dtype_bytes(batch->dtype);
}

/* Row `row` of a tensor, at any alignment. */
static void widen_row(const struct stg_oracle_batch *batch, const void *tensor, int64_t row,
                      double *ret_row) {
  size_t unit = stg_dtype_bytes(batch->dtype);
  const unsigned char *bytes = (const unsigned char *)tensor + row_offset(batch, row);
  for (int64_t j = 0; j < batch->hidden_size; j++) {
    uint32_t element = 0;
    memcpy(&element, bytes + (size_t)j * unit, unit);
    ret_row[j] = (double)stg_load_f32(batch->dtype, &element, 0);
  }
}

/* Widen a row's inputs and hand its chain to the worker. */
static stg_status load_row(struct checker *checker, int64_t row, stg_error *reterr) {
  const struct stg_oracle_batch *batch = checker->batch;
  widen_row(batch, batch->before, row, checker->hidden);
  if (batch->residual != NULL) {
    widen_row(batch, batch->residual, row, checker->residual);
  }
  return stg_oracle_worker_take(checker->worker, &batch->chains[batch->row_chain[row]], reterr);
}

static bool same_bytes(const struct stg_oracle_batch *batch, int64_t row) {
  size_t offset = row_offset(batch, row);
  return memcmp((const unsigned char *)batch->before + offset,
                (const unsigned char *)batch->after + offset,
                (size_t)batch->hidden_size * stg_dtype_bytes(batch->dtype)) == 0;
}

/* Every element whose bytes differ is a violation without bound. */
static struct verdict judge_untouched(const struct checker *checker, int64_t row) {
  const struct stg_oracle_batch *batch = checker->batch;
  size_t unit = stg_dtype_bytes(batch->dtype);
  const unsigned char *before = (const unsigned char *)batch->before + row_offset(batch, row);
  const unsigned char *after = (const unsigned char *)batch->after + row_offset(batch, row);
  struct verdict verdict = {.first_element = -1};
  for (int64_t j = 0; j < batch->hidden_size; j++) {
    if (memcmp(before + (size_t)j * unit, after + (size_t)j * unit, unit) == 0) {
      continue;
    }
    double error = fabs(checker->after[j] - checker->hidden[j]);
    verdict.first_element = verdict.violations == 0 ? j : verdict.first_element;
    verdict.violations++;
    verdict.worst_ratio = HUGE_VAL;
    verdict.max_abs_err = fmax(verdict.max_abs_err, isfinite(error) ? error : 0);
  }
  return verdict;
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

static struct verdict judge_alternative(const struct checker *checker, const double *ref,
                                        const double *bound) {
  double largest = stg_dtype_max(checker->batch->dtype);
  struct verdict verdict = {.first_element = -1};
  for (int64_t j = 0; j < checker->batch->hidden_size; j++) {
    bool overflow;
    double error = fabs(checker->after[j] - ref[j]);
    double ratio = error_ratio(checker->after[j], ref[j], bound[j], largest, &overflow);
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

/* The op's line of the report; a report holds the first STG_ORACLE_MAX_OPS names. */
static struct stg_oracle_op_error *op_line(struct stg_oracle_report *report, const char *op) {
  for (size_t k = 0; k < report->n_ops; k++) {
    if (strcmp(report->ops[k].op, op) == 0) {
      return &report->ops[k];
    }
  }
  if (report->n_ops == STG_ORACLE_MAX_OPS) {
    return NULL;
  }
  report->ops[report->n_ops].op = op;
  return &report->ops[report->n_ops++];
}

/* Squares are summed here and become the rms at the end. */
static void note_projections(struct checker *checker, const struct stg_oracle_chain *chain,
                             const double *ref) {
  for (size_t k = 0; k < chain->n_ops; k++) {
    const struct stg_oracle_op *call = &chain->ops[k];
    double error = 0;
    for (int64_t j = 0; call->op->n_vectors != 0 && j < checker->batch->hidden_size; j++) {
      error += (checker->after[j] - ref[j]) * call->vectors[0][j];
    }
    struct stg_oracle_op_error *line = op_line(&checker->report, call->op->name);
    if (line != NULL && isfinite(error)) {
      line->projection_err_rms += error * error;
      line->rows++;
    }
  }
}

static struct verdict judge_steered(struct checker *checker, int64_t row) {
  const struct stg_oracle_batch *batch = checker->batch;
  struct stg_oracle_row *expected = &checker->expected;
  size_t best = 0;
  struct verdict verdict = {0};
  stg_oracle_worker_row(checker->worker, batch->dtype, checker->hidden,
                        batch->residual == NULL ? NULL : checker->residual, expected);
  for (size_t k = 0; k < expected->n_alternatives; k++) {
    size_t offset = k * (size_t)batch->hidden_size;
    struct verdict other =
        judge_alternative(checker, expected->ref + offset, expected->bound + offset);
    bool better = other.violations != verdict.violations ? other.violations < verdict.violations
                                                         : other.worst_ratio < verdict.worst_ratio;
    if (k == 0 || better) {
      verdict = other;
      best = k;
    }
  }
  checker->report.branch_rows += expected->n_alternatives > 1;
  note_projections(checker, &batch->chains[batch->row_chain[row]],
                   expected->ref + best * (size_t)batch->hidden_size);
  return expected->unchanged ? judge_untouched(checker, row) : verdict;
}

static stg_status check_row(struct checker *checker, int64_t row, stg_error *reterr) {
  const struct stg_oracle_batch *batch = checker->batch;
  struct stg_oracle_report *report = &checker->report;
  struct verdict verdict = {.first_element = -1};
  bool same = same_bytes(batch, row);
  widen_row(batch, batch->after, row, checker->after);
  if (batch->row_chain[row] >= 0) {
    stg_status status = load_row(checker, row, reterr);
    if (status != STG_OK) {
      return status;
    }
    verdict = judge_steered(checker, row);
  } else if (!same) {
    widen_row(batch, batch->before, row, checker->hidden);
    verdict = judge_untouched(checker, row);
  }
  report->rows++;
  report->rows_steered += !same;
  report->rows_untouched += same;
  if (verdict.violations != 0 && report->violations == 0) {
    report->first_row = row;
    report->first_element = verdict.first_element;
  }
  report->violations += verdict.violations;
  report->overflows += verdict.overflows;
  report->max_abs_err = fmax(report->max_abs_err, verdict.max_abs_err);
  report->worst_ratio = fmax(report->worst_ratio, verdict.worst_ratio);
  return STG_OK;
}

stg_status stg_oracle_check(const struct stg_oracle_batch *batch,
                            struct stg_oracle_report *ret_report, stg_error *reterr) {
  struct checker checker;
  stg_status status = checker_init(batch, &checker, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (int64_t row = 0; row < batch->rows && status == STG_OK; row++) {
    status = check_row(&checker, row, reterr);
  }
  for (size_t k = 0; k < checker.report.n_ops; k++) {
    struct stg_oracle_op_error *line = &checker.report.ops[k];
    line->projection_err_rms =
        line->rows == 0 ? 0 : sqrt(line->projection_err_rms / (double)line->rows);
  }
  checker.report.ok = checker.report.violations == 0;
  checker_fini(&checker);
  if (status == STG_OK) {
    *ret_report = checker.report;
  }
  return status;
}

/* To float32 such that a second rounding, to 11 bits or less, cannot go wrong: to odd. */
static float narrow_to_odd(double value) {
  float nearest = (float)value;
  uint32_t bits = stg_f32_bits(nearest);
  if ((double)nearest == value || !isfinite(nearest) || (bits & 1U) != 0) {
    return nearest;
  }
  bool away = fabs((double)nearest) < fabs(value);
  if (nearest == 0.0F) {
    return stg_f32_from_bits(bits | 1U);
  }
  return stg_f32_from_bits(away ? bits + 1 : bits - 1);
}

static void store_row(const struct stg_oracle_batch *batch, const double *ref, unsigned char *out) {
  size_t unit = stg_dtype_bytes(batch->dtype);
  for (int64_t j = 0; j < batch->hidden_size; j++) {
    uint32_t element = 0;
    float narrow = batch->dtype == STG_F32 ? (float)ref[j] : narrow_to_odd(ref[j]);
    stg_store_f32(batch->dtype, &element, 0, narrow);
    memcpy(out + (size_t)j * unit, &element, unit);
  }
}

stg_status stg_oracle_apply(const struct stg_oracle_batch *batch, void *out, stg_error *reterr) {
  struct checker checker;
  stg_status status = checker_init(batch, &checker, reterr);
  if (status != STG_OK) {
    return status;
  }
  size_t row_bytes = (size_t)batch->hidden_size * stg_dtype_bytes(batch->dtype);
  for (int64_t row = 0; row < batch->rows && status == STG_OK; row++) {
    const unsigned char *before = (const unsigned char *)batch->before + row_offset(batch, row);
    unsigned char *to = (unsigned char *)out + row_offset(batch, row);
    if (batch->row_chain[row] == -1 && to != before) {
      memcpy(to, before, row_bytes);
    }
    if (batch->row_chain[row] < 0) {
      continue;
    }
    status = load_row(&checker, row, reterr);
    if (status == STG_OK) {
      stg_oracle_worker_apply(checker.worker, checker.hidden,
                              batch->residual == NULL ? NULL : checker.residual,
                              checker.expected.ref);
      store_row(batch, checker.expected.ref, to);
    }
  }
  checker_fini(&checker);
  return status;
}

/*
 * oracle/check.c: a whole batch against the oracle, row by row.
 *
 * With an epilogue the row that a chain sees and leaves is hidden + residual; the residual is held
 * against what the chain leaves, hidden against that row normalised. It must not know how the
 * result was computed.
 */
#include <math.h>
#include <string.h>

#include "engine/oracle/norm.h"
#include "engine/oracle/worker.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"

/* hidden, residual, after, residual_after, weight, norm_ref, norm_bound, stored; ref and bound of
 * every alternative */
#define OWN_ROWS (8 + 2 * STG_ORACLE_MAX_ALTERNATIVES)

/* Of a row that is not steered, for the epilogue behind it. */
static const struct stg_oracle_chain no_chain = {0};

struct checker {
  const struct stg_oracle_batch *batch;
  struct stg_oracle_worker *worker;
  struct stg_oracle_report report;
  double *block;  /* owns the rows below */
  double *hidden; /* with an epilogue: hidden + residual */
  double *residual;
  double *after;
  double *residual_after;
  double *norm_ref, *norm_bound; /* of one alternative */
  void *stored;                  /* hidden + residual, one row of the batch's dtype */
  struct stg_oracle_norm norm;
  struct stg_oracle_row expected;
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
      .residual_after = block + 3 * count,
      .norm_ref = block + 5 * count,
      .norm_bound = block + 6 * count,
      .stored = block + 7 * count,
      .norm = {.width = {batch->dtype, batch->hidden_size},
               .epsilon = (double)batch->epsilon,
               .weight = block + 4 * count},
      .expected = {.ref = block + 8 * count,
                   .bound = block + (8 + STG_ORACLE_MAX_ALTERNATIVES) * count},
  };
  if (batch->weight != NULL) {
    stg_oracle_widen(ret_checker->norm.width, batch->weight, block + 4 * count);
  }
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

static const void *row_of(const struct stg_oracle_batch *batch, const void *tensor, int64_t row) {
  return (const unsigned char *)tensor + row_offset(batch, row);
}

static const struct stg_oracle_chain *chain_of(const struct stg_oracle_batch *batch, int64_t row) {
  return batch->row_chain[row] >= 0 ? &batch->chains[batch->row_chain[row]] : &no_chain;
}

/* Widen a row's inputs and hand its chain to the worker. */
static stg_status load_row(struct checker *checker, int64_t row, stg_error *reterr) {
  const struct stg_oracle_batch *batch = checker->batch;
  const struct stg_oracle_width width = checker->norm.width;
  stg_oracle_widen(width, row_of(batch, batch->before, row), checker->hidden);
  if (batch->residual != NULL) {
    stg_oracle_widen(width, row_of(batch, batch->residual, row), checker->residual);
  }
  for (int64_t j = 0; batch->weight != NULL && j < width.n; j++) {
    checker->hidden[j] += checker->residual[j];
  }
  return stg_oracle_worker_take(checker->worker, chain_of(batch, row), reterr);
}

/* The residual that the worker is to see: none where it is part of the row already. */
static const double *residual_of(const struct checker *checker) {
  const struct stg_oracle_batch *batch = checker->batch;
  return batch->residual == NULL || batch->weight != NULL ? NULL : checker->residual;
}

static struct stg_oracle_verdict judge_untouched(const struct checker *checker, int64_t row) {
  const struct stg_oracle_batch *batch = checker->batch;
  const struct stg_oracle_width width = checker->norm.width;
  struct stg_oracle_verdict verdict = stg_oracle_judge_bytes(
      width, row_of(batch, batch->before, row), row_of(batch, batch->after, row));
  if (batch->weight != NULL) {
    struct stg_oracle_verdict residual = stg_oracle_judge_bytes(
        width, row_of(batch, batch->residual, row), row_of(batch, batch->residual_after, row));
    stg_oracle_verdict_join(&verdict, &residual);
  }
  return verdict;
}

/* The residual behind an epilogue against the sum alone: what a row that nothing acts on holds. */
static struct stg_oracle_verdict judge_sum(const struct checker *checker, int64_t row) {
  const struct stg_oracle_batch *batch = checker->batch;
  const void *after = row_of(batch, batch->residual_after, row);
  stg_oracle_sum_bytes(checker->norm.width, row_of(batch, batch->before, row),
                       row_of(batch, batch->residual, row), after, checker->stored);
  return stg_oracle_judge_bytes(checker->norm.width, checker->stored, after);
}

/* Whether any byte shows that the row was steered. */
static bool looks_steered(const struct checker *checker, int64_t row) {
  const struct stg_oracle_batch *batch = checker->batch;
  if (batch->weight != NULL && batch->row_chain[row] != -2) {
    return judge_sum(checker, row).violations != 0;
  }
  return memcmp(row_of(batch, batch->before, row), row_of(batch, batch->after, row),
                (size_t)batch->hidden_size * stg_dtype_bytes(batch->dtype)) != 0;
}

/* The row's cells in alternative k; k < 0: of a row whose ops give nothing out. */
static struct stg_oracle_verdict judge_cells(const struct checker *checker, int64_t row, int k) {
  const struct stg_oracle_batch *batch = checker->batch;
  if (batch->n_probes == 0) {
    return (struct stg_oracle_verdict){.first_element = -1};
  }
  const int64_t at = row * batch->probe_stride;
  return stg_oracle_judge_cells(k >= 0 ? checker->expected.cells[k] : NULL,
                                k >= 0 ? checker->expected.n_cells : 0, batch->probes_before + at,
                                batch->probes_after + at, batch->n_probes);
}

/* The tensors in alternative k of the row. */
static struct stg_oracle_verdict judge_tensors(struct checker *checker, int64_t row, size_t k) {
  const struct stg_oracle_width width = checker->norm.width;
  const double *ref = checker->expected.ref + k * (size_t)width.n;
  const double *bound = checker->expected.bound + k * (size_t)width.n;
  const bool unchanged = checker->expected.unchanged;
  if (checker->batch->weight == NULL) {
    return unchanged ? judge_untouched(checker, row)
                     : stg_oracle_judge(width, checker->after, ref, bound);
  }
  stg_oracle_norm_row(&checker->norm, ref, checker->norm_ref);
  stg_oracle_norm_bound(&checker->norm, ref, bound, checker->norm_ref, checker->norm_bound);
  struct stg_oracle_verdict verdict =
      stg_oracle_judge(width, checker->after, checker->norm_ref, checker->norm_bound);
  struct stg_oracle_verdict residual = stg_oracle_judge(width, checker->residual_after, ref, bound);
  if (unchanged) {
    const uint64_t overflows = residual.overflows;
    residual = judge_sum(checker, row);
    residual.overflows = overflows;
  }
  stg_oracle_verdict_join(&verdict, &residual);
  return verdict;
}

/* Alternative k of the row. */
static struct stg_oracle_verdict judge_alternative(struct checker *checker, int64_t row, size_t k) {
  struct stg_oracle_verdict verdict = judge_tensors(checker, row, k);
  const struct stg_oracle_verdict cells = judge_cells(checker, row, (int)k);
  stg_oracle_verdict_join_cells(&verdict, &cells);
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

/* What the chain left, as it was stored. Squares are summed here and become the rms at the end. */
static void note_projections(struct checker *checker, const struct stg_oracle_chain *chain,
                             const double *ref) {
  const double *left = checker->batch->weight == NULL ? checker->after : checker->residual_after;
  for (size_t k = 0; k < chain->n_ops; k++) {
    const struct stg_oracle_op *call = &chain->ops[k];
    double error = 0;
    for (int64_t j = 0; call->op->n_vectors != 0 && j < checker->batch->hidden_size; j++) {
      error += (left[j] - ref[j]) * call->vectors[0][j];
    }
    struct stg_oracle_op_error *line = op_line(&checker->report, call->op->name);
    if (line != NULL && isfinite(error)) {
      line->projection_err_rms += error * error;
      line->rows++;
    }
  }
}

static struct stg_oracle_verdict judge_steered(struct checker *checker, int64_t row) {
  const struct stg_oracle_batch *batch = checker->batch;
  struct stg_oracle_row *expected = &checker->expected;
  size_t best = 0;
  struct stg_oracle_verdict verdict = {0};
  stg_oracle_worker_row(checker->worker, batch->dtype, checker->hidden, residual_of(checker),
                        expected);
  for (size_t k = 0; k < expected->n_alternatives; k++) {
    struct stg_oracle_verdict other = judge_alternative(checker, row, k);
    if (k == 0 || stg_oracle_verdict_is_worse(&verdict, &other)) {
      verdict = other;
      best = k;
    }
  }
  checker->report.branch_rows += expected->n_alternatives > 1;
  note_projections(checker, chain_of(batch, row),
                   expected->ref + best * (size_t)batch->hidden_size);
  return verdict;
}

static void note_verdict(struct stg_oracle_report *report, int64_t row, bool steered,
                         const struct stg_oracle_verdict *verdict) {
  report->rows++;
  report->rows_steered += steered;
  report->rows_untouched += !steered;
  if (verdict->violations != 0 && report->violations == 0) {
    report->first_row = row;
    report->first_element = verdict->first_element;
    report->first_in_residual = verdict->in_residual;
    report->first_in_probes = verdict->in_probes;
  }
  report->violations += verdict->violations;
  report->overflows += verdict->overflows;
  report->max_abs_err = fmax(report->max_abs_err, verdict->max_abs_err);
  report->worst_ratio = fmax(report->worst_ratio, verdict->worst_ratio);
}

static stg_status check_row(struct checker *checker, int64_t row, stg_error *reterr) {
  const struct stg_oracle_batch *batch = checker->batch;
  struct stg_oracle_verdict verdict;
  if (batch->row_chain[row] >= 0 || (batch->weight != NULL && batch->row_chain[row] == -1)) {
    stg_status status = load_row(checker, row, reterr);
    if (status != STG_OK) {
      return status;
    }
    stg_oracle_widen(checker->norm.width, row_of(batch, batch->after, row), checker->after);
    if (batch->weight != NULL) {
      stg_oracle_widen(checker->norm.width, row_of(batch, batch->residual_after, row),
                       checker->residual_after);
    }
    verdict = judge_steered(checker, row);
  } else {
    verdict = judge_untouched(checker, row);
    const struct stg_oracle_verdict cells = judge_cells(checker, row, -1);
    stg_oracle_verdict_join_cells(&verdict, &cells);
  }
  note_verdict(&checker->report, row, looks_steered(checker, row), &verdict);
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

/* A row that is computed. With an epilogue s' goes to `residual_out`, the normalised row to `out`.
 */
static void apply_row(struct checker *checker, unsigned char *out, unsigned char *residual_out) {
  const struct stg_oracle_batch *batch = checker->batch;
  double *ref = checker->expected.ref;
  stg_oracle_worker_apply(checker->worker, checker->hidden, residual_of(checker), ref);
  if (batch->weight == NULL || residual_out == NULL) {
    store_row(batch, ref, out);
    return;
  }
  store_row(batch, ref, residual_out);
  stg_oracle_norm_row(&checker->norm, ref, checker->norm_ref);
  store_row(batch, checker->norm_ref, out);
}

stg_status stg_oracle_apply(const struct stg_oracle_batch *batch, void *out, void *residual_out,
                            stg_error *reterr) {
  struct checker checker;
  stg_status status = checker_init(batch, &checker, reterr);
  if (status != STG_OK) {
    return status;
  }
  size_t row_bytes = (size_t)batch->hidden_size * stg_dtype_bytes(batch->dtype);
  for (int64_t row = 0; row < batch->rows && status == STG_OK; row++) {
    const void *before = row_of(batch, batch->before, row);
    const size_t offset = row_offset(batch, row);
    unsigned char *to = (unsigned char *)out + offset;
    const bool computed = batch->row_chain[row] >= 0 || batch->weight != NULL;
    if (batch->row_chain[row] < -1) {
      continue;
    }
    if (!computed && to != before) {
      memcpy(to, before, row_bytes);
    }
    if (computed) {
      status = load_row(&checker, row, reterr);
    }
    if (computed && status == STG_OK) {
      apply_row(&checker, to, residual_out == NULL ? NULL : (unsigned char *)residual_out + offset);
    }
  }
  checker_fini(&checker);
  return status;
}

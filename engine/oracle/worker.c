/*
 * oracle/worker.c: chains over rows, their alternatives, and the growth of user ops.
 *
 * A chain is evaluated op by op. Where comparisons were close, it is evaluated again for each other
 * way they may have come out. It must not know of batches or of packed dtypes.
 */
#include "engine/oracle/worker.h"

#include <math.h>
#include <string.h>

#include "engine/oracle/bound.h"
#include "engine/oracle/evaluate.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"

/* state, update, start, before, between, perturbed */
#define OWN_ROWS 6
/* Of a row's norm: small enough to see the slope, large beside the rounding of float64. */
#define PERTURBATION 0x1p-20

struct stg_oracle_worker {
  struct stg_oracle_facts facts;
  int64_t n;
  double *block; /* owns the rows below */
  double *state;
  double *update;
  double *start;     /* the state before the chain */
  double *before;    /* the state before the op */
  double *between;   /* the state before the statement, or the names that lead up to it */
  double *perturbed; /* the same statements from a little beside one of these */
  double *spare;
  signed char outcomes[STG_OP_MAX_NODES];
  struct stg_oracle_eval eval;
};

size_t stg_oracle_chain_rows(const struct stg_oracle_chain *chain) {
  size_t rows = 0;
  for (size_t k = 0; k < chain->n_ops; k++) {
    size_t own = stg_oracle_spare_rows(&chain->ops[k].op->ast);
    rows = own > rows ? own : rows;
  }
  return rows;
}

stg_status stg_oracle_worker_create(int64_t hidden_size, size_t scratch_rows,
                                    struct stg_oracle_worker **ret_worker, stg_error *reterr) {
  size_t count = (size_t)hidden_size;
  size_t bytes;
  if (!stg_mul_size(count, OWN_ROWS + scratch_rows, &bytes) ||
      !stg_mul_size(bytes, sizeof(double), &bytes)) {
    stg_error_memory(reterr, "rows of the oracle", SIZE_MAX);
    return STG_E_NO_MEMORY;
  }
  struct stg_oracle_worker *worker = stg_calloc(1, sizeof *worker);
  double *block = stg_malloc_aligned(bytes);
  if (worker == NULL || block == NULL) {
    stg_free(worker);
    stg_free(block);
    stg_error_memory(reterr, "rows of the oracle", bytes);
    return STG_E_NO_MEMORY;
  }
  worker->n = hidden_size;
  worker->block = block;
  worker->state = block;
  worker->update = block + count;
  worker->start = block + 2 * count;
  worker->before = block + 3 * count;
  worker->between = block + 4 * count;
  worker->perturbed = block + 5 * count;
  worker->spare = block + OWN_ROWS * count;
  *ret_worker = worker;
  return STG_OK;
}

void stg_oracle_worker_destroy(struct stg_oracle_worker *worker) {
  if (worker != NULL) {
    stg_free(worker->block);
    stg_free(worker);
  }
}

stg_status stg_oracle_worker_take(struct stg_oracle_worker *worker,
                                  const struct stg_oracle_chain *chain, stg_error *reterr) {
  return worker->facts.chain == chain
             ? STG_OK
             : stg_oracle_facts_init(chain, worker->n, &worker->facts, reterr);
}

static size_t row_bytes(const struct stg_oracle_worker *w) {
  return (size_t)w->n * sizeof(double);
}

/* The state that a chain sees first. */
static void begin(struct stg_oracle_worker *w, const double *hidden, const double *residual) {
  for (int64_t j = 0; j < w->n; j++) {
    w->start[j] = residual == NULL ? hidden[j] : hidden[j] + residual[j];
  }
}

/* Statements first to end of the op at hand, which led from `from` to w->state. */
struct span {
  const double *from;
  uint16_t first, end;
};

/* |f(from + step*direction) - f(from)| / (step*|direction|), f the span; 0 when not finite. */
static double slope(struct stg_oracle_worker *w, const struct span *span, double step,
                    const double *direction) {
  double length = fabs(step) * sqrt(stg_oracle_naive_dot(direction, direction, w->n));
  struct stg_oracle_eval eval = w->eval;
  eval.state = w->perturbed;
  eval.update = NULL;
  eval.run = NULL;
  eval.replay = true;
  for (int64_t j = 0; j < w->n; j++) {
    w->perturbed[j] = span->from[j] + step * direction[j];
  }
  stg_oracle_evaluate(&eval, span->first, span->end);
  double squares = 0;
  for (int64_t j = 0; j < w->n; j++) {
    double difference = w->perturbed[j] - w->state[j];
    squares += difference * difference;
  }
  double ratio = sqrt(squares) / length;
  return isfinite(ratio) ? ratio : 0;
}

/*
 * The largest growth of a perturbation of h along the op's vectors and along h itself, at least 1.
 * Comparisons keep their outcomes: another branch is another alternative, not growth.
 */
static double measure_growth(struct stg_oracle_worker *w, const struct span *span) {
  const struct stg_oracle_facts *facts = &w->facts;
  double norm = sqrt(stg_oracle_naive_dot(span->from, span->from, w->n));
  double size = norm > 0 ? PERTURBATION * norm : PERTURBATION;
  double growth = 1;
  for (size_t k = 0; k < w->eval.call->op->n_vectors; k++) {
    size_t i = facts->first[w->eval.index] + k;
    growth = fmax(growth, slope(w, span, size / facts->norms[i], facts->vectors[i]));
    growth = fmax(growth, slope(w, span, -size / facts->norms[i], facts->vectors[i]));
  }
  growth = fmax(growth, slope(w, span, PERTURBATION, span->from));
  return fmax(growth, slope(w, span, -PERTURBATION, span->from));
}

/*
 * Evaluate an op of unknown growth, and measure it after every statement that sets h: what one
 * statement removes from h, its float32 error included, the next may make large. A scalar taken
 * before one statement and used after it shows in the growth of the whole op only.
 */
static void evaluate_measured(struct stg_oracle_worker *w, struct stg_oracle_run *run) {
  const struct stg_ast *ast = &w->eval.call->op->ast;
  const double lambda = run->lambda;
  unsigned n_sets = 0;
  struct span span = {.from = w->between};
  memcpy(w->before, w->state, row_bytes(w));
  memcpy(w->between, w->state, row_bytes(w));
  for (uint16_t s = 0; s < ast->n_statements; s++) {
    stg_oracle_evaluate(&w->eval, s, s + 1);
    if (ast->statements[s].kind == STG_STATEMENT_LET ||
        ast->statements[s].kind == STG_STATEMENT_OUTPUT) {
      continue;
    }
    span.end = s + 1;
    run->lambda *= measure_growth(w, &span);
    memcpy(w->between, w->state, row_bytes(w));
    span.first = span.end;
    n_sets++;
  }
  if (n_sets > 1) {
    const struct span whole = {.from = w->before, .end = ast->n_statements};
    run->lambda = fmax(run->lambda, lambda * measure_growth(w, &whole));
  }
}

static void evaluate_op(struct stg_oracle_worker *w, size_t op, double *update,
                        struct stg_oracle_run *run) {
  w->eval = (struct stg_oracle_eval){
      .call = &w->facts.chain->ops[op],
      .n = w->n,
      .state = w->state,
      .update = update,
      .spare = w->spare,
      .run = run,
      .index = op,
      .outcomes = w->outcomes,
  };
  memset(w->outcomes, -1, sizeof w->outcomes);
  if (run != NULL && isnan(w->facts.growth[op])) {
    evaluate_measured(w, run);
    return;
  }
  stg_oracle_evaluate(&w->eval, 0, w->eval.call->op->ast.n_statements);
  if (run != NULL) {
    run->lambda *= fmax(1, w->facts.growth[op]);
  }
}

/* From w->start to `ret_ref`. */
static void evaluate_chain(struct stg_oracle_worker *w, const double *hidden, bool pair,
                           struct stg_oracle_run *run, double *ret_ref) {
  memcpy(w->state, w->start, row_bytes(w));
  for (int64_t j = 0; pair && j < w->n; j++) {
    w->update[j] = 0;
  }
  for (size_t op = 0; op < w->facts.chain->n_ops; op++) {
    evaluate_op(w, op, pair ? w->update : NULL, run);
  }
  for (int64_t j = 0; j < w->n; j++) {
    ret_ref[j] = pair ? hidden[j] + w->update[j] : w->state[j];
  }
}

void stg_oracle_worker_apply(struct stg_oracle_worker *worker, const double *hidden,
                             const double *residual, double *ret_ref) {
  begin(worker, hidden, residual);
  evaluate_chain(worker, hidden, residual != NULL, NULL, ret_ref);
}

/* Every close comparison past the prescribed ones opens one more alternative: the other outcome. */
static void add_alternatives(const struct stg_oracle_choices *seen, size_t *n_queued,
                             struct stg_oracle_choices *queue) {
  for (unsigned k = seen->n_forced; k < seen->n_taken; k++) {
    if (*n_queued == STG_ORACLE_MAX_ALTERNATIVES) {
      return;
    }
    uint32_t bit = UINT32_C(1) << k;
    queue[*n_queued] = (struct stg_oracle_choices){
        .forced = (seen->taken & (bit - 1)) | (~seen->taken & bit), .n_forced = k + 1};
    ++*n_queued;
  }
}

void stg_oracle_worker_row(struct stg_oracle_worker *worker, stg_dtype dtype, const double *hidden,
                           const double *residual, struct stg_oracle_row *ret) {
  struct stg_oracle_choices queue[STG_ORACLE_MAX_ALTERNATIVES] = {{0}};
  size_t n_queued = 1;
  bool pair = residual != NULL;
  begin(worker, hidden, residual);
  for (size_t k = 0; k < n_queued; k++) {
    struct stg_oracle_run run;
    double *ref = ret->ref + k * (size_t)worker->n;
    stg_oracle_run_init(&worker->facts, worker->start, queue[k], &run);
    evaluate_chain(worker, hidden, pair, &run, ref);
    stg_oracle_bound(&run, dtype, pair ? hidden : NULL, ref, ret->bound + k * (size_t)worker->n);
    add_alternatives(&run.choices, &n_queued, queue);
    ret->unchanged = run.unchanged;
    ret->n_cells = run.n_cells;
    memcpy(ret->cells[k], run.cells, sizeof run.cells);
  }
  ret->n_alternatives = n_queued;
  ret->unchanged = ret->unchanged && n_queued == 1;
}

stg_status stg_oracle_row(const struct stg_oracle_chain *chain, int64_t hidden_size,
                          stg_dtype dtype, const double *hidden, const double *residual,
                          struct stg_oracle_row *ret, stg_error *reterr) {
  struct stg_oracle_worker *worker = NULL;
  stg_status status =
      stg_oracle_worker_create(hidden_size, stg_oracle_chain_rows(chain), &worker, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_oracle_worker_take(worker, chain, reterr);
  if (status == STG_OK) {
    stg_oracle_worker_row(worker, dtype, hidden, residual, ret);
  }
  stg_oracle_worker_destroy(worker);
  return status;
}

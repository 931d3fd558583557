/*
 * oracle/run.c: magnitudes, cancellation and close comparisons of one evaluation.
 *
 * It must not know of trees or of the storage dtype.
 */
#include "engine/oracle/run.h"

#include <math.h>

/* Beyond this cancellation the engine takes a norm from the row itself. */
#define KAPPA_MAX 0x1p10
#define MAX_CHOICES 32

static double finite_norm(const double *x, int64_t n) {
  double squares = 0;
  for (int64_t j = 0; j < n; j++) {
    squares += isfinite(x[j]) ? x[j] * x[j] : 0;
  }
  return sqrt(squares);
}

void stg_oracle_run_init(struct stg_oracle_facts *facts, const double *start,
                         struct stg_oracle_choices choices, struct stg_oracle_run *ret_run) {
  *ret_run = (struct stg_oracle_run){
      .facts = facts,
      .start = start,
      .start_norm = finite_norm(start, facts->hidden_size),
      .a = 1,
      .lambda = 1,
      .kappa = 1,
      .unchanged = true,
      .choices = choices,
  };
}

static size_t n_own_vectors(const struct stg_oracle_run *run, size_t op) {
  return run->facts->chain->ops[op].op->n_vectors;
}

/* Coefficients of x, a combination of h and the vectors of `op`, over h0 and all vectors. */
static double compose(const struct stg_oracle_run *run, size_t op,
                      const struct stg_oracle_vector *x, double *ret_c) {
  size_t first = run->facts->first[op];
  for (size_t i = 0; i < run->facts->n_vectors; i++) {
    ret_c[i] = x->state.value == 0 ? 0 : x->state.value * run->c[i];
  }
  for (size_t k = 0; k < n_own_vectors(run, op); k++) {
    ret_c[first + k] += x->vectors[k].value;
  }
  return x->state.value == 0 ? 0 : x->state.value * run->a;
}

static void need_dots(struct stg_oracle_run *run) {
  int64_t n = run->facts->hidden_size;
  if (run->have_dots) {
    return;
  }
  stg_oracle_facts_need_gram(run->facts);
  run->start_squares = stg_oracle_naive_dot(run->start, run->start, n);
  for (size_t i = 0; i < run->facts->n_vectors; i++) {
    run->start_dots[i] = stg_oracle_naive_dot(run->start, run->facts->vectors[i], n);
  }
  run->have_dots = true;
}

/* kappa of a norm: S/|g|^2, S the sum of absolute terms of a^2 n + 2a sum c_i d_i + c'Gc. */
static void note_cancellation(struct stg_oracle_run *run, size_t op,
                              const struct stg_oracle_vector *x, double squares) {
  double c[STG_ORACLE_MAX_VECTORS];
  double a = compose(run, op, x, c);
  need_dots(run);
  double sum = a * a * run->start_squares;
  for (size_t i = 0; i < run->facts->n_vectors; i++) {
    sum += 2 * fabs(a * c[i] * run->start_dots[i]);
    for (size_t j = 0; j < run->facts->n_vectors; j++) {
      sum += fabs(c[i] * c[j] * run->facts->gram[i][j]);
    }
  }
  if (sum > run->kappa * squares) {
    run->kappa = sum > KAPPA_MAX * squares ? KAPPA_MAX : sum / squares;
  }
}

/* No smaller than the norm of x, whatever cancels in it. */
static double magnitude(const struct stg_oracle_run *run, size_t op,
                        const struct stg_oracle_vector *x) {
  const double *norms = run->facts->norms;
  double state = fmax(run->a_max, fabs(run->a)) * run->start_norm;
  for (size_t i = 0; i < run->facts->n_vectors; i++) {
    state += run->c_max[i] * norms[i];
  }
  double sum = fabs(x->state.value) * state;
  for (size_t k = 0; k < n_own_vectors(run, op); k++) {
    sum += fabs(x->vectors[k].value) * norms[run->facts->first[op] + k];
  }
  return sum;
}

static double dot_error(const struct stg_oracle_run *run, size_t op,
                        const struct stg_oracle_vector *x, const struct stg_oracle_vector *y) {
  double magnitudes = magnitude(run, op, x) * magnitude(run, op, y);
  double growth = run->kappa * run->lambda * fmax(1, run->facts->largest_norm);
  return 0x1p-23 * growth * sqrt((double)run->facts->hidden_size) * magnitudes;
}

struct stg_oracle_scalar stg_oracle_run_dot(struct stg_oracle_run *run, size_t op,
                                            const struct stg_oracle_vector *x,
                                            const struct stg_oracle_vector *y, double value) {
  static const struct stg_oracle_vector h = {.state = {.value = 1}};
  if (x->state.value != 0 || y->state.value != 0) {
    /* a dot of h0 itself, whose error an op may keep while it drops h */
    run->a_max = fmax(run->a_max, fabs(run->a));
  }
  if (x->state.value != 0 && y->state.value != 0) {
    /* h.h is part of it, and the engine knows that only as a norm */
    note_cancellation(run, op, &h,
                      stg_oracle_naive_dot(x->elements, x->elements, run->facts->hidden_size));
  }
  return (struct stg_oracle_scalar){
      .value = value, .error = dot_error(run, op, x, y), .id = ++run->last_id};
}

struct stg_oracle_scalar stg_oracle_run_norm(struct stg_oracle_run *run, size_t op,
                                             const struct stg_oracle_vector *x, double value) {
  note_cancellation(run, op, x, value * value);
  double error = dot_error(run, op, x, x);
  return (struct stg_oracle_scalar){
      .value = value, .error = fmin(sqrt(error), error / (2 * value)), .id = ++run->last_id};
}

bool stg_oracle_run_decide(struct stg_oracle_run *run, struct stg_oracle_scalar x,
                           struct stg_oracle_scalar y, bool natural) {
  struct stg_oracle_choices *choices = &run->choices;
  bool outcome = natural;
  if (choices->n_taken >= MAX_CHOICES || !stg_oracle_is_close(x, y)) {
    return natural;
  }
  if (choices->n_taken < choices->n_forced) {
    outcome = (choices->forced >> choices->n_taken & 1U) != 0;
  }
  choices->taken |= (uint32_t)outcome << choices->n_taken;
  choices->n_taken++;
  return outcome;
}

void stg_oracle_run_set(struct stg_oracle_run *run, size_t op, const struct stg_oracle_vector *x) {
  double c[STG_ORACLE_MAX_VECTORS];
  run->a = compose(run, op, x, c);
  run->a_max = fmax(run->a_max, fabs(run->a));
  for (size_t i = 0; i < run->facts->n_vectors; i++) {
    run->c[i] = c[i];
    run->c_max[i] = fmax(run->c_max[i], fabs(c[i]));
  }
  run->unchanged = run->unchanged && stg_oracle_is_exactly(x->state, 1);
  for (size_t k = 0; k < n_own_vectors(run, op); k++) {
    run->unchanged = run->unchanged && stg_oracle_is_exactly(x->vectors[k], 0);
  }
}

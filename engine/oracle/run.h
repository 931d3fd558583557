/*
 * oracle/run.h: the bookkeeping beside one evaluation of a chain on a row.
 *
 * The row itself is computed elsewhere, naively; here the coefficients a and c_i of
 * h = a*h0 + sum c_i*v_i are followed, only to know the magnitudes that the bound is made of.
 */
#ifndef STG_ENGINE_ORACLE_RUN_H
#define STG_ENGINE_ORACLE_RUN_H

#include "engine/oracle/facts.h"
#include "engine/oracle/scalar.h"

/* A vector-valued expression: its elements, and what it is a combination of. */
struct stg_oracle_vector {
  double *elements;
  struct stg_oracle_scalar state;
  struct stg_oracle_scalar vectors[STG_OP_MAX_VECTORS];
};

/*
 * Outcomes of close comparisons, in the order of evaluation. The first n_forced are prescribed;
 * later ones go by their values and are recorded. More than 32 are not told apart.
 */
struct stg_oracle_choices {
  uint32_t forced, taken;
  unsigned n_forced, n_taken;
};

struct stg_oracle_run {
  struct stg_oracle_facts *facts;
  const double *start; /* h0, hidden_size elements */
  double start_norm;   /* over its finite elements */
  double a, c[STG_ORACLE_MAX_VECTORS];
  double a_max, c_max[STG_ORACLE_MAX_VECTORS]; /* largest after any statement or at a dot */
  double lambda;                               /* product of max(1, growth) so far */
  double kappa;                                /* largest cancellation of a norm so far, capped */
  bool have_dots;
  double start_squares, start_dots[STG_ORACLE_MAX_VECTORS];
  bool unchanged; /* every statement left h as it was, in float32 as well */
  uint32_t last_id;
  size_t n_cells;
  struct stg_oracle_cell cells[STG_ORACLE_MAX_OPS]; /* what ops gave out, in their order */
  struct stg_oracle_choices choices;
};

void stg_oracle_run_init(struct stg_oracle_facts *facts, const double *start,
                         struct stg_oracle_choices choices, struct stg_oracle_run *ret_run);

/** The number `x . y` that op `op` computed, with its error. */
struct stg_oracle_scalar stg_oracle_run_dot(struct stg_oracle_run *run, size_t op,
                                            const struct stg_oracle_vector *x,
                                            const struct stg_oracle_vector *y, double value);
/** The number `norm(x)` that op `op` computed, with its error. */
struct stg_oracle_scalar stg_oracle_run_norm(struct stg_oracle_run *run, size_t op,
                                             const struct stg_oracle_vector *x, double value);
/** The outcome of a comparison that comes out as `natural` in float64. */
bool stg_oracle_run_decide(struct stg_oracle_run *run, struct stg_oracle_scalar x,
                           struct stg_oracle_scalar y, bool natural);
/** Op `op` has set h to `x`. */
void stg_oracle_run_set(struct stg_oracle_run *run, size_t op, const struct stg_oracle_vector *x);

#endif

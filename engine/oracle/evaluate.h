/*
 * oracle/evaluate.h: one op on one row in float64, straight from its tree.
 */
#ifndef STG_ENGINE_ORACLE_EVALUATE_H
#define STG_ENGINE_ORACLE_EVALUATE_H

#include "engine/oracle/run.h"

/* Everything is borrowed. `spare` has stg_oracle_spare_rows(ast) rows of `n` elements. */
struct stg_oracle_eval {
  const struct stg_oracle_op *call;
  int64_t n;
  double *state;  /* h, rewritten by the statements */
  double *update; /* what the statements add to h is added here too; NULL: not wanted */
  double *spare;
  struct stg_oracle_run *run; /* NULL: only the elements are wanted, errors are 0 */
  size_t index;               /* of the op in the run's chain */
  signed char *outcomes;      /* [STG_OP_MAX_NODES] of each comparison: 0, 1, or -1 not evaluated */
  bool replay;                /* comparisons go by `outcomes` where those are known */
  struct stg_oracle_scalar names[STG_OP_MAX_STATEMENTS];
};

/** Rows of scratch that an evaluation needs. */
size_t stg_oracle_spare_rows(const struct stg_ast *ast);

/** Run the op's statements from number `first` up to, not including, number `end`. */
void stg_oracle_evaluate(struct stg_oracle_eval *eval, uint16_t first, uint16_t end);

#endif

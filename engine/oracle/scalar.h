/*
 * oracle/scalar.h: a float64 number that knows how far a float32 evaluation may be from it.
 *
 * The errors are first-order estimates, used for two questions only: may a comparison fall on
 * either side, and must a coefficient be exactly what it is here (error 0)? They are not part of
 * the bound.
 */
#ifndef STG_ENGINE_ORACLE_SCALAR_H
#define STG_ENGINE_ORACLE_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

#include "codegen/lang/ast.h"

/* `id` names a computed number (0: none), so that x - x is known to be exactly 0. */
struct stg_oracle_scalar {
  double value;
  double error;
  uint32_t id;
};

struct stg_oracle_scalar stg_oracle_exact(double value);
struct stg_oracle_scalar stg_oracle_add(struct stg_oracle_scalar x, struct stg_oracle_scalar y);
struct stg_oracle_scalar stg_oracle_sub(struct stg_oracle_scalar x, struct stg_oracle_scalar y);
struct stg_oracle_scalar stg_oracle_mul(struct stg_oracle_scalar x, struct stg_oracle_scalar y);
struct stg_oracle_scalar stg_oracle_div(struct stg_oracle_scalar x, struct stg_oracle_scalar y);
/** What node kind `kind`, NEG to SIGMOID but no comparison, makes of its one to three scalars. */
struct stg_oracle_scalar stg_oracle_operator(enum stg_node_kind kind,
                                             const struct stg_oracle_scalar *operands);

/** Whether x and y are so close that float32 may order them either way. */
bool stg_oracle_is_close(struct stg_oracle_scalar x, struct stg_oracle_scalar y);
/** Whether a float32 evaluation yields exactly `value`. */
bool stg_oracle_is_exactly(struct stg_oracle_scalar x, double value);

#endif

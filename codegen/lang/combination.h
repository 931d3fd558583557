/*
 * combination.h: s*h_in + sum_k t_k*v_k with the factors as values of a scalar program.
 *
 * What every vector of an op body is: h_in is the row as the op finds it, v_k the op's vectors.
 * Factors of 0, 1 and -1 stay symbolic, so that an absent vector stays absent (0*v would turn -0
 * into +0) and a plain one is never multiplied. The order of operations here is part of the
 * numeric contract.
 */
#ifndef STG_CODEGEN_LANG_COMBINATION_H
#define STG_CODEGEN_LANG_COMBINATION_H

#include "codegen/lang/ast.h"
#include "codegen/program_builder.h"

/* A factor is a value of the program or one of these. */
#define STG_FACTOR_ZERO STG_NO_VALUE
#define STG_FACTOR_ONE (STG_NO_VALUE - 1)
#define STG_FACTOR_MINUS_ONE (STG_NO_VALUE - 2)

/* Factors past the op's own vectors are zero. */
struct stg_combination {
  uint32_t h;
  uint32_t v[STG_OP_MAX_VECTORS];
};

struct stg_combination stg_combination_state(void);
struct stg_combination stg_combination_vector(uint32_t vector);

struct stg_combination stg_combination_add(struct stg_program_builder *b, struct stg_combination x,
                                           struct stg_combination y);
struct stg_combination stg_combination_sub(struct stg_program_builder *b, struct stg_combination x,
                                           struct stg_combination y);
struct stg_combination stg_combination_neg(struct stg_program_builder *b, struct stg_combination x);
struct stg_combination stg_combination_mul(struct stg_program_builder *b, struct stg_combination x,
                                           uint32_t scalar);
struct stg_combination stg_combination_div(struct stg_program_builder *b, struct stg_combination x,
                                           uint32_t scalar);
/** x where `condition` holds, otherwise y. */
struct stg_combination stg_combination_select(struct stg_program_builder *b, uint32_t condition,
                                              struct stg_combination x, struct stg_combination y);

/** The value of x . y. */
uint32_t stg_combination_dot(struct stg_program_builder *b, const struct stg_combination *x,
                             const struct stg_combination *y);
/** The value of |x|. */
uint32_t stg_combination_norm(struct stg_program_builder *b, const struct stg_combination *x);

/** A factor as the program's outputs spell it: `absent` (the symbolic one) as STG_NO_VALUE. */
uint32_t stg_combination_factor(struct stg_program_builder *b, uint32_t factor, uint32_t absent);

#endif

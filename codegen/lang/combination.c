/*
 * combination.c: the algebra of linear combinations, and their dots by DOT, GRAM and NORM2.
 *
 * Two values are never built within one argument list: C leaves their order open, and the order of
 * instructions must not depend on the compiler.
 */
#include "codegen/lang/combination.h"

#include <string.h>

static bool is_symbolic(uint32_t factor) {
  return factor >= STG_FACTOR_MINUS_ONE;
}

/* The factor as a value, a constant where it is symbolic. */
static uint32_t factor_value(struct stg_program_builder *b, uint32_t factor) {
  if (!is_symbolic(factor)) {
    return factor;
  }
  return stg_build_const(b, factor == STG_FACTOR_ZERO  ? 0.0f
                            : factor == STG_FACTOR_ONE ? 1.0f
                                                       : -1.0f);
}

uint32_t stg_combination_factor(struct stg_program_builder *b, uint32_t factor, uint32_t absent) {
  return factor == absent ? STG_NO_VALUE : factor_value(b, factor);
}

static uint32_t factor_neg(struct stg_program_builder *b, uint32_t x) {
  switch (x) {
  case STG_FACTOR_ZERO:
    return STG_FACTOR_ZERO;
  case STG_FACTOR_ONE:
    return STG_FACTOR_MINUS_ONE;
  case STG_FACTOR_MINUS_ONE:
    return STG_FACTOR_ONE;
  default:
    return stg_build_op1(b, STG_INSTR_NEG, x);
  }
}

static uint32_t factor_add(struct stg_program_builder *b, uint32_t x, uint32_t y) {
  if (x == STG_FACTOR_ZERO) {
    return y;
  }
  if (y == STG_FACTOR_ZERO) {
    return x;
  }
  if (is_symbolic(x) && is_symbolic(y)) {
    return x != y ? STG_FACTOR_ZERO : stg_build_const(b, x == STG_FACTOR_ONE ? 2.0f : -2.0f);
  }
  uint32_t left = factor_value(b, x);
  uint32_t right = factor_value(b, y);
  return stg_build_op2(b, STG_INSTR_ADD, left, right);
}

static uint32_t factor_sub(struct stg_program_builder *b, uint32_t x, uint32_t y) {
  if (x == STG_FACTOR_ZERO || is_symbolic(y)) {
    return factor_add(b, x, factor_neg(b, y));
  }
  return stg_build_op2(b, STG_INSTR_SUB, factor_value(b, x), y);
}

static uint32_t factor_mul(struct stg_program_builder *b, uint32_t factor, uint32_t scalar) {
  switch (factor) {
  case STG_FACTOR_ZERO:
    return STG_FACTOR_ZERO;
  case STG_FACTOR_ONE:
    return scalar;
  case STG_FACTOR_MINUS_ONE:
    return stg_build_op1(b, STG_INSTR_NEG, scalar);
  default:
    return stg_build_op2(b, STG_INSTR_MUL, factor, scalar);
  }
}

static uint32_t factor_div(struct stg_program_builder *b, uint32_t factor, uint32_t scalar) {
  return factor == STG_FACTOR_ZERO
             ? STG_FACTOR_ZERO
             : stg_build_op2(b, STG_INSTR_DIV, factor_value(b, factor), scalar);
}

static uint32_t factor_select(struct stg_program_builder *b, uint32_t condition, uint32_t x,
                              uint32_t y) {
  if (x == y) {
    return x;
  }
  uint32_t then = factor_value(b, x);
  uint32_t otherwise = factor_value(b, y);
  return stg_build_op3(b, STG_INSTR_SELECT, condition, then, otherwise);
}

struct stg_combination stg_combination_state(void) {
  struct stg_combination x = {.h = STG_FACTOR_ONE};
  for (uint32_t k = 0; k < STG_OP_MAX_VECTORS; k++) {
    x.v[k] = STG_FACTOR_ZERO;
  }
  return x;
}

struct stg_combination stg_combination_vector(uint32_t vector) {
  struct stg_combination x = stg_combination_state();
  x.h = STG_FACTOR_ZERO;
  x.v[vector] = STG_FACTOR_ONE;
  return x;
}

struct stg_combination stg_combination_add(struct stg_program_builder *b, struct stg_combination x,
                                           struct stg_combination y) {
  x.h = factor_add(b, x.h, y.h);
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    x.v[k] = factor_add(b, x.v[k], y.v[k]);
  }
  return x;
}

struct stg_combination stg_combination_sub(struct stg_program_builder *b, struct stg_combination x,
                                           struct stg_combination y) {
  x.h = factor_sub(b, x.h, y.h);
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    x.v[k] = factor_sub(b, x.v[k], y.v[k]);
  }
  return x;
}

struct stg_combination stg_combination_neg(struct stg_program_builder *b,
                                           struct stg_combination x) {
  x.h = factor_neg(b, x.h);
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    x.v[k] = factor_neg(b, x.v[k]);
  }
  return x;
}

struct stg_combination stg_combination_mul(struct stg_program_builder *b, struct stg_combination x,
                                           uint32_t scalar) {
  x.h = factor_mul(b, x.h, scalar);
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    x.v[k] = factor_mul(b, x.v[k], scalar);
  }
  return x;
}

struct stg_combination stg_combination_div(struct stg_program_builder *b, struct stg_combination x,
                                           uint32_t scalar) {
  x.h = factor_div(b, x.h, scalar);
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    x.v[k] = factor_div(b, x.v[k], scalar);
  }
  return x;
}

struct stg_combination stg_combination_select(struct stg_program_builder *b, uint32_t condition,
                                              struct stg_combination x, struct stg_combination y) {
  x.h = factor_select(b, condition, x.h, y.h);
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    x.v[k] = factor_select(b, condition, x.v[k], y.v[k]);
  }
  return x;
}

/* sum + factor*value. Both `sum` and `value` may be STG_NO_VALUE, an empty sum. */
static uint32_t accumulate(struct stg_program_builder *b, uint32_t sum, uint32_t factor,
                           uint32_t value) {
  if (factor == STG_FACTOR_ZERO || value == STG_NO_VALUE) {
    return sum;
  }
  if (sum == STG_NO_VALUE) {
    return factor_mul(b, factor, value);
  }
  if (factor == STG_FACTOR_ONE) {
    return stg_build_op2(b, STG_INSTR_ADD, sum, value);
  }
  if (factor == STG_FACTOR_MINUS_ONE) {
    return stg_build_op2(b, STG_INSTR_SUB, sum, value);
  }
  return stg_build_op3(b, STG_INSTR_FMA, factor, value, sum);
}

/* x . v_j; STG_NO_VALUE when x is nothing. */
static uint32_t dot_vector(struct stg_program_builder *b, const struct stg_combination *x,
                           uint32_t j) {
  uint32_t sum = STG_NO_VALUE;
  if (x->h != STG_FACTOR_ZERO) {
    sum = accumulate(b, sum, x->h, stg_build_dot(b, j));
  }
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    if (x->v[k] != STG_FACTOR_ZERO) {
      sum = accumulate(b, sum, x->v[k], stg_build_gram(b, k, j));
    }
  }
  return sum;
}

/* |x|^2 of a combination that contains h. */
static uint32_t norm2(struct stg_program_builder *b, const struct stg_combination *x) {
  uint32_t args[1 + STG_CHAIN_MAX_VECTORS];
  args[0] = stg_combination_factor(b, x->h, STG_FACTOR_ONE);
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    args[1 + k] = stg_combination_factor(b, x->v[k], STG_FACTOR_ZERO);
  }
  return stg_build_norm2(b, args);
}

/* x . h_in */
static uint32_t dot_state(struct stg_program_builder *b, const struct stg_combination *x) {
  uint32_t sum = STG_NO_VALUE;
  if (x->h != STG_FACTOR_ZERO) {
    struct stg_combination state = stg_combination_state();
    sum = accumulate(b, sum, x->h, norm2(b, &state));
  }
  for (uint32_t k = 0; k < b->n_vectors; k++) {
    if (x->v[k] != STG_FACTOR_ZERO) {
      sum = accumulate(b, sum, x->v[k], stg_build_dot(b, k));
    }
  }
  return sum;
}

uint32_t stg_combination_dot(struct stg_program_builder *b, const struct stg_combination *x,
                             const struct stg_combination *y) {
  if (x->h != STG_FACTOR_ZERO && memcmp(x, y, sizeof *x) == 0) {
    return norm2(b, x);
  }
  if (x->h == STG_FACTOR_ZERO && y->h != STG_FACTOR_ZERO) {
    const struct stg_combination *without_h = x;
    x = y;
    y = without_h;
  }
  uint32_t sum = STG_NO_VALUE;
  if (y->h != STG_FACTOR_ZERO) {
    sum = accumulate(b, sum, y->h, dot_state(b, x));
  }
  for (uint32_t j = 0; j < b->n_vectors; j++) {
    if (y->v[j] != STG_FACTOR_ZERO) {
      sum = accumulate(b, sum, y->v[j], dot_vector(b, x, j));
    }
  }
  return sum == STG_NO_VALUE ? stg_build_const(b, 0.0f) : sum;
}

uint32_t stg_combination_norm(struct stg_program_builder *b, const struct stg_combination *x) {
  uint32_t square = stg_combination_dot(b, x, x);
  /* NORM2 is floored already, and a Gram diagonal is a sum of squares; other sums may round below
   * zero */
  bool floored = b->failed || x->h != STG_FACTOR_ZERO || b->instrs[square].kind == STG_INSTR_GRAM;
  if (!floored) {
    square = stg_build_op2(b, STG_INSTR_MAX, square, stg_build_const(b, 0.0f));
  }
  return stg_build_op1(b, STG_INSTR_SQRT, square);
}

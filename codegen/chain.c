/*
 * chain.c: op programs one after another, with the state carried as scale, coefficients and dots.
 *
 * Where an op's program reads its row, the chain's reads what the ops before left of it: DOT m of
 * op k is the running D of its vector, NORM2 gets the chain's scale and coefficients. Knows
 * programs only, no op bodies.
 */
#include "codegen/chain.h"

#include "codegen/program_builder.h"
#include "runtime/base/alloc.h"

/* The state after the ops so far: scale*h0 + sum coef_i*v_i, and its dot with every vector. */
struct running {
  struct stg_program_builder builder;
  uint32_t scale; /* STG_NO_VALUE: 1 */
  uint32_t coef[STG_CHAIN_MAX_VECTORS];
  uint32_t dot[STG_CHAIN_MAX_VECTORS];
};

/* factor*value, either of which may be an absent 1 */
static uint32_t product(struct stg_program_builder *b, uint32_t factor, uint32_t value) {
  if (factor == STG_NO_VALUE || value == STG_NO_VALUE) {
    return factor == STG_NO_VALUE ? value : factor;
  }
  return stg_build_op2(b, STG_INSTR_MUL, factor, value);
}

/*
 * The factors over h0 and all vectors of s*h + sum t_m*v_(first+m), h being the running state:
 * first the scale, then the coefficients, as NORM2 lists them. The op's own vectors are not in h
 * yet.
 */
static void expand(struct running *r, uint32_t s, const uint32_t *t, uint32_t n_own, uint32_t first,
                   uint32_t *ret_factors) {
  struct stg_program_builder *b = &r->builder;
  ret_factors[0] = product(b, s, r->scale);
  for (uint32_t i = 0; i < b->n_vectors; i++) {
    bool is_own = i >= first && i < first + n_own;
    bool is_absent = r->coef[i] == STG_NO_VALUE;
    ret_factors[1 + i] = is_own      ? t[i - first]
                         : is_absent ? STG_NO_VALUE
                                     : product(b, s, r->coef[i]);
  }
}

static uint32_t renumber(const uint32_t *values, uint32_t value) {
  return value == STG_NO_VALUE ? STG_NO_VALUE : values[value];
}

/* Instruction `at` of op `k` in the chain's terms; `values` has those of its predecessors. */
static uint32_t inline_instr(struct running *r, const struct stg_op *op, uint32_t k, uint32_t first,
                             uint32_t at, const uint32_t *values) {
  struct stg_program_builder *b = &r->builder;
  const struct stg_instr *instr = &op->program.instrs[at];
  uint32_t args[1 + STG_CHAIN_MAX_VECTORS] = {0};
  for (uint32_t i = 0; i < instr->n_args; i++) {
    args[i] = renumber(values, op->program.args[instr->first_arg + i]);
  }
  if (instr->kind == STG_INSTR_CONST) {
    return stg_build_const(b, instr->imm);
  }
  if (instr->kind == STG_INSTR_PARAM) {
    return stg_build_param(b, k, instr->j);
  }
  if (instr->kind == STG_INSTR_DOT) {
    return r->dot[first + instr->i];
  }
  if (instr->kind == STG_INSTR_GRAM) {
    return stg_build_gram(b, first + instr->i, first + instr->j);
  }
  if (instr->kind == STG_INSTR_NORM2) {
    uint32_t factors[1 + STG_CHAIN_MAX_VECTORS];
    expand(r, args[0], args + 1, op->program.n_vectors, first, factors);
    return stg_build_norm2(b, factors);
  }
  switch (stg_instr_arity(instr->kind)) {
  case 1:
    return stg_build_op1(b, instr->kind, args[0]);
  case 2:
    return stg_build_op2(b, instr->kind, args[0], args[1]);
  default:
    return stg_build_op3(b, instr->kind, args[0], args[1], args[2]);
  }
}

/* The state after op: a, c and every later D, in the order that chain.h fixes. */
static void update_state(struct running *r, uint32_t s, const uint32_t *t, uint32_t n_own,
                         uint32_t first) {
  struct stg_program_builder *b = &r->builder;
  uint32_t factors[1 + STG_CHAIN_MAX_VECTORS];
  expand(r, s, t, n_own, first, factors);
  r->scale = factors[0];
  for (uint32_t i = 0; i < b->n_vectors; i++) {
    r->coef[i] = factors[1 + i];
  }
  for (uint32_t j = first + n_own; j < b->n_vectors; j++) {
    uint32_t dot = product(b, s, r->dot[j]);
    for (uint32_t m = 0; m < n_own; m++) {
      if (t[m] != STG_NO_VALUE) {
        dot = stg_build_op3(b, STG_INSTR_FMA, t[m], stg_build_gram(b, first + m, j), dot);
      }
    }
    r->dot[j] = dot;
  }
}

/* Append op `k`, whose vectors begin at `first`. */
static stg_status append_op(struct running *r, const struct stg_op *op, uint32_t k, uint32_t first,
                            stg_error *reterr) {
  const struct stg_program *program = &op->program;
  size_t n_values = (size_t)program->n_instrs + 1;
  uint32_t *values = stg_calloc(n_values, sizeof *values);
  if (values == NULL) {
    return stg_error_memory(reterr, "a chain's program", n_values * sizeof *values);
  }
  for (uint32_t at = 0; at < program->n_instrs; at++) {
    values[at] = inline_instr(r, op, k, first, at, values);
  }
  for (uint32_t i = 0; i < program->n_outputs; i++) {
    stg_build_output(&r->builder, renumber(values, program->outputs[i].column),
                     renumber(values, program->outputs[i].value));
  }
  uint32_t t[STG_OP_MAX_VECTORS] = {0};
  for (uint32_t m = 0; m < program->n_vectors; m++) {
    t[m] = renumber(values, program->coef[m]);
  }
  update_state(r, renumber(values, program->scale), t, program->n_vectors, first);
  stg_free(values);
  return STG_OK;
}

static stg_status check_limits(const struct stg_op *const *ops, size_t n_ops,
                               uint32_t *ret_n_vectors, stg_error *reterr) {
  if (n_ops == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "a chain of 0 ops; it needs at least 1");
  }
  if (n_ops > STG_CHAIN_MAX_OPS) {
    return stg_error_set(reterr, STG_E_CAPACITY, "a chain of %zu ops; at most %d", n_ops,
                         STG_CHAIN_MAX_OPS);
  }
  size_t n_vectors = 0;
  for (size_t k = 0; k < n_ops; k++) {
    n_vectors += ops[k]->n_vectors;
  }
  if (n_vectors > STG_CHAIN_MAX_VECTORS) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "a chain of %zu ops with %zu vectors; at most %d vectors", n_ops,
                         n_vectors, STG_CHAIN_MAX_VECTORS);
  }
  *ret_n_vectors = (uint32_t)n_vectors;
  return STG_OK;
}

stg_status stg_chain_program(struct stg_arena *arena, const struct stg_op *const *ops, size_t n_ops,
                             struct stg_program *ret_program, stg_error *reterr) {
  uint32_t n_vectors = 0;
  stg_status status = check_limits(ops, n_ops, &n_vectors, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct running r = {.builder = {.n_vectors = n_vectors, .n_ops = (uint32_t)n_ops},
                      .scale = STG_NO_VALUE};
  for (uint32_t i = 0; i < n_vectors; i++) {
    r.coef[i] = STG_NO_VALUE;
    r.dot[i] = stg_build_dot(&r.builder, i);
  }
  uint32_t first = 0;
  for (uint32_t k = 0; k < n_ops && status == STG_OK; k++) {
    status = append_op(&r, ops[k], k, first, reterr);
    first += (uint32_t)ops[k]->n_vectors;
  }
  if (status == STG_OK) {
    status = stg_build_finish(&r.builder, arena, r.scale, r.coef, ret_program, reterr);
  }
  stg_build_abandon(&r.builder);
  return status;
}

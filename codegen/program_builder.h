/*
 * program_builder.h: append instructions, share equal ones, fold what is exact.
 *
 * Folding is limited to what cannot change a bit of the result: x*1, x/1, x+(-0), x-0, -(-x), the
 * negative of a constant, fma with a factor of 1, and select with equal sides or between two
 * constants. Constants are never combined otherwise: their products would round at build time as at
 * run time, but the printed program would no longer read like the op.
 */
#ifndef STG_CODEGEN_PROGRAM_BUILDER_H
#define STG_CODEGEN_PROGRAM_BUILDER_H

#include "codegen/program.h"

/* {0} plus n_vectors and n_ops is a valid empty builder. Single-threaded. Failure is sticky. */
struct stg_program_builder {
  uint32_t n_vectors;
  uint32_t n_ops;
  struct stg_instr *instrs;
  uint32_t n_instrs, instr_capacity;
  uint32_t *args;
  uint32_t n_args, arg_capacity;
  uint32_t *buckets; /* 1 + an instruction, by its hash; 0: empty */
  uint32_t bucket_capacity;
  uint32_t n_outputs;
  struct stg_program_output outputs[STG_CHAIN_MAX_OPS];
  bool failed;
};

uint32_t stg_build_const(struct stg_program_builder *b, float value);
uint32_t stg_build_param(struct stg_program_builder *b, uint32_t op, uint32_t index);
uint32_t stg_build_dot(struct stg_program_builder *b, uint32_t vector);
uint32_t stg_build_gram(struct stg_program_builder *b, uint32_t i, uint32_t j);
/** `args` holds 1 + n_vectors values, STG_NO_VALUE where s = 1 or t_i = 0. */
uint32_t stg_build_norm2(struct stg_program_builder *b, const uint32_t *args);
uint32_t stg_build_op1(struct stg_program_builder *b, enum stg_instr_kind kind, uint32_t x);
uint32_t stg_build_op2(struct stg_program_builder *b, enum stg_instr_kind kind, uint32_t x,
                       uint32_t y);
uint32_t stg_build_op3(struct stg_program_builder *b, enum stg_instr_kind kind, uint32_t x,
                       uint32_t y, uint32_t z);
/** Give `value` out to the cell numbered by `column`: at most once per op of a chain. */
void stg_build_output(struct stg_program_builder *b, uint32_t column, uint32_t value);
/** Copy into the arena as an immutable program, dropping dead instructions, and check it. */
STG_NODISCARD stg_status stg_build_finish(struct stg_program_builder *b, struct stg_arena *arena,
                                          uint32_t scale, const uint32_t *coef,
                                          struct stg_program *ret_program, stg_error *reterr);
/** Free the working arrays; for every path, after finish too. */
void stg_build_abandon(struct stg_program_builder *b);

#endif

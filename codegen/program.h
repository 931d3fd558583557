/*
 * program.h: the scalar program, the IR between the op language and everything that runs it.
 *
 * A chain acts on a row h0 with vectors v_0..v_(n-1). Whatever its ops, the state stays
 *     h = a*h0 + sum_i c_i * v_i
 * so one reduction (DOT i = h0.v_i and h0.h0), a straight line of scalar instructions and one
 * rank-n update are the whole chain, with exact sequential semantics. The program of a single op is
 * the program of the chain that holds it alone. codegen/steer.c prints op programs as CUDA,
 * engine/cpu interprets whole-chain programs, and engine/oracle checks both.
 *
 * SSA: instruction k defines value k; operands are earlier values. Single basic block.
 */
#ifndef STG_CODEGEN_PROGRAM_H
#define STG_CODEGEN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arena.h"
#include "runtime/base/strbuf.h"

#define STG_NO_VALUE UINT32_MAX
#define STG_CHAIN_MAX_OPS 16
#define STG_CHAIN_MAX_VECTORS 32

/*
 * One row per instruction: name, operand count (-1: variable), result type (s scalar, b bool),
 * text. CONST imm          PARAM op,index          DOT i           GRAM i,j (i <= j) FMA a,b,c =
 * a*b + c rounded once. NORM2 s,t_0..t_(n-1): the squared norm of s*h0 + sum t_i*v_i, floored at 0.
 * Its operands may be STG_NO_VALUE, meaning s = 1 or t_i = 0. Evaluated by the Gram formula with
 * the guard that docs call kappa: when the sum of absolute terms exceeds 1024 times the result, the
 * norm is taken from the updated row itself by a second reduction. MIN, MAX, CLAMP keep NaN:
 * min(a,b) is b < a ? b : a; max(a,b) is b > a ? b : a; clamp(p,lo,hi) is p < lo ? lo : p > hi ? hi
 * : p. SELECT cond,a,b. Both sides are evaluated; none traps.
 */
#define STG_INSTR_LIST(X)                                                                          \
  X(CONST, 0, s, "const")                                                                          \
  X(PARAM, 0, s, "param")                                                                          \
  X(DOT, 0, s, "dot")                                                                              \
  X(GRAM, 0, s, "gram")                                                                            \
  X(NORM2, -1, s, "norm2")                                                                         \
  X(NEG, 1, s, "neg")                                                                              \
  X(ADD, 2, s, "add")                                                                              \
  X(SUB, 2, s, "sub")                                                                              \
  X(MUL, 2, s, "mul")                                                                              \
  X(DIV, 2, s, "div")                                                                              \
  X(FMA, 3, s, "fma")                                                                              \
  X(MIN, 2, s, "min")                                                                              \
  X(MAX, 2, s, "max")                                                                              \
  X(CLAMP, 3, s, "clamp")                                                                          \
  X(ABS, 1, s, "abs")                                                                              \
  X(SQRT, 1, s, "sqrt")                                                                            \
  X(EXP, 1, s, "exp")                                                                              \
  X(LOG, 1, s, "log")                                                                              \
  X(TANH, 1, s, "tanh")                                                                            \
  X(SIGMOID, 1, s, "sigmoid")                                                                      \
  X(LT, 2, b, "lt")                                                                                \
  X(LE, 2, b, "le")                                                                                \
  X(GT, 2, b, "gt")                                                                                \
  X(GE, 2, b, "ge")                                                                                \
  X(EQ, 2, b, "eq")                                                                                \
  X(NE, 2, b, "ne")                                                                                \
  X(NOT, 1, b, "not")                                                                              \
  X(AND, 2, b, "and")                                                                              \
  X(OR, 2, b, "or")                                                                                \
  X(SELECT, 3, s, "select")

enum stg_instr_kind {
#define STG_INSTR_ENUM(name, arity, type, text) STG_INSTR_##name,
  STG_INSTR_LIST(STG_INSTR_ENUM)
#undef STG_INSTR_ENUM
      STG_INSTR_KINDS
};

struct stg_instr {
  enum stg_instr_kind kind;
  uint32_t first_arg; /* into stg_program.args */
  uint32_t n_args;
  uint16_t i; /* PARAM: op of the chain; DOT, GRAM: vector */
  uint16_t j; /* PARAM: index; GRAM: vector */
  float imm;  /* CONST */
};

/* What an op gives out: the value goes to the cell that the other value numbers. */
struct stg_program_output {
  uint32_t column, value;
};

/* Immutable once built; lives in an arena. */
struct stg_program {
  uint32_t n_vectors;
  uint32_t n_ops;
  const struct stg_instr *instrs;
  uint32_t n_instrs;
  const uint32_t *args;
  uint32_t n_args;
  uint32_t scale;                       /* value of a; STG_NO_VALUE: 1 */
  uint32_t coef[STG_CHAIN_MAX_VECTORS]; /* value of c_i; STG_NO_VALUE: 0 */
  uint32_t n_outputs;                   /* in the order of the ops; later ones win a cell */
  struct stg_program_output outputs[STG_CHAIN_MAX_OPS];
};

const char *stg_instr_name(enum stg_instr_kind kind);
/** -1 for a variable number. */
int stg_instr_arity(enum stg_instr_kind kind);
bool stg_instr_is_bool(enum stg_instr_kind kind);

/**
 * Validate a program: operands defined before use and of the right type, indices in range,
 * constants not NaN, outputs scalar, NORM2 with 1 + n_vectors operands. STG_E_INVALID names the
 * instruction. Run after every pass; a failure is our own bug.
 */
STG_NODISCARD stg_status stg_program_check(const struct stg_program *program, stg_error *reterr);

/** Stable text of a program, one instruction a line, with floats as decimal and bits. */
void stg_program_print(const struct stg_program *program, struct stg_strbuf *out);

#endif

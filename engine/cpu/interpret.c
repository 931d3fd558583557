/*
 * interpret.c: the scalar program, one instruction at a time, in float32.
 *
 * A program is some dozens of instructions per row of thousands of elements, so this is written to
 * be read: one switch, operands by value number. It must not know of dtypes, batches or ops.
 */
#include "engine/cpu/interpret.h"

#include <math.h>

#include "codegen/prelude/math.h"
#include "engine/cpu/lanes.h"

/* The largest ratio of absolute terms to result at which the Gram formula is trusted. */
#define CANCELLATION_LIMIT 1024.0F

struct stg_cpu_reads stg_cpu_program_reads(const struct stg_program *program) {
  struct stg_cpu_reads reads = {0};
  for (uint32_t k = 0; k < program->n_instrs; k++) {
    const struct stg_instr *instr = &program->instrs[k];
    if (instr->kind == STG_INSTR_DOT) {
      reads.dots |= UINT32_C(1) << instr->i;
    }
    if (instr->kind != STG_INSTR_NORM2) {
      continue;
    }
    reads.squares = true;
    for (uint32_t i = 0; i < program->n_vectors; i++) {
      if (program->args[instr->first_arg + 1 + i] != STG_NO_VALUE) {
        reads.dots |= UINT32_C(1) << i;
      }
    }
  }
  return reads;
}

static float min_of(float a, float b) {
  return b < a ? b : a;
}
static float max_of(float a, float b) {
  return b > a ? b : a;
}
static float clamp(float p, float low, float high) {
  return p < low ? low : p > high ? high : p;
}
static float truth(bool value) {
  return value ? 1.0F : 0.0F;
}

/* ||s*h + sum t_i*v_i||^2 from dots and Gram entries, or from the row where they cancel. */
static float squared_norm(const struct stg_cpu_facts *facts, const uint32_t *args,
                          const float *values) {
  const float *gram = facts->chain->gram;
  size_t n = facts->chain->program->n_vectors;
  float s = args[0] == STG_NO_VALUE ? 1.0F : values[args[0]];
  float t[STG_CHAIN_MAX_VECTORS];
  for (size_t i = 0; i < n; i++) {
    t[i] = args[1 + i] == STG_NO_VALUE ? 0.0F : values[args[1 + i]];
  }
  float sum = s * s * facts->squares;
  float magnitude = sum;
  for (size_t i = 0; i < n; i++) {
    if (t[i] == 0.0F) {
      continue;
    }
    float term = 2.0F * s * t[i] * facts->dots[i];
    sum += term;
    magnitude += fabsf(term);
    for (size_t j = 0; j <= i; j++) {
      term = (j == i ? 1.0F : 2.0F) * t[i] * t[j] * gram[i * n + j];
      sum += term;
      magnitude += fabsf(term);
    }
  }
  float floored = sum < 0.0F ? 0.0F : sum;
  /* also where infinite terms cancelled into NaN: the row itself has the true infinity */
  if (!(magnitude <= CANCELLATION_LIMIT * floored)) {
    return stg_cpu_combined_squares(s, facts->state, t, facts->vectors, n, facts->padded);
  }
  return floored;
}

/* One instruction of an operator, operands x, y, z. */
static float run_operator(enum stg_instr_kind kind, float x, float y, float z) {
  switch (kind) {
  case STG_INSTR_NEG:
    return -x;
  case STG_INSTR_ADD:
    return x + y;
  case STG_INSTR_SUB:
    return x - y;
  case STG_INSTR_MUL:
    return x * y;
  case STG_INSTR_DIV:
    return x / y;
  case STG_INSTR_FMA:
    return fmaf(x, y, z);
  case STG_INSTR_MIN:
    return min_of(x, y);
  case STG_INSTR_MAX:
    return max_of(x, y);
  case STG_INSTR_CLAMP:
    return clamp(x, y, z);
  case STG_INSTR_ABS:
    return fabsf(x);
  case STG_INSTR_SQRT:
    return sqrtf(x);
  case STG_INSTR_EXP:
    return stg_math_exp(x);
  case STG_INSTR_LOG:
    return stg_math_log(x);
  case STG_INSTR_TANH:
    return stg_math_tanh(x);
  case STG_INSTR_SIGMOID:
    return stg_math_sigmoid(x);
  case STG_INSTR_LT:
    return truth(x < y);
  case STG_INSTR_LE:
    return truth(x <= y);
  case STG_INSTR_GT:
    return truth(x > y);
  case STG_INSTR_GE:
    return truth(x >= y);
  case STG_INSTR_EQ:
    return truth(x == y);
  case STG_INSTR_NE:
    return truth(x != y);
  case STG_INSTR_NOT:
    return truth(x == 0.0F);
  case STG_INSTR_AND:
    return truth(x != 0.0F && y != 0.0F);
  case STG_INSTR_OR:
    return truth(x != 0.0F || y != 0.0F);
  case STG_INSTR_SELECT:
    return x != 0.0F ? y : z;
  case STG_INSTR_CONST:
  case STG_INSTR_PARAM:
  case STG_INSTR_DOT:
  case STG_INSTR_GRAM:
  case STG_INSTR_NORM2:
  case STG_INSTR_KINDS:
    break;
  }
  return 0.0F;
}

static float operand(const uint32_t *args, uint32_t n_args, uint32_t k, const float *values) {
  return k < n_args ? values[args[k]] : 0.0F;
}

static float run_instr(const struct stg_cpu_facts *facts, const struct stg_instr *instr,
                       const float *values) {
  const struct stg_cpu_chain *chain = facts->chain;
  const uint32_t *args = chain->program->args + instr->first_arg;
  if (instr->kind == STG_INSTR_CONST) {
    return instr->imm;
  }
  if (instr->kind == STG_INSTR_PARAM) {
    return chain->params[instr->i][instr->j];
  }
  if (instr->kind == STG_INSTR_DOT) {
    return facts->dots[instr->i];
  }
  if (instr->kind == STG_INSTR_GRAM) {
    return chain->gram[instr->i * chain->program->n_vectors + instr->j];
  }
  if (instr->kind == STG_INSTR_NORM2) {
    return squared_norm(facts, args, values);
  }
  return run_operator(instr->kind, operand(args, instr->n_args, 0, values),
                      operand(args, instr->n_args, 1, values),
                      operand(args, instr->n_args, 2, values));
}

void stg_cpu_interpret(const struct stg_cpu_facts *facts, float *ret_values) {
  const struct stg_program *program = facts->chain->program;
  for (uint32_t k = 0; k < program->n_instrs; k++) {
    ret_values[k] = run_instr(facts, &program->instrs[k], ret_values);
  }
}

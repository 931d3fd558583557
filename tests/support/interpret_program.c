/*
 * interpret_program.c: one switch over the instructions, in double.
 */
#include "tests/support/interpret_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double interpret_dot(const double *x, const double *y) {
  double sum = 0;
  for (size_t i = 0; i < INTERPRET_HIDDEN; i++) {
    sum += x[i] * y[i];
  }
  return sum;
}

static double operand(const struct stg_program *p, const struct stg_instr *instr,
                      const double *values, uint32_t k, double absent) {
  if (k >= instr->n_args) {
    return 0;
  }
  uint32_t arg = p->args[instr->first_arg + k];
  return arg == STG_NO_VALUE ? absent : values[arg];
}

/* |s*h0 + sum t_i v_i|^2 by the Gram formula. */
static double norm2(const struct interpret_row *row, const struct stg_program *p,
                    const struct stg_instr *instr, const double *values) {
  double scale = operand(p, instr, values, 0, 1);
  double sum = scale * scale * interpret_dot(row->h, row->h);
  for (uint32_t i = 0; i < p->n_vectors; i++) {
    double t = operand(p, instr, values, 1 + i, 0);
    sum += 2 * scale * t * interpret_dot(row->h, row->vectors[i]);
    for (uint32_t j = 0; j < p->n_vectors; j++) {
      sum +=
          t * operand(p, instr, values, 1 + j, 0) * interpret_dot(row->vectors[i], row->vectors[j]);
    }
  }
  return sum < 0 ? 0 : sum;
}

static double interpret(const struct interpret_row *row, const struct stg_program *p,
                        const struct stg_instr *instr, const double *values) {
  double x = operand(p, instr, values, 0, 1);
  double y = operand(p, instr, values, 1, 0);
  double z = operand(p, instr, values, 2, 0);
  switch (instr->kind) {
  case STG_INSTR_CONST:
    return (double)instr->imm;
  case STG_INSTR_PARAM:
    return (double)row->params[instr->i][instr->j];
  case STG_INSTR_DOT:
    return interpret_dot(row->h, row->vectors[instr->i]);
  case STG_INSTR_GRAM:
    return interpret_dot(row->vectors[instr->i], row->vectors[instr->j]);
  case STG_INSTR_NORM2:
    return norm2(row, p, instr, values);
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
    return fma(x, y, z);
  case STG_INSTR_MIN:
    return y < x ? y : x;
  case STG_INSTR_MAX:
    return y > x ? y : x;
  case STG_INSTR_CLAMP:
    return x < y ? y : x > z ? z : x;
  case STG_INSTR_ABS:
    return fabs(x);
  case STG_INSTR_SQRT:
    return sqrt(x);
  case STG_INSTR_EXP:
    return exp(x);
  case STG_INSTR_LOG:
    return log(x);
  case STG_INSTR_TANH:
    return tanh(x);
  case STG_INSTR_SIGMOID:
    return 1 / (1 + exp(-x));
  case STG_INSTR_LT:
    return x < y;
  case STG_INSTR_LE:
    return x <= y;
  case STG_INSTR_GT:
    return x > y;
  case STG_INSTR_GE:
    return x >= y;
  case STG_INSTR_EQ:
    return x == y;
  case STG_INSTR_NE:
    return x != y;
  case STG_INSTR_NOT:
    return x == 0;
  case STG_INSTR_AND:
    return x != 0 && y != 0;
  case STG_INSTR_OR:
    return x != 0 || y != 0;
  case STG_INSTR_SELECT:
    return x != 0 ? y : z;
  case STG_INSTR_KINDS:
    break;
  }
  abort();
}

static void add_scaled(double *y, double factor, const double *x) {
  for (size_t i = 0; i < INTERPRET_HIDDEN; i++) {
    y[i] += factor * x[i];
  }
}

void interpret_program(const struct stg_program *program, const struct interpret_row *row,
                       double ret_row[INTERPRET_HIDDEN]) {
  double *values = calloc((size_t)program->n_instrs + 1, sizeof *values);
  if (values == NULL) {
    abort();
  }
  for (uint32_t i = 0; i < program->n_instrs; i++) {
    values[i] = interpret(row, program, &program->instrs[i], values);
  }
  memset(ret_row, 0, INTERPRET_HIDDEN * sizeof *ret_row);
  add_scaled(ret_row, program->scale == STG_NO_VALUE ? 1 : values[program->scale], row->h);
  for (uint32_t i = 0; i < program->n_vectors; i++) {
    if (program->coef[i] != STG_NO_VALUE) {
      add_scaled(ret_row, values[program->coef[i]], row->vectors[i]);
    }
  }
  free(values);
}

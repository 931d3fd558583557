/*
 * program.c: the instruction table, the checker and the printer of scalar programs.
 *
 * Knows no op language and no target; what an instruction computes is said in program.h.
 */
#include "codegen/program.h"

#include "runtime/base/dtype.h"

/* Result types, as the table spells them. */
#define TYPE_s false
#define TYPE_b true

const char *stg_instr_name(enum stg_instr_kind kind) {
  static const char *const names[] = {
#define STG_INSTR_NAME(name, arity, type, text) [STG_INSTR_##name] = text,
      STG_INSTR_LIST(STG_INSTR_NAME)
#undef STG_INSTR_NAME
  };
  return names[kind];
}

int stg_instr_arity(enum stg_instr_kind kind) {
  static const signed char arities[] = {
#define STG_INSTR_ARITY(name, arity, type, text) [STG_INSTR_##name] = arity,
      STG_INSTR_LIST(STG_INSTR_ARITY)
#undef STG_INSTR_ARITY
  };
  return arities[kind];
}

bool stg_instr_is_bool(enum stg_instr_kind kind) {
  static const bool is_bool[] = {
#define STG_INSTR_IS_BOOL(name, arity, type, text) [STG_INSTR_##name] = TYPE_##type,
      STG_INSTR_LIST(STG_INSTR_IS_BOOL)
#undef STG_INSTR_IS_BOOL
  };
  return is_bool[kind];
}

/* The type that operand `arg` of an instruction must have. */
static bool operand_is_bool(enum stg_instr_kind kind, uint32_t arg) {
  return kind == STG_INSTR_NOT || kind == STG_INSTR_AND || kind == STG_INSTR_OR ||
         (kind == STG_INSTR_SELECT && arg == 0);
}

/* One broken rule at instruction `at`. */
static stg_status broken(const struct stg_program *program, uint32_t at, const char *rule,
                         stg_error *reterr) {
  return stg_error_set(reterr, STG_E_INVALID, "instruction %%%u (%s): %s", at,
                       stg_instr_name(program->instrs[at].kind), rule);
}

static stg_status check_operands(const struct stg_program *program, uint32_t at,
                                 stg_error *reterr) {
  const struct stg_instr *instr = &program->instrs[at];
  int arity = stg_instr_arity(instr->kind);
  uint32_t wanted = arity < 0 ? 1 + program->n_vectors : (uint32_t)arity;
  if (instr->n_args != wanted) {
    return broken(program, at, "wrong number of operands", reterr);
  }
  if (instr->first_arg > program->n_args || wanted > program->n_args - instr->first_arg) {
    return broken(program, at, "operands outside the list", reterr);
  }
  for (uint32_t i = 0; i < wanted; i++) {
    uint32_t arg = program->args[instr->first_arg + i];
    if (arg == STG_NO_VALUE && instr->kind == STG_INSTR_NORM2) {
      continue;
    }
    if (arg >= at) {
      return broken(program, at, "an operand is not defined before it", reterr);
    }
    if (stg_instr_is_bool(program->instrs[arg].kind) != operand_is_bool(instr->kind, i)) {
      return broken(program, at, "an operand has the wrong type", reterr);
    }
  }
  return STG_OK;
}

static stg_status check_immediates(const struct stg_program *program, uint32_t at,
                                   stg_error *reterr) {
  const struct stg_instr *instr = &program->instrs[at];
  if (instr->kind == STG_INSTR_CONST && instr->imm != instr->imm) {
    return broken(program, at, "the constant is NaN", reterr);
  }
  if (instr->kind == STG_INSTR_PARAM && instr->i >= program->n_ops) {
    return broken(program, at, "the op is outside the chain", reterr);
  }
  if ((instr->kind == STG_INSTR_DOT || instr->kind == STG_INSTR_GRAM) &&
      instr->i >= program->n_vectors) {
    return broken(program, at, "the vector is outside the chain", reterr);
  }
  if (instr->kind == STG_INSTR_GRAM && (instr->j >= program->n_vectors || instr->i > instr->j)) {
    return broken(program, at, "its vectors are outside the chain or out of order", reterr);
  }
  return STG_OK;
}

static stg_status check_output(const struct stg_program *program, const char *what, uint32_t index,
                               uint32_t value, stg_error *reterr) {
  if (value == STG_NO_VALUE) {
    return STG_OK;
  }
  if (value >= program->n_instrs || stg_instr_is_bool(program->instrs[value].kind)) {
    return stg_error_set(reterr, STG_E_INVALID, "output %s %u: %%%u is not a scalar value", what,
                         index, value);
  }
  return STG_OK;
}

stg_status stg_program_check(const struct stg_program *program, stg_error *reterr) {
  if (program->n_vectors > STG_CHAIN_MAX_VECTORS || program->n_ops > STG_CHAIN_MAX_OPS) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "a program of %u ops and %u vectors; at most %d and %d", program->n_ops,
                         program->n_vectors, STG_CHAIN_MAX_OPS, STG_CHAIN_MAX_VECTORS);
  }
  stg_status status = STG_OK;
  for (uint32_t at = 0; at < program->n_instrs && status == STG_OK; at++) {
    if ((unsigned)program->instrs[at].kind >= STG_INSTR_KINDS) {
      return stg_error_set(reterr, STG_E_INVALID, "instruction %%%u: unknown kind %u", at,
                           (unsigned)program->instrs[at].kind);
    }
    status = check_operands(program, at, reterr);
    if (status == STG_OK) {
      status = check_immediates(program, at, reterr);
    }
  }
  if (status == STG_OK) {
    status = check_output(program, "scale", 0, program->scale, reterr);
  }
  for (uint32_t i = 0; i < program->n_vectors && status == STG_OK; i++) {
    status = check_output(program, "coef", i, program->coef[i], reterr);
  }
  for (uint32_t i = 0; i < program->n_outputs && status == STG_OK; i++) {
    status = check_output(program, "column", i, program->outputs[i].column, reterr);
    if (status == STG_OK) {
      status = check_output(program, "cell", i, program->outputs[i].value, reterr);
    }
  }
  return status;
}

static void print_value(uint32_t value, const char *absent, struct stg_strbuf *out) {
  if (value == STG_NO_VALUE) {
    stg_strbuf_str(out, absent);
  } else {
    stg_strbuf_printf(out, "%%%u", value);
  }
}

static void print_instr(const struct stg_program *program, uint32_t at, struct stg_strbuf *out) {
  const struct stg_instr *instr = &program->instrs[at];
  stg_strbuf_printf(out, "%%%u = %s", at, stg_instr_name(instr->kind));
  if (instr->kind == STG_INSTR_CONST) {
    stg_strbuf_char(out, ' ');
    stg_strbuf_float(out, instr->imm);
    stg_strbuf_printf(out, " (0x%08x)", stg_f32_bits(instr->imm));
  } else if (instr->kind == STG_INSTR_DOT) {
    stg_strbuf_printf(out, " %u", instr->i);
  } else if (instr->kind == STG_INSTR_PARAM || instr->kind == STG_INSTR_GRAM) {
    stg_strbuf_printf(out, " %u, %u", instr->i, instr->j);
  }
  for (uint32_t i = 0; i < instr->n_args; i++) {
    stg_strbuf_str(out, i == 0 ? " " : ", ");
    print_value(program->args[instr->first_arg + i], i == 0 ? "1" : "0", out);
  }
  stg_strbuf_char(out, '\n');
}

void stg_program_print(const struct stg_program *program, struct stg_strbuf *out) {
  stg_strbuf_printf(out, "program of %u ops, %u vectors\n", program->n_ops, program->n_vectors);
  for (uint32_t at = 0; at < program->n_instrs; at++) {
    print_instr(program, at, out);
  }
  stg_strbuf_str(out, "scale = ");
  print_value(program->scale, "1", out);
  stg_strbuf_char(out, '\n');
  for (uint32_t i = 0; i < program->n_vectors; i++) {
    stg_strbuf_printf(out, "coef %u = ", i);
    print_value(program->coef[i], "0", out);
    stg_strbuf_char(out, '\n');
  }
  for (uint32_t i = 0; i < program->n_outputs; i++) {
    stg_strbuf_printf(out, "cell %%%u = %%%u\n", program->outputs[i].column,
                      program->outputs[i].value);
  }
}

/*
 * steer.c: the text of one steer kernel: its literal extents, its switch over ops, its entry point.
 *
 * What does not depend on the geometry is hand-written in prelude/. Op bodies are printed from
 * their scalar programs, one instruction a line; nothing of a user's text is pasted.
 */
#include "codegen/steer.h"

#include <assert.h>

#include "codegen/constants.h"
#include "codegen/prelude.h"
#include "codegen/steer_extents.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define WARP_THREADS 32

void stg_steer_prelude(struct stg_strbuf *out) {
  /* in the order in which they read */
  static const char *const stems[] = {
      "math", "args", "chunk", "chain",  "record",   "vectors",
      "row",  "dots", "tally", "update", "epilogue", "steer",
  };
  stg_prelude_append(stems, sizeof stems / sizeof stems[0], out);
}

/* An operand of NORM2: STG_NO_VALUE stands for `absent`. */
static void put_value(struct stg_strbuf *out, uint32_t value, const char *absent) {
  if (value == STG_NO_VALUE) {
    stg_strbuf_str(out, absent);
  } else {
    stg_strbuf_printf(out, "v%u", value);
  }
}

static void put_norm2(struct stg_strbuf *out, const uint32_t *args, uint32_t n_vectors) {
  stg_strbuf_str(out, "stg_norm2<stg_geometry>(run, ");
  put_value(out, args[0], "1.0f");
  for (uint32_t m = 0; m < STG_OP_MAX_VECTORS; m++) {
    stg_strbuf_str(out, ", ");
    put_value(out, m < n_vectors ? args[1 + m] : STG_NO_VALUE, "0.0f");
  }
  stg_strbuf_char(out, ')');
}

/* How a two-operand instruction is spelled between its operands; NULL when it is not infix. */
static const char *infix(enum stg_instr_kind kind) {
  static const struct {
    enum stg_instr_kind kind;
    const char *text;
  } table[] = {
      {STG_INSTR_ADD, "+"}, {STG_INSTR_SUB, "-"}, {STG_INSTR_MUL, "*"},  {STG_INSTR_DIV, "/"},
      {STG_INSTR_LT, "<"},  {STG_INSTR_LE, "<="}, {STG_INSTR_GT, ">"},   {STG_INSTR_GE, ">="},
      {STG_INSTR_EQ, "=="}, {STG_INSTR_NE, "!="}, {STG_INSTR_AND, "&&"}, {STG_INSTR_OR, "||"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (table[i].kind == kind) {
      return table[i].text;
    }
  }
  return NULL;
}

/* The name of the device function for the instructions that are calls. */
static const char *callee(enum stg_instr_kind kind) {
  static const struct {
    enum stg_instr_kind kind;
    const char *text;
  } table[] = {
      {STG_INSTR_FMA, "__fmaf_rn"},      {STG_INSTR_MIN, "stg_min"},
      {STG_INSTR_MAX, "stg_max"},        {STG_INSTR_CLAMP, "stg_clamp"},
      {STG_INSTR_ABS, "fabsf"},          {STG_INSTR_SQRT, "__fsqrt_rn"},
      {STG_INSTR_EXP, "stg_math_exp"},   {STG_INSTR_LOG, "stg_math_log"},
      {STG_INSTR_TANH, "stg_math_tanh"}, {STG_INSTR_SIGMOID, "stg_math_sigmoid"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (table[i].kind == kind) {
      return table[i].text;
    }
  }
  return NULL;
}

/* The right-hand side of one instruction. */
static void put_instr(struct stg_strbuf *out, const struct stg_program *program,
                      const struct stg_instr *in) {
  const uint32_t *arg = program->args + in->first_arg;
  if (in->kind == STG_INSTR_CONST) {
    stg_write_float_literal(out, in->imm);
  } else if (in->kind == STG_INSTR_PARAM) {
    stg_strbuf_printf(out, "stg_param(run, %u)", (unsigned)in->j);
  } else if (in->kind == STG_INSTR_DOT) {
    stg_strbuf_printf(out, "stg_dot(run, %u)", (unsigned)in->i);
  } else if (in->kind == STG_INSTR_GRAM) {
    stg_strbuf_printf(out, "stg_gram(run, %u, %u)", (unsigned)in->i, (unsigned)in->j);
  } else if (in->kind == STG_INSTR_NORM2) {
    put_norm2(out, arg, program->n_vectors);
  } else if (in->kind == STG_INSTR_NEG) {
    stg_strbuf_printf(out, "-v%u", arg[0]);
  } else if (in->kind == STG_INSTR_NOT) {
    stg_strbuf_printf(out, "!v%u", arg[0]);
  } else if (in->kind == STG_INSTR_SELECT) {
    stg_strbuf_printf(out, "v%u ? v%u : v%u", arg[0], arg[1], arg[2]);
  } else if (infix(in->kind) != NULL) {
    stg_strbuf_printf(out, "v%u %s v%u", arg[0], infix(in->kind), arg[1]);
  } else {
    stg_strbuf_printf(out, "%s(", callee(in->kind));
    for (uint32_t i = 0; i < in->n_args; i++) {
      stg_strbuf_printf(out, "%sv%u", i > 0 ? ", " : "", arg[i]);
    }
    stg_strbuf_char(out, ')');
  }
}

/* What a reader wants to know of an instruction beside its spelling. A built-in op's own names say
 * it best; `names` is NULL for a user's op. */
static void put_note(struct stg_strbuf *out, const struct stg_instr *in,
                     const struct stg_op *names) {
  stg_strbuf_str(out, stg_instr_name(in->kind));
  if (in->kind == STG_INSTR_CONST) {
    stg_strbuf_char(out, ' ');
    stg_strbuf_float(out, in->imm);
  } else if (in->kind == STG_INSTR_PARAM && names != NULL) {
    stg_strbuf_printf(out, " %s", names->params[in->j].name);
  } else if (in->kind == STG_INSTR_DOT && names != NULL) {
    stg_strbuf_printf(out, " h %s", names->vector_names[in->i]);
  }
}

static void write_instrs(struct stg_writer *w, const struct stg_program *program,
                         const struct stg_op *names) {
  for (uint32_t k = 0; k < program->n_instrs; k++) {
    const struct stg_instr *in = &program->instrs[k];
    struct stg_strbuf line = {0};
    stg_strbuf_printf(&line, "const %s v%u = ", stg_instr_is_bool(in->kind) ? "bool" : "float", k);
    put_instr(&line, program, in);
    stg_strbuf_char(&line, ';');
    stg_begin_note(&line);
    put_note(&line, in, names);
    stg_write_buffer(w, &line);
  }
}

/* case CODE: the op's program, then what it does to the state. */
static void write_op(struct stg_writer *w, const struct stg_op *op) {
  const struct stg_program *program = &op->program;
  const bool builtin = op->code < 0x80000000u;
  stg_write_open(w, "case 0x%08xu:", op->code);
  /* a user's name is not part of the text: equal bodies must give equal kernels */
  stg_write_line(w, "// %s", builtin ? op->name : "user-defined");
  write_instrs(w, program, builtin ? op : NULL);
  if (program->scale != STG_NO_VALUE) {
    stg_write_line(w, "stg_scale(run, v%u);", program->scale);
  }
  for (uint32_t m = 0; m < program->n_vectors; m++) {
    if (program->coef[m] != STG_NO_VALUE) {
      stg_write_line(w, "stg_add(run, %u, v%u);", m, program->coef[m]);
    }
  }
  for (uint32_t i = 0; i < program->n_outputs; i++) {
    stg_write_line(w, "stg_give(run, v%u, v%u);", program->outputs[i].column,
                   program->outputs[i].value);
  }
  stg_write_line(w, "break;");
  stg_write_close(w, "");
}

static void write_constants(struct stg_writer *w, const struct stg_steer_geometry *g) {
  const struct stg_steer_extents e = stg_steer_extents_of(g);
  const int64_t tail = g->hidden_size % STG_CHUNK_ELEMS;
  stg_write_line(w, "typedef %s data;", stg_device_type(g->dtype));
  stg_write_line(w, "typedef %s bank;", stg_device_type(g->bank_dtype));
  stg_write_bool(w, "pair", g->pair, "state = hidden + residual");
  stg_write_bool(w, "epilogue", g->epilogue, "add_rmsnorm");
  stg_write_bool(w, "windows", g->windows, "records act on some positions alone");
  stg_write_bool(w, "probes", g->probes, "ops give scalars out");
  stg_write_bool(w, "counters", g->counters, "rows are counted by slot");
  stg_write_int(w, "hidden", g->hidden_size, "elements of a row");
  stg_write_int(w, "padded", stg_steer_padded(g->hidden_size), "elements of a bank vector");
  stg_write_int(w, "chunks", e.chunks, "of 8 elements");
  stg_write_int(w, "tail", tail, "elements of the last chunk, 0: whole");
  stg_write_int(w, "row_threads", e.row_threads, "whose sums a row's are");
  stg_write_int(w, "row_warps", e.row_threads / WARP_THREADS, "that they are");
  stg_write_int(w, "threads", e.threads, "of a block");
  stg_write_int(w, "warps", e.threads / WARP_THREADS, "that they are");
  stg_write_int(w, "turns", g->turns, "in which a thread goes through a row");
  stg_write_int(w, "chunks_per_turn", e.chunks_per_turn, "of one row");
  stg_write_int(w, "chunks_per_thread", g->turns * e.chunks_per_turn, "of one row");
  stg_write_bool(w, "held", e.held, "rows stay in registers");
  stg_write_bool(w, "weight_staged", e.weight_bytes != 0,
                 "an epilogue's weight is in shared memory");
}

static void write_kernel(struct stg_writer *w, const struct stg_steer_geometry *g) {
  stg_write_blank(w);
  stg_write_line(w, "// steer: hidden [rows, %lld] %s, bank [vectors, %lld] %s, state %s",
                 (long long)g->hidden_size, stg_dtype_name(g->dtype),
                 (long long)stg_steer_padded(g->hidden_size), stg_dtype_name(g->bank_dtype),
                 g->pair ? "hidden+residual" : "hidden");
  if (g->epilogue) {
    stg_write_line(w, "// epilogue add_rmsnorm");
  }
  stg_write_open(w, "struct stg_geometry");
  write_constants(w, g);
  stg_write_blank(w);
  stg_write_line(w, "// h = scale*h + sum t_m v_m, for the op that a record names by `code`");
  stg_write_open(w, "static __device__ __forceinline__ void run_op(unsigned code, "
                    "stg_chain_run &run)");
  stg_write_open(w, "switch (code)");
  for (size_t i = 0; i < g->n_ops; i++) {
    write_op(w, g->ops[i]);
  }
  stg_write_close(w, "");
  stg_write_close(w, "");
  stg_write_close(w, ";");
  stg_write_blank(w);
  const struct stg_steer_extents e = stg_steer_extents_of(g);
  stg_write_line(w, "extern \"C\" __global__ void __launch_bounds__(%u, %u)", e.threads,
                 e.resident_blocks);
  stg_write_open(w, STG_STEER_KERNEL_NAME "(const __grid_constant__ stg_steer_args args)");
  stg_write_line(w, "stg_steer_run<stg_geometry>(args);");
  stg_write_close(w, "");
}

static stg_status refuse_dtype(const char *what, stg_dtype dtype, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_INVALID, "%s: %d is none of bf16 (1), f16 (2), f32 (3)", what,
                       (int)dtype);
}

static stg_status check_geometry(const struct stg_steer_geometry *g, stg_error *reterr) {
  if (g->hidden_size < 1 || g->hidden_size > STG_STEER_MAX_HIDDEN) {
    return stg_error_set(reterr, STG_E_INVALID, "hidden_size: %lld is not in 1..%lld",
                         (long long)g->hidden_size, (long long)STG_STEER_MAX_HIDDEN);
  }
  if (stg_dtype_bytes(g->dtype) == 0) {
    return refuse_dtype("dtype", g->dtype, reterr);
  }
  if (stg_dtype_bytes(g->bank_dtype) == 0) {
    return refuse_dtype("bank_dtype", g->bank_dtype, reterr);
  }
  if (g->epilogue && !g->pair) {
    return stg_error_set(reterr, STG_E_INVALID, "epilogue: it needs the state hidden+residual");
  }
  for (size_t i = 0; i < g->n_ops; i++) {
    if (g->ops[i]->has_output && !g->probes) {
      return stg_error_set(reterr, STG_E_INVALID, "ops[%zu]: '%s' gives an output without probes",
                           i, g->ops[i]->name);
    }
  }
  if (g->turns < 1 || g->turns > STG_MAX_TURNS || !stg_is_pow2(g->turns)) {
    return stg_error_set(reterr, STG_E_INVALID, "turns: %u is not a power of two up to %d",
                         g->turns, STG_MAX_TURNS);
  }
  if (g->n_ops == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "ops: none; a kernel needs at least one");
  }
  for (size_t i = 1; i < g->n_ops; i++) {
    assert(stg_op_compare(&g->ops[i - 1], &g->ops[i]) < 0);
  }
  return STG_OK;
}

static struct stg_launch_rule rule_of(const struct stg_steer_geometry *g) {
  const struct stg_steer_extents e = stg_steer_extents_of(g);
  return (struct stg_launch_rule){
      .threads = e.threads,
      .rows_per_block = 1,
      .resident_blocks = e.resident_blocks,
      .stage_bytes = (uint32_t)(e.weight_bytes + e.staged_vectors * e.vector_bytes),
      .wide_stage_bytes = (uint32_t)(e.weight_bytes + e.wide_staged_vectors * e.vector_bytes),
      .staged = (uint32_t)e.staged_vectors,
      .wide_staged = (uint32_t)e.wide_staged_vectors,
  };
}

stg_status stg_steer_generate(const struct stg_steer_geometry *geometry,
                              struct stg_strbuf *ret_source, struct stg_launch_rule *ret_rule,
                              stg_error *reterr) {
  stg_status status = check_geometry(geometry, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_writer w = {.out = ret_source};
  write_kernel(&w, geometry);
  status = stg_strbuf_status(ret_source, reterr);
  if (status == STG_OK) {
    *ret_rule = rule_of(geometry);
  }
  return status;
}

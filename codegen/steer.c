/*
 * steer.c: the text of one steer kernel: its literal extents, its switch over ops, its entry point.
 *
 * What does not depend on the geometry is hand-written in prelude/steer.cuh. Op bodies are printed
 * from their scalar programs, one instruction a line; nothing of a user's text is pasted.
 */
#include "codegen/steer.h"

#include <assert.h>

#include "codegen/writer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/embedded.h"
#include "runtime/base/intmath.h"

extern const struct stg_embedded_file stg_embedded_prelude[];
extern const size_t stg_embedded_prelude_count;

#define CHUNK_ELEMS 8
#define WARP_THREADS 32
#define MAX_THREADS 512
#define TARGET_CHUNKS_PER_THREAD 2
#define MAX_TILE_ROWS 8
/* Registers that the rows of a tile may take of each thread: more rows share a vector's loads,
 * fewer leave room for more blocks. Measured on an H100: tools/bench/results. */
#define TILE_REGISTERS 16
#define TILE_REGISTERS_PAIR 32
/* A row of up to this many registers stays in them; a longer one is read twice. */
#define HELD_REGISTERS 64
/* Threads that a multiprocessor is to hold at once: 1024 leave each 64 registers, 512 leave 128. */
#define RESIDENT_THREADS 1024
#define RESIDENT_THREADS_WIDE 512
/* Layout of the text: where comments begin, and how far the second line of run_op's head goes. */
#define NOTE_COLUMN 48
#define RUN_OP_INDENT 46

void stg_steer_prelude(struct stg_strbuf *out) {
  for (size_t i = 0; i < stg_embedded_prelude_count; i++) {
    stg_strbuf_mem(out, stg_embedded_prelude[i].text, stg_embedded_prelude[i].len);
  }
}

static int64_t chunks_of(int64_t hidden_size) {
  return (hidden_size + CHUNK_ELEMS - 1) / CHUNK_ELEMS;
}

int64_t stg_steer_padded(int64_t hidden_size) {
  return chunks_of(hidden_size) * CHUNK_ELEMS;
}

uint32_t stg_steer_threads(int64_t hidden_size) {
  size_t wanted = stg_ceil_div((size_t)chunks_of(hidden_size), TARGET_CHUNKS_PER_THREAD);
  size_t threads = stg_round_up(wanted, WARP_THREADS);
  return threads > MAX_THREADS ? MAX_THREADS : (uint32_t)threads;
}

static int64_t chunks_per_thread(int64_t hidden_size) {
  uint32_t threads = stg_steer_threads(hidden_size);
  return (chunks_of(hidden_size) + threads - 1) / threads;
}

/* Registers of one thread for one row of the tile. */
static int64_t registers_per_row(int64_t hidden_size, stg_dtype dtype, bool pair) {
  int64_t per_chunk = (int64_t)(CHUNK_ELEMS * stg_dtype_bytes(dtype) / 4);
  return chunks_per_thread(hidden_size) * per_chunk * (pair ? 2 : 1);
}

uint32_t stg_steer_prefill_rows(int64_t hidden_size, stg_dtype dtype, bool pair) {
  int64_t per_row = registers_per_row(hidden_size, dtype, pair);
  uint32_t rows = 1;
  const int64_t room = pair ? TILE_REGISTERS_PAIR : TILE_REGISTERS;
  while (rows < MAX_TILE_ROWS && 2 * (int64_t)rows * per_row <= room) {
    rows *= 2;
  }
  return rows;
}

static const char *device_type(stg_dtype dtype) {
  return dtype == STG_BF16 ? "stg_bf16" : dtype == STG_F16 ? "stg_f16" : "stg_f32";
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

/* Begin a comment behind a line, in a column of its own where the line leaves room. */
static void begin_note(struct stg_strbuf *line) {
  do {
    stg_strbuf_char(line, ' ');
  } while (line->len < NOTE_COLUMN && !line->failed);
  stg_strbuf_str(line, "// ");
}

/* Write a line that was put together in a buffer, and finish the buffer. */
static void write_buffer(struct stg_writer *w, struct stg_strbuf *line) {
  stg_write_line(w, "%s", stg_strbuf_text(line));
  w->out->failed = w->out->failed || line->failed;
  stg_strbuf_finish(line);
}

static void write_instrs(struct stg_writer *w, const struct stg_program *program,
                         const struct stg_op *names) {
  for (uint32_t k = 0; k < program->n_instrs; k++) {
    const struct stg_instr *in = &program->instrs[k];
    struct stg_strbuf line = {0};
    stg_strbuf_printf(&line, "const %s v%u = ", stg_instr_is_bool(in->kind) ? "bool" : "float", k);
    put_instr(&line, program, in);
    stg_strbuf_char(&line, ';');
    begin_note(&line);
    put_note(&line, in, names);
    write_buffer(w, &line);
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
    stg_write_line(w, "edit.scales = true;");
    stg_write_line(w, "edit.scale = v%u;", program->scale);
  }
  uint32_t edited = 0;
  for (uint32_t m = 0; m < program->n_vectors; m++) {
    if (program->coef[m] != STG_NO_VALUE) {
      stg_write_line(w, "edit.t[%u] = v%u;", m, program->coef[m]);
      edited |= 1u << m;
    }
  }
  stg_write_line(w, "edit.mask = 0x%xu;", edited);
  stg_write_line(w, "break;");
  stg_write_close(w, "");
}

static void write_int(struct stg_writer *w, const char *name, int64_t value, const char *note) {
  struct stg_strbuf line = {0};
  stg_strbuf_printf(&line, "static constexpr int %s = %lld;", name, (long long)value);
  begin_note(&line);
  stg_strbuf_str(&line, note);
  write_buffer(w, &line);
}

static void write_bool(struct stg_writer *w, const char *name, bool value, const char *note) {
  struct stg_strbuf line = {0};
  stg_strbuf_printf(&line, "static constexpr bool %s = %s;", name, value ? "true" : "false");
  begin_note(&line);
  stg_strbuf_str(&line, note);
  write_buffer(w, &line);
}

/* Vectors whose loads a thread has in flight: many for one row, whose sums are few. */
static int vector_group(uint32_t tile_rows) {
  return tile_rows == 1 ? 4 : tile_rows == 2 ? 2 : 1;
}

static void write_constants(struct stg_writer *w, const struct stg_steer_geometry *g) {
  const int64_t hidden = g->hidden_size;
  const int64_t per_thread = chunks_per_thread(hidden);
  const bool held = g->tile_rows * registers_per_row(hidden, g->dtype, g->pair) <= HELD_REGISTERS;
  stg_write_line(w, "typedef %s data;", device_type(g->dtype));
  stg_write_line(w, "typedef %s bank;", device_type(g->bank_dtype));
  write_bool(w, "pair", g->pair, "state = hidden + residual");
  write_int(w, "hidden", hidden, "elements of a row");
  write_int(w, "padded", stg_steer_padded(hidden), "elements of a bank vector");
  write_int(w, "chunks", chunks_of(hidden), "of 8 elements");
  write_int(w, "tail", hidden % CHUNK_ELEMS, "elements of the last chunk, 0: whole");
  write_int(w, "threads", stg_steer_threads(hidden), "that share every row");
  write_int(w, "rows", g->tile_rows, "of the tile");
  write_int(w, "chunks_per_thread", per_thread, "of one row");
  write_bool(w, "held", held, "rows stay in registers");
  write_int(w, "group", vector_group(g->tile_rows), "vectors loaded together");
  write_int(w, "unroll_chunks", held ? per_thread : 1, "of the loops over a row");
}

/* Blocks that a multiprocessor is to hold: rows that take many registers leave room for fewer. */
static uint32_t resident_blocks(const struct stg_steer_geometry *g, uint32_t threads) {
  const int64_t held = g->tile_rows * registers_per_row(g->hidden_size, g->dtype, g->pair);
  const uint32_t resident = held > TILE_REGISTERS ? RESIDENT_THREADS_WIDE : RESIDENT_THREADS;
  return resident / threads > 0 ? resident / threads : 1;
}

static void write_kernel(struct stg_writer *w, const struct stg_steer_geometry *g) {
  stg_write_blank(w);
  stg_write_line(w, "// steer: hidden [rows, %lld] %s, bank [vectors, %lld] %s, state %s",
                 (long long)g->hidden_size, stg_dtype_name(g->dtype),
                 (long long)stg_steer_padded(g->hidden_size), stg_dtype_name(g->bank_dtype),
                 g->pair ? "hidden+residual" : "hidden");
  stg_write_open(w, "struct stg_geometry");
  write_constants(w, g);
  stg_write_blank(w);
  stg_write_line(w, "// h = scale*h + sum t_m v_m, for the op that a record names by `code`");
  stg_write_line(w, "static __device__ __forceinline__ void run_op(unsigned code, "
                    "const stg_chain_run &run,");
  stg_write_open(w, "%*sstg_edit &edit)", RUN_OP_INDENT, "");
  stg_write_open(w, "switch (code)");
  for (size_t i = 0; i < g->n_ops; i++) {
    write_op(w, g->ops[i]);
  }
  stg_write_close(w, "");
  stg_write_close(w, "");
  stg_write_close(w, ";");
  stg_write_blank(w);
  const uint32_t threads = stg_steer_threads(g->hidden_size);
  stg_write_line(w, "extern \"C\" __global__ void __launch_bounds__(%u, %u)", threads,
                 resident_blocks(g, threads));
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
  if (g->tile_rows < 1 || g->tile_rows > MAX_TILE_ROWS || !stg_is_pow2(g->tile_rows)) {
    return stg_error_set(reterr, STG_E_INVALID, "tile_rows: %u is not a power of two up to %d",
                         g->tile_rows, MAX_TILE_ROWS);
  }
  if (g->n_ops == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "ops: none; a kernel needs at least one");
  }
  for (size_t i = 1; i < g->n_ops; i++) {
    assert(stg_op_compare(&g->ops[i - 1], &g->ops[i]) < 0);
  }
  return STG_OK;
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
    *ret_rule = (struct stg_launch_rule){
        .threads = stg_steer_threads(geometry->hidden_size),
        .rows_per_block = geometry->tile_rows,
    };
  }
  return status;
}

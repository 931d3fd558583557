/*
 * rope_text.c: see rope_text.h.
 *
 * A text is a struct of literal extents and an entry point; what they steer is hand-written in
 * prelude/. It must not know of frequencies, strides or caches, which are arguments.
 */
#include "codegen/rope_text.h"

#include "codegen/constants.h"
#include "codegen/prelude.h"
#include "codegen/rope_args.h"
#include "codegen/rope_extents.h"
#include "runtime/base/dtype.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Files of the prelude in the order in which they read. */
static const char *const rotate_stems[] = {"math",      "angle",  "warp", "chunk", "rows",
                                           "rope_args", "pieces", "turn", "rope"};
static const char *const transpose_stems[] = {"warp", "chunk", "heads"};
static const char *const advance_stems[] = {"warp", "chunk", "rows", "advance"};

static const struct {
  const char *name, *args;
  size_t args_bytes;
  const char *const *stems;
  size_t n_stems;
} works[] = {
    [STG_ROPE_ROTATE] = {"stg_rope_rotate", "stg_rope_args", sizeof(struct stg_rope_args),
                         rotate_stems, COUNT(rotate_stems)},
    [STG_ROPE_TRANSPOSE] = {"stg_rope_transpose", "stg_transpose_args",
                            sizeof(struct stg_transpose_args), transpose_stems,
                            COUNT(transpose_stems)},
    [STG_ROPE_ADVANCE] = {"stg_rope_advance", "stg_advance_args", sizeof(struct stg_advance_args),
                          advance_stems, COUNT(advance_stems)},
};

const char *stg_rope_kernel_name(enum stg_rope_work work) {
  return works[work].name;
}

size_t stg_rope_args_bytes(enum stg_rope_work work) {
  return works[work].args_bytes;
}

void stg_rope_prelude(enum stg_rope_work work, struct stg_strbuf *out) {
  stg_prelude_append(works[work].stems, works[work].n_stems, out);
}

/* ---- checks ---- */

static stg_status check_dim(const struct stg_rope_geometry *g, stg_error *reterr) {
  if (g->dim < 2 || g->dim > STG_ROPE_MAX_DIM || g->dim % 2 != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dim: %u is not even and in 2..%u", g->dim,
                         STG_ROPE_MAX_DIM);
  }
  if (stg_dtype_bytes(g->dtype) == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dtype: %d is none of bf16 (1), f16 (2), f32 (3)",
                         (int)g->dtype);
  }
  return STG_OK;
}

static stg_status check_rotation(const struct stg_rope_kernel *kernel, stg_error *reterr) {
  const struct stg_rope_geometry *g = &kernel->geometry;
  stg_status status = check_dim(g, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (g->heads < 1 || g->heads > STG_ROPE_MAX_HEADS) {
    return stg_error_set(reterr, STG_E_INVALID, "heads: %u is not in 1..%u", g->heads,
                         STG_ROPE_MAX_HEADS);
  }
  if (g->kv_heads < 1 || g->heads % g->kv_heads != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "kv_heads: %u does not divide the %u heads",
                         g->kv_heads, g->heads);
  }
  if (g->rot < 2 || g->rot > g->dim || g->rot % 2 != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "rot: %u is not even and in 2..%u, the dim", g->rot,
                         g->dim);
  }
  if (g->layout == STG_ROPE_LAYOUT_INTERLEAVED && g->kv_heads != g->heads) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "layout: interleaved needs as many KV heads as heads, not %u and %u",
                         g->kv_heads, g->heads);
  }
  if (kernel->backward && kernel->sink != STG_ROPE_SINK_OUT) {
    return stg_error_set(reterr, STG_E_INVALID, "backward: gradients do not go to a cache");
  }
  return STG_OK;
}

/* ---- text ---- */

static const char *layout_name(enum stg_rope_layout layout) {
  static const char *const names[] = {
      [STG_ROPE_LAYOUT_CONCAT] = "concat",
      [STG_ROPE_LAYOUT_INTERLEAVED] = "interleaved",
      [STG_ROPE_LAYOUT_GROUPED] = "grouped",
      [STG_ROPE_LAYOUT_HEAD_FASTEST] = "head_fastest",
  };
  return names[layout];
}

static const char *sink_name(enum stg_rope_sink sink) {
  return sink == STG_ROPE_SINK_DENSE   ? "a cache"
         : sink == STG_ROPE_SINK_PAGED ? "a cache of blocks"
                                       : "tensors";
}

static void write_layout(struct stg_writer *w, enum stg_rope_layout layout) {
  struct stg_strbuf line = {0};
  stg_strbuf_printf(&line, "static constexpr int layout = %s;",
                    layout == STG_ROPE_LAYOUT_GROUPED        ? "STG_GROUPED"
                    : layout == STG_ROPE_LAYOUT_HEAD_FASTEST ? "STG_HEAD_FASTEST"
                                                             : "STG_CONCAT");
  stg_begin_note(&line);
  stg_strbuf_str(&line, "of a packed row");
  stg_write_buffer(w, &line);
}

/* What the angles are rounded to. */
static stg_dtype trig_dtype(const struct stg_rope_geometry *g) {
  return g->trig == STG_ROPE_TRIG_F32     ? STG_F32
         : g->trig == STG_ROPE_TRIG_DTYPE ? g->dtype
                                          : STG_BF16;
}

static void write_rotation(struct stg_writer *w, const struct stg_rope_kernel *kernel) {
  const struct stg_rope_geometry *g = &kernel->geometry;
  const struct stg_rope_extents e = stg_rope_extents_of(g);
  const bool half = g->pairs == STG_ROPE_PAIRS_HALF;
  stg_write_line(w, "typedef %s data;", stg_device_type(g->dtype));
  stg_write_line(w, "typedef %s trig;", stg_device_type(trig_dtype(g)));
  stg_write_int(w, "heads", g->heads, "of Q");
  stg_write_int(w, "kv_heads", g->kv_heads, "of K, and of V");
  stg_write_int(w, "dim", g->dim, "elements of a head");
  stg_write_int(w, "rot", g->rot, "of these are turned");
  write_layout(w, g->layout);
  stg_write_bool(w, "heads_first", g->order == STG_HEADS_HEADS_FIRST, "in tensors of heads");
  stg_write_bool(w, "half", half, "pairs half a head apart, not neighbours");
  stg_write_bool(w, "each_op", g->round == STG_ROPE_ROUND_EACH_OP, "products are rounded");
  stg_write_bool(w, "swapped", g->trig == STG_ROPE_TRIG_SWAPPED_BF16, "sine for cosine");
  stg_write_bool(w, "xpos", g->xpos != STG_ROPE_XPOS_NONE, "with a scale by position");
  stg_write_bool(w, "scale_by_element", g->xpos == STG_ROPE_XPOS_HALVES && !half, "not by pair");
  stg_write_bool(w, "table", kernel->table, "angles are read");
  stg_write_bool(w, "backward", kernel->backward, "gradients");
  stg_write_bool(w, "cached", kernel->sink != STG_ROPE_SINK_OUT, "K and V are appended");
  stg_write_bool(w, "paged", kernel->sink == STG_ROPE_SINK_PAGED, "by blocks");
  stg_write_bool(w, "wide", e.wide, "a piece is 16 bytes, not one element");
  stg_write_int(w, "units", e.units, "of two pieces in a head");
  stg_write_int(w, "turned_units", e.turned_units, "of these are turned");
  stg_write_int(w, "items", e.items, "units of a row");
  stg_write_int(w, "threads", e.threads, "of a block");
  stg_write_int(w, "turns", e.turns, "items of a thread at most");
}

static void write_transpose(struct stg_writer *w, const struct stg_rope_kernel *kernel) {
  const struct stg_rope_geometry *g = &kernel->geometry;
  stg_write_line(w, "typedef %s::element element;", stg_device_type(g->dtype));
  stg_write_int(w, "dim", g->dim, "elements of a head");
  stg_write_int(w, "threads", STG_TRANSPOSE_THREADS, "of a block");
  stg_write_int(w, "turns", STG_TRANSPOSE_TURNS, "units of a thread on their way");
}

static void write_geometry(struct stg_writer *w, const struct stg_rope_kernel *kernel) {
  const struct stg_rope_geometry *g = &kernel->geometry;
  stg_write_blank(w);
  if (kernel->work == STG_ROPE_ADVANCE) {
    stg_write_line(w, "// rope: lengths of a cache at the end of a step");
    return;
  }
  if (kernel->work == STG_ROPE_TRANSPOSE) {
    stg_write_line(w, "// rope: heads of %u %s from one order to the other", g->dim,
                   stg_dtype_name(g->dtype));
  } else {
    stg_write_line(w, "// rope: packed rows of %u and twice %u heads of %u %s, %s", g->heads,
                   g->kv_heads, g->dim, stg_dtype_name(g->dtype), layout_name(g->layout));
    if (kernel->backward) {
      stg_write_line(w, "// gradients of Q, K and V in");
    } else {
      stg_write_line(w, "// K and V to %s", sink_name(kernel->sink));
    }
  }
  stg_write_open(w, "struct stg_geometry");
  if (kernel->work == STG_ROPE_TRANSPOSE) {
    write_transpose(w, kernel);
  } else {
    write_rotation(w, kernel);
  }
  stg_write_close(w, ";");
  stg_write_blank(w);
}

static void write_entry(struct stg_writer *w, const struct stg_rope_kernel *kernel,
                        const struct stg_launch_rule *rule) {
  static const char *const runs[] = {
      [STG_ROPE_ROTATE] = "stg_rope_run<stg_geometry>",
      [STG_ROPE_TRANSPOSE] = "stg_transpose_run<stg_geometry>",
      [STG_ROPE_ADVANCE] = "stg_advance_run",
  };
  stg_write_line(w, "extern \"C\" __global__ void __launch_bounds__(%u, %u)", rule->threads,
                 rule->resident_blocks);
  stg_write_open(w, "%s(const __grid_constant__ %s args)", works[kernel->work].name,
                 works[kernel->work].args);
  stg_write_line(w, "%s(args);", runs[kernel->work]);
  stg_write_close(w, "");
}

static struct stg_launch_rule rule_of(const struct stg_rope_kernel *kernel) {
  if (kernel->work == STG_ROPE_TRANSPOSE) {
    return (struct stg_launch_rule){.threads = STG_TRANSPOSE_THREADS,
                                    .rows_per_block = 1,
                                    .resident_blocks = STG_TRANSPOSE_RESIDENT};
  }
  if (kernel->work == STG_ROPE_ADVANCE) {
    return (struct stg_launch_rule){.threads = STG_ADVANCE_THREADS,
                                    .rows_per_block = STG_ADVANCE_THREADS,
                                    .resident_blocks = 1};
  }
  const struct stg_rope_extents e = stg_rope_extents_of(&kernel->geometry);
  return (struct stg_launch_rule){
      .threads = e.threads, .rows_per_block = 1, .resident_blocks = e.resident_blocks};
}

stg_status stg_rope_generate(const struct stg_rope_kernel *kernel, struct stg_strbuf *ret_source,
                             struct stg_launch_rule *ret_rule, stg_error *reterr) {
  stg_status status = STG_OK;
  if (kernel->work == STG_ROPE_ROTATE) {
    status = check_rotation(kernel, reterr);
  } else if (kernel->work == STG_ROPE_TRANSPOSE) {
    status = check_dim(&kernel->geometry, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const struct stg_launch_rule rule = rule_of(kernel);
  struct stg_writer w = {.out = ret_source};
  write_geometry(&w, kernel);
  write_entry(&w, kernel, &rule);
  status = stg_strbuf_status(ret_source, reterr);
  if (status == STG_OK) {
    *ret_rule = rule;
  }
  return status;
}

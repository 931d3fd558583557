/*
 * components_text.c: see components_text.h.
 *
 * A text is a struct of literal extents and an entry point; what they steer is hand-written in
 * prelude/. It must not know of strides, shares or padding, which are arguments.
 */
#include "codegen/components_text.h"

#include "codegen/components_args.h"
#include "codegen/components_extents.h"
#include "codegen/constants.h"
#include "codegen/prelude.h"
#include "runtime/base/dtype.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Files of the prelude in the order in which they read. */
static const char *const apply_stems[] = {"warp",
                                          "chunk",
                                          "copies",
                                          "mma",
                                          "tile16",
                                          "words16",
                                          "tile32",
                                          "components_mask",
                                          "components_args",
                                          "components_layout",
                                          "components_bring",
                                          "components_out",
                                          "components_apply"};
static const char *const weights_stems[] = {"warp",
                                            "chunk",
                                            "copies",
                                            "mma",
                                            "tile16",
                                            "words16",
                                            "tile32",
                                            "strips16",
                                            "strips32",
                                            "components_mask",
                                            "components_spans",
                                            "components_span",
                                            "components_groups",
                                            "components_weights"};
static const char *const sum_stems[] = {"warp", "chunk", "pieces", "components_spans",
                                        "components_sum"};

static const struct {
  const char *name, *args, *run;
  size_t args_bytes;
  const char *const *stems;
  size_t n_stems;
} works[] = {
    [STG_COMPONENTS_APPLY] = {"stg_components_apply", "stg_components_apply_args",
                              "stg_components_apply_run", sizeof(struct stg_components_apply_args),
                              apply_stems, COUNT(apply_stems)},
    [STG_COMPONENTS_WEIGHTS] = {"stg_components_weights", "stg_components_weights_args",
                                "stg_components_weights_run",
                                sizeof(struct stg_components_weights_args), weights_stems,
                                COUNT(weights_stems)},
    [STG_COMPONENTS_SUM] = {"stg_components_sum", "stg_components_sum_args",
                            "stg_components_sum_run", sizeof(struct stg_components_sum_args),
                            sum_stems, COUNT(sum_stems)},
};

const char *stg_components_kernel_name(enum stg_components_work work) {
  return works[work].name;
}

size_t stg_components_args_bytes(enum stg_components_work work) {
  return works[work].args_bytes;
}

void stg_components_prelude(enum stg_components_work work, struct stg_strbuf *out) {
  stg_prelude_append(works[work].stems, works[work].n_stems, out);
}

/* ---- checks ---- */

static stg_status check_size(const char *name, uint32_t size, uint32_t most, stg_error *reterr) {
  if (size < 1 || size > most) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: %u is not in 1..%u", name, size, most);
  }
  return STG_OK;
}

static stg_status check_sizes(const struct stg_components_geometry *g, stg_error *reterr) {
  stg_status status = check_size("d_in", g->d_in, STG_COMPONENTS_MAX_WIDTH, reterr);
  if (status == STG_OK) {
    status = check_size("d_out", g->d_out, STG_COMPONENTS_MAX_WIDTH, reterr);
  }
  if (status == STG_OK) {
    status = check_size("components", g->components, STG_COMPONENTS_MAX_COMPONENTS, reterr);
  }
  return status;
}

static stg_status check_types(const struct stg_components_geometry *g, stg_error *reterr) {
  if (stg_dtype_bytes(g->dtype) == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dtype: %d is none of bf16 (1), f16 (2), f32 (3)",
                         (int)g->dtype);
  }
  if (g->tf32 && g->dtype != STG_F32) {
    return stg_error_set(reterr, STG_E_INVALID, "tf32: needs float32, not %s",
                         stg_dtype_name(g->dtype));
  }
  return STG_OK;
}

bool stg_components_has_room(const struct stg_components_kernel *kernel) {
  switch (kernel->work) {
  case STG_COMPONENTS_APPLY:
    return stg_components_extents_of(kernel).tile != 0;
  case STG_COMPONENTS_WEIGHTS:
    return stg_components_weights_extents_of(kernel).tile != 0;
  case STG_COMPONENTS_SUM:
    break;
  }
  return true;
}

static stg_status check_room(const struct stg_components_kernel *kernel, stg_error *reterr) {
  const struct stg_components_geometry *g = &kernel->geometry;
  const bool has_room = stg_components_has_room(kernel);
  if (!has_room && (kernel->choice.rows != 0 || kernel->choice.chunk != 0)) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "components: what is chosen of %s %u -> %u is not to be had",
                         stg_dtype_name(g->dtype), g->d_in, g->d_out);
  }
  if (!has_room) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "components: %s of %u -> %u needs more shared memory than sm_%u has",
                         stg_dtype_name(g->dtype), g->d_in, g->d_out, kernel->sm);
  }
  return STG_OK;
}

static stg_status check_kernel(const struct stg_components_kernel *kernel, stg_error *reterr) {
  const struct stg_components_geometry *g = &kernel->geometry;
  stg_status status = check_sizes(g, reterr);
  if (status == STG_OK) {
    status = check_types(g, reterr);
  }
  if (status != STG_OK || kernel->work == STG_COMPONENTS_SUM) {
    return status;
  }
  if (kernel->work == STG_COMPONENTS_APPLY && kernel->tile != 32 && kernel->tile != 64 &&
      kernel->tile != 128) {
    return stg_error_set(reterr, STG_E_INVALID, "tile: %u is none of 32, 64, 128", kernel->tile);
  }
  return check_room(kernel, reterr);
}

/* ---- text ---- */

static const char *mask_name(enum stg_components_mask mask) {
  static const char *const names[] = {
      [STG_COMPONENTS_MASK_NONE] = "STG_MASK_NONE",
      [STG_COMPONENTS_MASK_DTYPE] = "STG_MASK_ELEMENTS",
      [STG_COMPONENTS_MASK_BOOL] = "STG_MASK_BYTES",
  };
  return names[mask];
}

static void write_mask(struct stg_writer *w, enum stg_components_mask mask) {
  struct stg_strbuf line = {0};
  stg_strbuf_printf(&line, "static constexpr int mask = %s;", mask_name(mask));
  stg_begin_note(&line);
  stg_strbuf_str(&line, "what its elements are");
  stg_write_buffer(w, &line);
}

/* Elements, and how products take them. */
static void write_data(struct stg_writer *w, const struct stg_components_geometry *g) {
  const bool exact = g->dtype == STG_F32 && !g->tf32;
  stg_write_line(w, "typedef %s data;", exact ? "stg_f32_exact" : stg_device_type(g->dtype));
}

static void write_apply(struct stg_writer *w, const struct stg_components_kernel *kernel,
                        const struct stg_components_extents *e) {
  const struct stg_components_geometry *g = &kernel->geometry;
  write_data(w, g);
  stg_write_int(w, "in", kernel->turned ? g->d_out : g->d_in, "elements of a row that comes in");
  stg_write_int(w, "components", g->components, "of the intermediate");
  stg_write_int(w, "out", kernel->turned ? g->d_in : g->d_out, "of a row that goes out");
  stg_write_bool(w, "turned", kernel->turned, "the way back of a gradient");
  write_mask(w, g->mask);
  stg_write_bool(w, "bias", g->bias && !kernel->turned, "is added");
  stg_write_bool(w, "delta", g->delta, "has a product of its own");
  stg_write_int(w, "threads", e->threads, "of a block");
  stg_write_int(w, "tile", e->tile, "rows of a block");
  stg_write_int(w, "chunk", e->chunk, "components of a stage");
  stg_write_int(w, "stages", e->stages, "of the ring");
  stg_write_int(w, "warps_n", e->warps_n, "beside each other");
  stg_write_int(w, "warp_rows", e->warp_rows, "of the tile that a warp has");
  stg_write_int(w, "warp_columns", e->warp_columns, "of what goes out");
  stg_write_bool(w, "own", e->own, "and all of what comes before");
  stg_write_int(w, "s_rows", e->s_rows, "and of the intermediate");
  stg_write_int(w, "s_columns", e->s_columns, "of a chunk");
  stg_write_int(w, "shared_bytes", e->dynamic_bytes, "of the launch");
}

static void write_weights(struct stg_writer *w, const struct stg_components_geometry *g,
                          const struct stg_components_weights_extents *e) {
  write_data(w, g);
  stg_write_int(w, "in", g->d_in, "rows of dv");
  stg_write_int(w, "components", g->components, "columns of dv, rows of du");
  stg_write_int(w, "out", g->d_out, "columns of du");
  write_mask(w, g->mask);
  stg_write_bool(w, "bias", g->bias, "has a gradient");
  stg_write_bool(w, "delta", g->delta, "has one");
  stg_write_int(w, "threads", e->threads, "of a block");
  stg_write_int(w, "block", e->block, "components of a block");
  stg_write_int(w, "tile", e->tile, "rows of a stage");
  stg_write_int(w, "stages", e->stages, "of the ring");
  stg_write_int(w, "warps_n", e->warps_n, "beside each other in a sum");
  stg_write_int(w, "s_rows", e->s_rows, "of the tile whose intermediate a warp has");
  stg_write_int(w, "shared_bytes", e->dynamic_bytes, "of the launch");
}

static void write_sum(struct stg_writer *w, const struct stg_components_geometry *g) {
  stg_write_line(w, "typedef %s data;", stg_device_type(g->dtype));
  stg_write_int(w, "d_in", g->d_in, "rows of dv");
  stg_write_int(w, "components", g->components, "columns of dv, rows of du");
  stg_write_int(w, "d_out", g->d_out, "columns of du");
  stg_write_bool(w, "bias", g->bias, "has a gradient");
  stg_write_bool(w, "delta", g->delta, "has one");
  stg_write_int(w, "threads", STG_COMPONENTS_SUM_THREADS, "of a block");
}

static const char *what_of(const struct stg_components_kernel *kernel) {
  switch (kernel->work) {
  case STG_COMPONENTS_WEIGHTS:
    return "parts of gradients";
  case STG_COMPONENTS_SUM:
    return "sums of gradients";
  case STG_COMPONENTS_APPLY:
    break;
  }
  return kernel->turned ? "gradients of rows" : "results";
}

static void open_geometry(struct stg_writer *w, const struct stg_components_kernel *kernel) {
  const struct stg_components_geometry *g = &kernel->geometry;
  const bool turned = kernel->work == STG_COMPONENTS_APPLY && kernel->turned;
  stg_write_blank(w);
  stg_write_line(w, "// components: %s of %u -> %u -> %u %s", what_of(kernel),
                 turned ? g->d_out : g->d_in, g->components, turned ? g->d_in : g->d_out,
                 stg_dtype_name(g->dtype));
  stg_write_open(w, "struct stg_geometry");
}

/* The struct, and how the kernel is launched. */
static struct stg_launch_rule write_geometry(struct stg_writer *w,
                                             const struct stg_components_kernel *kernel) {
  struct stg_launch_rule rule = {.rows_per_block = 1, .resident_blocks = 1};
  open_geometry(w, kernel);
  switch (kernel->work) {
  case STG_COMPONENTS_APPLY: {
    const struct stg_components_extents e = stg_components_extents_of(kernel);
    write_apply(w, kernel, &e);
    rule.threads = e.threads;
    rule.rows_per_block = e.tile;
    rule.stage_bytes = e.dynamic_bytes;
    break;
  }
  case STG_COMPONENTS_WEIGHTS: {
    const struct stg_components_weights_extents e = stg_components_weights_extents_of(kernel);
    write_weights(w, &kernel->geometry, &e);
    rule.threads = e.threads;
    rule.rows_per_block = e.tile;
    rule.stage_bytes = e.dynamic_bytes;
    break;
  }
  case STG_COMPONENTS_SUM:
    write_sum(w, &kernel->geometry);
    rule.threads = STG_COMPONENTS_SUM_THREADS;
    rule.resident_blocks = STG_COMPONENTS_SUM_RESIDENT;
    break;
  }
  rule.wide_stage_bytes = rule.stage_bytes;
  stg_write_close(w, ";");
  stg_write_blank(w);
  return rule;
}

static void write_entry(struct stg_writer *w, enum stg_components_work work,
                        const struct stg_launch_rule *rule) {
  stg_write_line(w, "extern \"C\" __global__ void __launch_bounds__(%u, %u)", rule->threads,
                 rule->resident_blocks);
  stg_write_open(w, "%s(const __grid_constant__ %s args)", works[work].name, works[work].args);
  stg_write_line(w, "%s<stg_geometry>(args);", works[work].run);
  stg_write_close(w, "");
}

stg_status stg_components_generate(const struct stg_components_kernel *kernel,
                                   struct stg_strbuf *ret_source, struct stg_launch_rule *ret_rule,
                                   stg_error *reterr) {
  stg_status status = check_kernel(kernel, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_writer w = {.out = ret_source};
  const struct stg_launch_rule rule = write_geometry(&w, kernel);
  write_entry(&w, kernel->work, &rule);
  status = stg_strbuf_status(ret_source, reterr);
  if (status == STG_OK) {
    *ret_rule = rule;
  }
  return status;
}

/*
 * decode_kernel.c: see decode_kernel.h. A text is a kernel's literal extents and its entry point.
 *
 * What does not depend on the geometry is hand-written in prelude/attend*.cuh.
 */
#include "codegen/decode_kernel.h"

#include "codegen/constants.h"
#include "codegen/decode_extents.h"
#include "codegen/prelude.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

void stg_decode_prelude(struct stg_strbuf *out) {
  /* in the order in which they read */
  static const char *const stems[] = {
      "math",         "warp",          "chunk",        "copies",
      "rows",         "mma",           "attend_args",  "attend_stream",
      "attend_tile",  "attend_slices", "attend_warps", "attend_merge",
      "attend_turns", "attend_flow",   "attend_hints", "attend",
  };
  stg_prelude_append(stems, sizeof stems / sizeof stems[0], out);
}

static void write_constants(struct stg_writer *w, const struct stg_decode_geometry *g,
                            const struct stg_decode_extents *e) {
  stg_write_line(w, "typedef %s data;", stg_device_type(g->dtype));
  stg_write_bool(w, "paged", g->paged, "the cache has a block table");
  stg_write_bool(w, "windowed", g->windowed, "rows read the last positions alone");
  stg_write_bool(w, "masked", g->masked, "a mask says which positions are read");
  stg_write_bool(w, "heads_first", g->order == STG_HEADS_HEADS_FIRST,
                 "q and out: [heads, rows, dim]");
  stg_write_bool(w, "products", e->products, "of matrices, by warps");
  stg_write_bool(w, "whole", e->whole, "a head is whole pieces of 16 bytes");
  stg_write_bool(w, "aligned", e->whole && !g->loose, "and K and V stand by 16 bytes");
  stg_write_int(w, "group", e->group, "query heads that share K and V");
  stg_write_int(w, "tile_heads", e->tile_heads, "of them, that a block works on at once");
  stg_write_int(w, "group_tiles", e->group_tiles, "in which a group comes");
  stg_write_int(w, "tiles", e->tiles, "in which all query heads come");
  stg_write_int(w, "dim", g->dim, "elements of a head");
  stg_write_int(w, "padded", e->padded, "with the zeros behind them");
  stg_write_int(w, "threads", e->threads, "of a block");
  stg_write_int(w, "lanes", e->lanes, "threads that share a position");
  stg_write_int(w, "chunk", g->chunk, "positions whose sums are merged as one");
  stg_write_int(w, "tile", e->tile, "positions that a block works on at once");
  if (e->products) {
    stg_write_int(w, "slice", e->slice, "positions that a warp works on at once");
  } else {
    stg_write_int(w, "batch", e->batch, "positions that a thread waits for at once");
    stg_write_int(w, "depth", e->depth, "batches that are under way or in use");
  }
}

static void write_kernel(struct stg_writer *w, const struct stg_decode_geometry *g,
                         const struct stg_decode_extents *e) {
  stg_write_blank(w);
  stg_write_line(w, "// decode: q %s %s, %s cache of %u KV heads",
                 g->order == STG_HEADS_HEADS_FIRST ? "[heads, rows, dim]" : "[rows, heads, dim]",
                 stg_dtype_name(g->dtype), g->paged ? "paged" : "dense", g->kv_heads);
  stg_write_open(w, "struct stg_geometry");
  write_constants(w, g, e);
  stg_write_close(w, ";");
  stg_write_blank(w);
  stg_write_line(w, "extern \"C\" __global__ void __launch_bounds__(%u, %u)", e->threads,
                 e->resident_blocks);
  stg_write_open(w, STG_DECODE_KERNEL_NAME "(const __grid_constant__ stg_decode_args args)");
  stg_write_line(w, "stg_attend_run<stg_geometry>(args);");
  stg_write_close(w, "");
}

static stg_status check_geometry(const struct stg_decode_geometry *g, stg_error *reterr) {
  if (g->kv_heads == 0 || g->heads == 0 || g->heads % g->kv_heads != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "heads: %u are not a multiple of %u KV heads",
                         g->heads, g->kv_heads);
  }
  if (g->dim == 0 || g->dim > STG_ROPE_MAX_DIM || g->dim % 2 != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dim: %u is not even and in 2..%u", g->dim,
                         STG_ROPE_MAX_DIM);
  }
  if (stg_dtype_bytes(g->dtype) == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dtype: %d is none of bf16 (1), f16 (2), f32 (3)",
                         (int)g->dtype);
  }
  if (g->chunk < STG_DECODE_MIN_CHUNK || g->chunk > STG_DECODE_MAX_CHUNK ||
      !stg_is_pow2(g->chunk)) {
    return stg_error_set(reterr, STG_E_INVALID, "chunk: %u is not a power of two from %u to %u",
                         g->chunk, STG_DECODE_MIN_CHUNK, STG_DECODE_MAX_CHUNK);
  }
  return STG_OK;
}

stg_status stg_decode_generate_with(const struct stg_decode_geometry *geometry,
                                    const struct stg_decode_extents *extents,
                                    struct stg_strbuf *ret_source, struct stg_launch_rule *ret_rule,
                                    stg_error *reterr) {
  struct stg_writer w = {.out = ret_source};
  write_kernel(&w, geometry, extents);
  const stg_status status = stg_strbuf_status(ret_source, reterr);
  if (status == STG_OK) {
    *ret_rule = (struct stg_launch_rule){
        .threads = extents->threads,
        .rows_per_block = 1,
        .resident_blocks = extents->resident_blocks,
        .stage_bytes = extents->ring_bytes,
        .wide_stage_bytes = extents->ring_bytes,
    };
  }
  return status;
}

stg_status stg_decode_generate(const struct stg_decode_geometry *geometry,
                               struct stg_strbuf *ret_source, struct stg_launch_rule *ret_rule,
                               stg_error *reterr) {
  const stg_status status = check_geometry(geometry, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_decode_extents e = stg_decode_extents_of(geometry);
  return stg_decode_generate_with(geometry, &e, ret_source, ret_rule, reterr);
}

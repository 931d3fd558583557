/*
 * cpu/rope.h: the rope family on the CPU: split, rotate and append; the way back; heads from one
 * order to the other; and the advance of a cache's lengths.
 *
 * Rows are independent but for the centre of xPos, which is half the largest position that this
 * call has of the row's sequence, rounded down. The bits equal the GPU's.
 */
#ifndef STG_ENGINE_CPU_ROPE_H
#define STG_ENGINE_CPU_ROPE_H

#include <steergraph/status.h>

#include "codegen/kv.h"
#include "codegen/rope.h"
#include "codegen/rope_freq.h"

/* Heads in the geometry's order: `stride` elements lie from a row to the next, or from a head to
 * the next where heads come first. */
struct stg_cpu_heads {
  void *data;
  int64_t stride;
};

/* One call. All borrowed. */
struct stg_cpu_rope_batch {
  const struct stg_rope_geometry *geometry;
  const struct stg_rope_angles *angles;
  struct stg_step_rows rows;
  const void *qkv; /* [rows] of packed rows */
  int64_t qkv_stride;
  struct stg_cpu_heads q;
  struct stg_cpu_heads k, v;    /* without a cache; v.data NULL: V stays in the packed rows */
  const struct stg_kv_view *kv; /* where K and V are appended; NULL: to k and v */
  struct stg_kv_words *words;   /* refused rows are added to it; NULL: none are counted */
};

/**
 * Split, rotate and append. The batch has been checked; of a table, table_positions covers the
 * capacity of a cache. Padding leaves everything as it is. A row without room has its q and nothing
 * else, zeros if its position is past the table; a bad row, which without a cache one past the
 * table is as well, has zeros for what goes to tensors. STG_E_NO_MEMORY with xPos only, before any
 * write.
 */
STG_NODISCARD stg_status stg_cpu_rope(const struct stg_cpu_rope_batch *batch, stg_error *reterr);

/* Gradients of q, k and v in, that of the packed rows out. All borrowed. */
struct stg_cpu_rope_gradient {
  const struct stg_rope_geometry *geometry;
  const struct stg_rope_angles *angles;
  struct stg_step_rows rows;
  struct stg_cpu_heads q, k, v; /* read; v.data NULL: V of qkv stays as it is */
  void *qkv;
  int64_t qkv_stride;
};

/** The transpose of stg_cpu_rope without a cache: without xPos, the rotation by the negative angle.
 * Statuses and rows as there. */
STG_NODISCARD stg_status stg_cpu_rope_back(const struct stg_cpu_rope_gradient *gradient,
                                           stg_error *reterr);

/* Heads from one order to the other, out of place. */
struct stg_cpu_transpose {
  stg_dtype dtype;
  int64_t rows;
  uint32_t heads, dim;
  enum stg_heads_order from_order; /* `to` has the other */
  const void *from;
  int64_t from_stride;
  void *to;
  int64_t to_stride;
};

/** [rows, heads, dim] to [heads, rows, dim] or back: also the combine of an attention's output. */
void stg_cpu_transpose_heads(const struct stg_cpu_transpose *transpose);

/** At the end of a step: add to len[seq] the rows of seq that had room. `len` may be rows->len. */
void stg_cpu_kv_advance(const struct stg_step_rows *rows, const struct stg_kv_view *kv,
                        int32_t *len);

#endif

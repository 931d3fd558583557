/*
 * rope_args.h: what the kernels of the rope family are given: each one argument, a struct.
 *
 * prelude/rope_args.cuh, heads.cuh and advance.cuh say the same to the device; the two change
 * together.
 */
#ifndef STG_CODEGEN_ROPE_ARGS_H
#define STG_CODEGEN_ROPE_ARGS_H

#include "codegen/kv_args.h"

/* Each address and stride is of 16 bytes in whole, and so is a head. */
#define STG_ROPE_ALIGNED 1U

/* work=rotate. Strides of q, k and v are from a row to the next, or from a head to the next where
 * heads come first. */
struct stg_rope_args {
  struct stg_rows_args rows; /* the launch has rows.rows * spans blocks, spans of a kind together */
  /* Without a cache k and v are tensors as q is, and nothing else is read; v 0: V stays in the
   * packed rows, neither read nor written. */
  struct stg_kv_args kv;
  uint64_t qkv, q;
  uint64_t inv_freq, log_scale, table; /* as stg_rope_angles has them */
  uint64_t words;                      /* struct stg_kv_words; 0: refusals are not noted */
  int64_t qkv_stride, q_stride, k_stride, v_stride;
  int32_t table_positions; /* at most STG_MAX_POSITION + 1 */
  float xpos_base;
  uint32_t spans, span_items; /* as stg_rope_spans_of has them */
  uint32_t flags, unused;
};

/* work=transpose */
#define STG_TRANSPOSE_FROM_HEADS 2U /* [heads, rows, dim] in, [rows, heads, dim] out */
struct stg_transpose_args {
  uint64_t from, to;
  int64_t from_stride, to_stride; /* from a row to the next, or from a head to the next */
  int32_t rows;
  uint32_t heads, flags, unused;
};

/* work=advance: adds to rows.len. */
struct stg_advance_args {
  struct stg_rows_args rows;
  struct stg_kv_args kv;
  uint32_t on; /* 0: nothing is done */
  uint32_t unused;
};

_Static_assert(sizeof(struct stg_rope_args) == 208, "rope_args.cuh has the same");
_Static_assert(offsetof(struct stg_rope_args, qkv_stride) == 152, "rope_args.cuh has the same");
_Static_assert(sizeof(struct stg_transpose_args) == 48, "heads.cuh has the same");
_Static_assert(sizeof(struct stg_advance_args) == 112, "advance.cuh has the same");

#endif

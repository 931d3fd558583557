/*
 * decode_kernel.h: the decode kernel as text: geometry -> CUDA source + launch rule; what it is
 * given, how many blocks it takes, and the memory that it needs beside the cache.
 *
 * Deterministic: equal arguments give equal bytes. No CUDA call is made here.
 */
#ifndef STG_CODEGEN_DECODE_KERNEL_H
#define STG_CODEGEN_DECODE_KERNEL_H

#include <steergraph/status.h>

#include "codegen/decode.h"
#include "codegen/kv_args.h"
#include "codegen/launch_rule.h"
#include "runtime/base/strbuf.h"

#define STG_DECODE_KERNEL_NAME "stg_decode"
/* Blocks of a paged cache have no fewer positions. */
#define STG_DECODE_MIN_BLOCK_SHIFT 3U
/* A launch of more rows, or of rows with more chunks, has blocks that own rows. */
#define STG_DECODE_SPLIT_ROWS 512U
#define STG_DECODE_MAX_CHUNKS 64U

/* The kernel's one argument: struct stg_decode_args of the prelude, field by field. */
struct stg_decode_args {
  uint64_t q, out;
  int64_t q_stride, out_stride; /* elements from a row to the next, or from a head to the next */
  struct stg_rows_args rows;
  struct stg_kv_args kv;
  uint64_t key_mask; /* uint8 [batch, mask_stride]; of a geometry with a mask */
  int64_t mask_stride;
  uint64_t valid; /* int32 [batch]: rows from this position on give zeros; 0: none do */
  uint64_t partials, counters; /* stg_decode_space; 0 with STG_DECODE_OWNER */
  int32_t window;              /* at least 1; of a geometry with a window */
  int32_t chunks;              /* of the workspace */
  float scale;
  uint32_t flags;
};
#define STG_DECODE_ALIGNED 1u /* out and its stride, by 16 bytes */
#define STG_DECODE_OWNER 2u   /* blocks own rows */

_Static_assert(sizeof(struct stg_decode_args) == 192, "attend_args.cuh has the same");

/** Positions of a chunk for a cache of `capacity` positions: what the geometry's `chunk` is to be.
 * Its other members but `chunk` have been filled in. */
uint32_t stg_decode_chunk(const struct stg_decode_geometry *geometry, int64_t capacity);

/* Device memory beside the cache, for launches of up to so many rows on one stream. */
struct stg_decode_space {
  uint32_t split_rows;                 /* a launch of more rows has blocks that own rows */
  uint32_t chunks;                     /* of a row */
  size_t partial_bytes, counter_bytes; /* the counters are zeros before the first launch, and again
                                          after each */
};

/** For rows of a cache of `capacity` positions; `window` 0: none. */
struct stg_decode_space stg_decode_space_of(const struct stg_decode_geometry *geometry,
                                            uint32_t max_rows, int64_t capacity, int64_t window);

/* How a launch of `rows` rows is made: args.flags and grid.x. */
struct stg_decode_launch {
  bool owner;
  uint32_t blocks;
};
struct stg_decode_launch stg_decode_launch_of(const struct stg_decode_geometry *geometry,
                                              const struct stg_decode_space *space, uint32_t rows,
                                              uint32_t multiprocessors);

/** Append the source (without the prelude) and fill the launch rule. */
STG_NODISCARD stg_status stg_decode_generate(const struct stg_decode_geometry *geometry,
                                             struct stg_strbuf *ret_source,
                                             struct stg_launch_rule *ret_rule, stg_error *reterr);

/** Append the hand-written device code that goes before the generated text. */
void stg_decode_prelude(struct stg_strbuf *out);

#endif

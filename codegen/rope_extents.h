/*
 * rope_extents.h: how much of what a kernel of the rope family takes, and how its rows are spread
 * over blocks.
 */
#ifndef STG_CODEGEN_ROPE_EXTENTS_H
#define STG_CODEGEN_ROPE_EXTENTS_H

#include "codegen/rope_text.h"

/* A head is `units` items of two pieces each, of which the first `turned_units` are turned. */
struct stg_rope_extents {
  uint32_t row_heads; /* of a packed row: Q, K and V */
  bool wide;          /* a piece is 16 bytes of elements, otherwise one element */
  uint32_t units, turned_units;
  uint32_t items;   /* of a row */
  uint32_t threads; /* of a block */
  uint32_t turns;   /* items of a thread at most */
  uint32_t resident_blocks;
};

/** The extents of a rotation that stg_rope_generate would take. */
struct stg_rope_extents stg_rope_extents_of(const struct stg_rope_geometry *geometry);

/* A row is `spans` blocks, which have `span_items` items each, the last one the rest. */
struct stg_rope_spans {
  uint32_t spans, span_items;
};

/** How a launch over so many rows is spread: its grid is rows * spans. No bit depends on it.
 * `v_stays`: V is left in the packed rows, and no block has nothing else. */
struct stg_rope_spans stg_rope_spans_of(const struct stg_rope_geometry *geometry, int64_t rows,
                                        bool v_stays);

/* Of the two works that have no geometry. */
#define STG_TRANSPOSE_THREADS 128U
#define STG_TRANSPOSE_TURNS 4U /* 16-byte units, or elements, that are on their way together */
#define STG_TRANSPOSE_RESIDENT 12U
#define STG_ADVANCE_THREADS 128U

#endif

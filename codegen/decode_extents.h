/*
 * decode_extents.h: how much of what a decode kernel takes: threads, registers, shared memory.
 *
 * All of it follows from the geometry; the generated text has it as literals. Elements of 2 bytes
 * are multiplied as matrices, by warps that each have slices of a chunk; those of 4 bytes one by
 * one, by threads that share a position, in tiles of a chunk.
 */
#ifndef STG_CODEGEN_DECODE_EXTENTS_H
#define STG_CODEGEN_DECODE_EXTENTS_H

#include "codegen/decode_kernel.h"

#define STG_DECODE_MIN_CHUNK 128U
#define STG_DECODE_MAX_CHUNK (1U << 25)

struct stg_decode_extents {
  bool products;            /* by products of matrices */
  uint32_t group;           /* query heads of a KV head */
  uint32_t tile_heads;      /* of them, that an item of work has */
  uint32_t group_tiles;     /* in which a group comes */
  uint32_t tiles;           /* in which all query heads come */
  uint32_t padded;          /* elements of a head, with the zeros behind them */
  uint32_t lanes;           /* threads that share a position, a power of two */
  uint32_t tile;            /* positions that a block works on at once */
  uint32_t slice;           /* products: positions that a warp works on at once */
  uint32_t batch;           /* else: positions that a thread takes between two looks at its ring */
  uint32_t depth;           /* and such batches that the ring holds */
  uint32_t threads;         /* of a block */
  uint32_t ring_bytes;      /* of dynamic shared memory */
  uint32_t resident_blocks; /* that a multiprocessor is to hold at once */
  bool whole;               /* a head is whole pieces of 16 bytes */
  size_t slot_bytes;        /* of a chunk's partial sums, in 16 bytes */
};

/** The extents of a geometry that stg_decode_generate would take; `chunk` may be 0: any. */
struct stg_decode_extents stg_decode_extents_of(const struct stg_decode_geometry *geometry);

/* What was chosen for products and does not follow. */
struct stg_decode_choice {
  uint32_t warps; /* of a block */
  uint32_t slice; /* 16 or 32; warps * slice divides a chunk */
  uint32_t resident_blocks;
};
struct stg_decode_choice stg_decode_choice_of(const struct stg_decode_geometry *geometry);

/** The extents of another choice, to be measured; of a geometry without products as they are. */
struct stg_decode_extents stg_decode_extents_with(const struct stg_decode_geometry *geometry,
                                                  struct stg_decode_choice choice);
/** stg_decode_generate of such. */
STG_NODISCARD stg_status stg_decode_generate_with(const struct stg_decode_geometry *geometry,
                                                  const struct stg_decode_extents *extents,
                                                  struct stg_strbuf *ret_source,
                                                  struct stg_launch_rule *ret_rule,
                                                  stg_error *reterr);

#endif

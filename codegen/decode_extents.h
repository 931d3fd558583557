/*
 * decode_extents.h: how much of what a decode kernel takes: threads, registers, shared memory.
 *
 * All of it follows from the geometry; the generated text has it as literals.
 */
#ifndef STG_CODEGEN_DECODE_EXTENTS_H
#define STG_CODEGEN_DECODE_EXTENTS_H

#include "codegen/decode_kernel.h"

#define STG_DECODE_MIN_CHUNK 128U
#define STG_DECODE_MAX_CHUNK (1U << 25)

struct stg_decode_extents {
  uint32_t group;           /* query heads of a KV head */
  uint32_t tile_heads;      /* of them, that an item of work has */
  uint32_t group_tiles;     /* in which a group comes */
  uint32_t tiles;           /* in which all query heads come */
  uint32_t lanes;           /* threads that share a position, a power of two */
  uint32_t pieces;          /* of 16 bytes, of a lane and a position */
  uint32_t tile;            /* positions that a block works on at once */
  uint32_t batch;           /* positions that a thread takes between two looks at its ring */
  uint32_t depth;           /* such batches that the ring holds */
  uint32_t threads;         /* of a block */
  uint32_t ring_bytes;      /* of dynamic shared memory */
  uint32_t resident_blocks; /* that a multiprocessor is to hold at once */
  bool whole;               /* a head is whole pieces */
  size_t slot_bytes;        /* of a chunk's partial sums, in 16 bytes */
};

/** The extents of a geometry that stg_decode_generate would take; `chunk` may be 0: any. */
struct stg_decode_extents stg_decode_extents_of(const struct stg_decode_geometry *geometry);

#endif

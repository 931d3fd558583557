/*
 * steer_extents.h: how much of what a steer kernel takes: threads, registers, shared memory.
 *
 * All of it follows from the geometry; the generated text has it as literals.
 */
#ifndef STG_CODEGEN_STEER_EXTENTS_H
#define STG_CODEGEN_STEER_EXTENTS_H

#include "codegen/steer.h"

#define STG_CHUNK_ELEMS 8
#define STG_MAX_TILE_ROWS 8

struct stg_steer_extents {
  int64_t chunks; /* of a row */
  int64_t chunks_per_thread;
  uint32_t threads;
  bool held;                /* a tile's rows stay in registers */
  int64_t kept_chunks;      /* of a vector, in a thread's registers */
  int64_t staged_vectors;   /* of a chain, in shared memory */
  int64_t vector_bytes;     /* that they take */
  int64_t stage_bytes;      /* that they and the tiles take */
  uint32_t resident_blocks; /* that a multiprocessor is to hold at once */
};

/** The extents of a geometry that stg_steer_generate would take; `tile_rows` may be too many. */
struct stg_steer_extents stg_steer_extents_of(const struct stg_steer_geometry *geometry);

#endif

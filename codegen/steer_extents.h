/*
 * steer_extents.h: how much of what a steer kernel takes: threads, registers, shared memory.
 *
 * All of it follows from the geometry; the generated text has it as literals.
 */
#ifndef STG_CODEGEN_STEER_EXTENTS_H
#define STG_CODEGEN_STEER_EXTENTS_H

#include "codegen/steer.h"

#define STG_CHUNK_ELEMS 8
/* A warp folds as many sums at once. */
#define STG_MAX_TURNS 16

struct stg_steer_extents {
  int64_t chunks;              /* of a row */
  uint32_t row_threads;        /* whose sums a row's are */
  uint32_t threads;            /* of a block, each of which stands for `turns` of them */
  int64_t chunks_per_turn;     /* of one row */
  bool held;                   /* a tile's rows stay in registers */
  int64_t weight_bytes;        /* of an epilogue's weight in shared memory, 0: it is not there */
  int64_t vector_bytes;        /* of a vector in shared memory */
  int64_t staged_vectors;      /* of a chain there, where blocks share a multiprocessor */
  int64_t wide_staged_vectors; /* and where each has one to itself */
  uint32_t resident_blocks;    /* that a multiprocessor is to hold at once */
};

/** The extents of a geometry that stg_steer_generate would take; `turns` may be too many. */
struct stg_steer_extents stg_steer_extents_of(const struct stg_steer_geometry *geometry);

#endif

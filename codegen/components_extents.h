/*
 * components_extents.h: how much of what a kernel of the components family takes: tiles, chunks,
 * stages, and who of a block does what.
 */
#ifndef STG_CODEGEN_COMPONENTS_EXTENTS_H
#define STG_CODEGEN_COMPONENTS_EXTENTS_H

#include "codegen/components_text.h"

/*
 * work=apply: a block has `tile` rows and walks over the components in chunks, of which the ring
 * has so many stages. Its warps have `warp_rows` x `warp_columns` of the result, `warps_n` of them
 * beside each other; and of a chunk's intermediate `s_rows` x `s_columns`, where some may have
 * nothing. With `own` they have rows in whole, and make `s_columns` of their intermediate at once.
 */
struct stg_components_extents {
  uint32_t threads, tile, chunk, stages;
  uint32_t warps_n, warp_rows, warp_columns;
  bool own;
  uint32_t s_rows, s_columns;
  uint32_t static_bytes, dynamic_bytes; /* of shared memory */
};

/** The extents of an apply that stg_components_generate would take; zeros where its float32 need
 * more shared memory than the architecture has, or what is chosen is not to be had. */
struct stg_components_extents stg_components_extents_of(const struct stg_components_kernel *kernel);

/*
 * work=weights: a block has `block` components and walks over a span of rows by tiles, of which the
 * ring has so many stages. Its warps have t and g of `s_rows` of them by as many components as come
 * to each; and of sums over rows every so many tiles of 16 of what is wide, by a part of the block,
 * `warps_n` of them beside each other.
 */
struct stg_components_weights_extents {
  uint32_t threads, tile, block, stages;
  uint32_t warps_n, s_rows;
  uint32_t static_bytes, dynamic_bytes; /* of shared memory */
};

/** The extents of weights that stg_components_generate would take; zeros as above. */
struct stg_components_weights_extents
stg_components_weights_extents_of(const struct stg_components_kernel *kernel);

/* work=sum: a thread has an element. */
#define STG_COMPONENTS_SUM_THREADS 256U
#define STG_COMPONENTS_SUM_RESIDENT 4U

/** Shared memory that a block may have, by the number of an architecture, as 90; of an unknown one
 * what the smallest has. */
uint32_t stg_components_shared_bytes(uint32_t sm);

#endif

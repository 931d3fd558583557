/*
 * prover_extents.h: what a kernel of the proof search takes of a device: threads, shared memory,
 * blocks, and memory beside the base and the weights.
 */
#ifndef STG_CODEGEN_PROVER_EXTENTS_H
#define STG_CODEGEN_PROVER_EXTENTS_H

#include <stddef.h>

#include "codegen/prover.h"

#define STG_PROVER_MAX_WIDTH 256U
#define STG_PROVER_MAX_BLOCKS 64U

struct stg_prover_extents {
  uint32_t threads;         /* of a block */
  uint32_t slots;           /* of a block: queries that are on their way at once */
  uint32_t resident_blocks; /* that a multiprocessor is to hold at once, where it has the memory */
  uint32_t shared_bytes;    /* of a block, all of it dynamic */
  uint32_t slot_bytes;      /* of a slot on the device */
  uint32_t embed_rows;      /* inputs of the first layer, with zeros to whole stages */
  uint32_t hidden_rows;     /* and of the others */
};

/** Of limits and a net that stg_prover_generate would take. */
struct stg_prover_extents stg_prover_extents_of(const struct stg_prove_limits *limits,
                                                const struct stg_prove_net *net);

/** Blocks of a launch of up to `queries` queries, at least 1, on a device that can hold `room` of
 * them at once: no block waits for another, and with few queries each has one of its own. What
 * becomes of a query does not depend on it. */
uint32_t stg_prover_blocks(uint64_t room, uint64_t queries);

/** Device memory of the slots of so many blocks. */
size_t stg_prover_scratch_bytes(const struct stg_prover_extents *extents, uint32_t blocks);

#endif

/*
 * prover_extents.c: see prover_extents.h.
 *
 * The cycles follow from these counts and are no measurements, for an H200 with 132 multiprocessors
 * at 1.7 GHz, 4 times 32 fused multiply-adds a cycle each, and 24 bytes a cycle each from the
 * second level. Measured there, one of 16384 candidates with the usual net on a base of families
 * takes 2.98 us in float32, 2.12 times its multiply-adds alone, 2.27 in three products of TF32 and
 * 1.40 in one.
 *
 * A state takes 0.72 million multiply-adds with the usual net of 250, 256 and 8: 5 600 cycles of a
 * multiprocessor. A tile of 64 has them in 64 registers of each of 256 threads, which for an input
 * read 64 bytes of shared memory to do 64 multiply-adds: 4 loads, which take no more than 48 of the
 * 128 cycles that the multiply-adds take. Its weights are 2.8 MiB, 120 000 of 360 000 cycles; tiles
 * of 32 and 16, for what is left over, take 180 000 and, since weights are then what it waits for,
 * 120 000.
 *
 * In three products of TF32 the same tile has 128 multiply-adds a thread, of 16 x 8 x 8 by a warp,
 * for eight inputs where it had 512: at 1024 of TF32 a cycle, of which such instructions reach some
 * 60 percent, 210 000 cycles instead of 360 000, in one 120 000, which is what the weights take.
 *
 * Barriers, norms and derivations leave the multiply-adds idle; hence two blocks on a
 * multiprocessor, which then has 128 registers a thread and 96 KiB of shared memory for each block.
 * That much is all that some devices have: there it is one block.
 */
#include "codegen/prover_extents.h"

#include "codegen/prelude/unify.h"
#include "codegen/prover_args.h"
#include "runtime/base/intmath.h"

#define THREADS 256
#define SLOTS 8 /* a warp each */
#define RESIDENT_BLOCKS 2
#define TILE_STATES 64
#define TILE_ROW (TILE_STATES + 4) /* floats; by that much stores do not meet in one bank */
#define TILE_ELEMS STG_PROVER_MAX_WIDTH
#define STAGE_INPUTS 8
#define STAGE_ROW (TILE_ELEMS + 8) /* likewise, for TF32 */
#define ALIGNMENT 128

/* As embed.cuh, layer.cuh, derive.cuh and prover.cuh have them. */
struct slot {
  uint64_t path[STG_PROVE_MAX_DEPTH + 1];
  struct stg_prove_counts counts;
  float logits[STG_PROVE_MAX_CHILDREN];
  struct stg_prove_state state;
  struct stg_prove_atom query;
  uint32_t words[12];
};

struct room {
  float tile[TILE_ELEMS * TILE_ROW];
  float stages[2 * STAGE_INPUTS * STAGE_ROW];
  float sums[2][4][TILE_STATES];
  struct slot slots[SLOTS];
};

/* What a block may have on the devices that have least, of compute capability 8.6, 8.9 and 12.0. */
_Static_assert(sizeof(struct room) <= (size_t)99 * 1024, "a block fits everywhere");

struct stg_prover_extents stg_prover_extents_of(const struct stg_prove_limits *limits,
                                                const struct stg_prove_net *net) {
  const size_t slot =
      limits->children * sizeof(struct stg_prove_state) + 2 * sizeof(float) * TILE_ELEMS;
  return (struct stg_prover_extents){
      .threads = THREADS,
      .slots = SLOTS,
      .resident_blocks = RESIDENT_BLOCKS,
      .shared_bytes = sizeof(struct room),
      .slot_bytes = (uint32_t)stg_round_up(slot, ALIGNMENT),
      .embed_rows = (uint32_t)stg_round_up(net->embed, STAGE_INPUTS),
      .hidden_rows = (uint32_t)stg_round_up(net->hidden, STAGE_INPUTS),
  };
}

uint32_t stg_prover_blocks(uint64_t room, uint64_t queries) {
  const uint64_t blocks = queries < room ? queries : room;
  return blocks > 0 ? (uint32_t)blocks : 1;
}

size_t stg_prover_scratch_bytes(const struct stg_prover_extents *extents, uint32_t blocks) {
  return (size_t)blocks * extents->slots * extents->slot_bytes;
}

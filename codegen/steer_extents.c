/*
 * steer_extents.c: see steer_extents.h.
 *
 * The figures were chosen on an H100 and an H200; tools/bench/results has what they give.
 */
#include "codegen/steer_extents.h"

#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define WARP_THREADS 32
#define MAX_THREADS 512
#define TARGET_CHUNKS_PER_THREAD 2
/* In how many turns a thread of a prefill tile goes through a row: with fewer warps to a row less
 * is done several times over. */
#define PREFILL_TURNS 2
/* A row of up to this many floats a thread stays in registers; a longer one is read twice. */
#define HELD_FLOATS 64
/* Shared memory for what is on its way, beside chains and sums: a block has to do with the 99 KiB
 * of the smaller architectures. */
#define MAX_STAGE_BYTES 65536
/* Vectors of a chain that are brought to shared memory: where blocks share a multiprocessor, and
 * where each has one to itself. */
#define STAGED_VECTORS 2
#define WIDE_STAGED_VECTORS 8
/* What the former may take of it, and an epilogue's weight. */
#define STAGE_BYTES 32768
#define WEIGHT_BYTES 32768
/* Threads that a multiprocessor is to hold at once, which leave each 64 registers; and where a
 * thread has long rows to keep. */
#define RESIDENT_THREADS 1024
#define RESIDENT_THREADS_LONG 512
#define LONG_FLOATS 32
/* Fewer where a thread keeps more of a row than its state. */
#define RESIDENT_THREADS_LESS 256
/* What the smaller architectures hold of blocks. */
#define MAX_RESIDENT_BLOCKS 16

static int64_t chunks_of(int64_t hidden_size) {
  return (hidden_size + STG_CHUNK_ELEMS - 1) / STG_CHUNK_ELEMS;
}

int64_t stg_steer_padded(int64_t hidden_size) {
  return chunks_of(hidden_size) * STG_CHUNK_ELEMS;
}

uint32_t stg_steer_threads(int64_t hidden_size) {
  size_t wanted = stg_ceil_div((size_t)chunks_of(hidden_size), TARGET_CHUNKS_PER_THREAD);
  size_t threads = stg_round_up(wanted, WARP_THREADS);
  return threads > MAX_THREADS ? MAX_THREADS : (uint32_t)threads;
}

static int64_t chunks_per_turn(int64_t hidden_size) {
  return (int64_t)stg_ceil_div((size_t)chunks_of(hidden_size), stg_steer_threads(hidden_size));
}

/* Floats of a row's state that are a thread's. */
static int64_t floats_of_thread(const struct stg_steer_geometry *g) {
  return g->turns * chunks_per_turn(g->hidden_size) * STG_CHUNK_ELEMS;
}

static uint32_t threads_of_block(const struct stg_steer_geometry *g) {
  const size_t warps = stg_steer_threads(g->hidden_size) / WARP_THREADS;
  return (uint32_t)stg_ceil_div(warps, g->turns) * WARP_THREADS;
}

uint32_t stg_steer_prefill_turns(int64_t hidden_size) {
  struct stg_steer_geometry g = {.hidden_size = hidden_size, .turns = 1};
  while (g.turns < PREFILL_TURNS && 2 * g.turns <= stg_steer_threads(hidden_size) / WARP_THREADS) {
    g.turns *= 2;
    if (floats_of_thread(&g) > HELD_FLOATS) {
      return g.turns / 2;
    }
  }
  return g.turns;
}

/* Bytes of a vector in shared memory. */
static int64_t staged_vector_bytes(const struct stg_steer_geometry *g) {
  return stg_steer_padded(g->hidden_size) * (int64_t)stg_dtype_bytes(g->bank_dtype);
}

/* Bytes of the weight that a row in registers is multiplied by in the end. */
static int64_t staged_weight_bytes(const struct stg_steer_geometry *g) {
  const int64_t bytes = stg_steer_padded(g->hidden_size) * (int64_t)stg_dtype_bytes(g->dtype);
  const bool held = floats_of_thread(g) <= HELD_FLOATS;
  return g->epilogue && held && bytes <= WEIGHT_BYTES ? bytes : 0;
}

static int64_t vectors_that_fit(const struct stg_steer_geometry *g, int64_t bytes, int64_t most) {
  const int64_t fit = bytes / staged_vector_bytes(g);
  return fit > most ? most : fit;
}

static uint32_t resident_blocks(const struct stg_steer_geometry *g, uint32_t threads) {
  const int64_t floats = floats_of_thread(g);
  uint32_t resident = floats <= LONG_FLOATS ? RESIDENT_THREADS : RESIDENT_THREADS_LONG;
  if (g->pair || g->dtype == STG_F32) {
    resident -= RESIDENT_THREADS_LESS;
  }
  const uint32_t blocks = resident / threads;
  return blocks > MAX_RESIDENT_BLOCKS ? MAX_RESIDENT_BLOCKS : blocks > 0 ? blocks : 1;
}

struct stg_steer_extents stg_steer_extents_of(const struct stg_steer_geometry *g) {
  const uint32_t threads = threads_of_block(g);
  const int64_t weight_bytes = staged_weight_bytes(g);
  return (struct stg_steer_extents){
      .chunks = chunks_of(g->hidden_size),
      .row_threads = stg_steer_threads(g->hidden_size),
      .threads = threads,
      .chunks_per_turn = chunks_per_turn(g->hidden_size),
      .held = floats_of_thread(g) <= HELD_FLOATS,
      .weight_bytes = weight_bytes,
      .vector_bytes = staged_vector_bytes(g),
      .staged_vectors = vectors_that_fit(g, STAGE_BYTES, STAGED_VECTORS),
      .wide_staged_vectors =
          vectors_that_fit(g, MAX_STAGE_BYTES - weight_bytes, WIDE_STAGED_VECTORS),
      .resident_blocks = resident_blocks(g, threads),
  };
}

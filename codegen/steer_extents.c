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
/* Floats of state that a thread keeps of a tile's rows: more rows share a vector's loads, fewer
 * leave room for more blocks, which hide each other's waits. */
#define TILE_FLOATS 32
/* A row of up to this many floats a thread stays in registers; a longer one is read twice. */
#define HELD_FLOATS 64
/* Shared memory for tiles, and for them and vectors: with chains and sums beside them a block has
 * to do with the 99 KiB of the smaller architectures. */
#define TILE_BYTES 65536
#define STAGE_BYTES 81920
/* Vectors of a chain that a tile of one row brings to shared memory. */
#define STAGED_VECTORS 8
/* Chunks of a vector that a thread keeps in registers, so that the next vectors can be on their way
 * while these are summed. */
#define MAX_KEPT_CHUNKS 2
/* Threads that a multiprocessor is to hold at once: they leave each 80 registers, or 128 where a
 * tile of one row keeps two vectors. */
#define RESIDENT_THREADS 768
#define RESIDENT_THREADS_ONE_ROW 512
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

static int64_t chunks_per_thread(int64_t hidden_size) {
  uint32_t threads = stg_steer_threads(hidden_size);
  return (chunks_of(hidden_size) + threads - 1) / threads;
}

/* Floats of state of one thread for one row of the tile. */
static int64_t floats_per_row(int64_t hidden_size) {
  return chunks_per_thread(hidden_size) * STG_CHUNK_ELEMS;
}

/* Bytes of one row in shared memory, of all its tensors: whole chunks of every thread. */
static int64_t staged_row_bytes(int64_t hidden_size, stg_dtype dtype, bool pair) {
  return (pair ? 2 : 1) * floats_per_row(hidden_size) * (int64_t)stg_dtype_bytes(dtype) *
         stg_steer_threads(hidden_size);
}

/* Tiles in shared memory at once: the one at work and the next; a tile of one row is alone. */
static int64_t stages_of(uint32_t tile_rows) {
  return tile_rows == 1 ? 1 : 2;
}

uint32_t stg_steer_prefill_rows(int64_t hidden_size, stg_dtype dtype, bool pair) {
  const int64_t row_bytes = staged_row_bytes(hidden_size, dtype, pair);
  uint32_t rows = 1;
  while (rows < STG_MAX_TILE_ROWS &&
         2 * (int64_t)rows * floats_per_row(hidden_size) <= TILE_FLOATS &&
         stages_of(2 * rows) * 2 * (int64_t)rows * row_bytes <= TILE_BYTES) {
    rows *= 2;
  }
  return rows;
}

/* Bytes of the tiles in shared memory. */
static int64_t tile_bytes(const struct stg_steer_geometry *g) {
  return stages_of(g->tile_rows) * (int64_t)g->tile_rows *
         staged_row_bytes(g->hidden_size, g->dtype, g->pair);
}

/* A longer row is read where it is needed, in tiles of one. */
static bool rows_are_held(const struct stg_steer_geometry *g) {
  return floats_per_row(g->hidden_size) <= HELD_FLOATS && tile_bytes(g) <= TILE_BYTES;
}

static int64_t staged_vector_bytes(const struct stg_steer_geometry *g) {
  return floats_per_row(g->hidden_size) * (int64_t)stg_dtype_bytes(g->bank_dtype) *
         stg_steer_threads(g->hidden_size);
}

static int64_t staged_rows_bytes(const struct stg_steer_geometry *g) {
  return rows_are_held(g) ? tile_bytes(g) : 0;
}

static int64_t staged_vectors(const struct stg_steer_geometry *g) {
  const int64_t room = g->tile_rows == 1 ? STAGE_BYTES - staged_rows_bytes(g) : 0;
  const int64_t fit = room / staged_vector_bytes(g);
  return fit > STAGED_VECTORS ? STAGED_VECTORS : fit;
}

static uint32_t resident_blocks(const struct stg_steer_geometry *g, uint32_t threads) {
  const uint32_t resident = g->tile_rows == 1 ? RESIDENT_THREADS_ONE_ROW : RESIDENT_THREADS;
  const uint32_t blocks = resident / threads;
  return blocks > MAX_RESIDENT_BLOCKS ? MAX_RESIDENT_BLOCKS : blocks > 0 ? blocks : 1;
}

struct stg_steer_extents stg_steer_extents_of(const struct stg_steer_geometry *g) {
  const int64_t per_thread = chunks_per_thread(g->hidden_size);
  const uint32_t threads = stg_steer_threads(g->hidden_size);
  const int64_t vector_bytes = staged_vectors(g) * staged_vector_bytes(g);
  return (struct stg_steer_extents){
      .chunks = chunks_of(g->hidden_size),
      .chunks_per_thread = per_thread,
      .threads = threads,
      .held = rows_are_held(g),
      .kept_chunks = per_thread <= MAX_KEPT_CHUNKS ? per_thread : 1,
      .staged_vectors = staged_vectors(g),
      .vector_bytes = vector_bytes,
      .stage_bytes = vector_bytes + staged_rows_bytes(g),
      .resident_blocks = resident_blocks(g, threads),
  };
}

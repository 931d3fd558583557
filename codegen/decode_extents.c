/*
 * decode_extents.c: see decode_extents.h.
 *
 * The figures were not chosen on a card yet. They follow from a count for the H200 (132
 * multiprocessors of 4 * 32 lanes at 1.7 GHz, 4.2 TB/s): to keep up with memory a multiprocessor
 * takes 18.7 bytes a cycle, of which 30 KB are under way at a latency of 1 us.
 *
 * A position of a KV head at dim 128 in bf16 is 512 bytes of K and V: 27 cycles of memory, in which
 * 109 warp instructions issue. Counted in the machine code for sm_90, of 4 query heads a warp takes
 * 297 for 8 positions of K and 232 of V, and about 680 for its 32 positions of a tile besides: 87 a
 * position in all, of which 32 multiply and add, 8 widen K and V, 8 fold sums of lanes, 18 ask and
 * read the ring, 21 are for items, weights, the exchange and merging. Of 8 heads it takes 287 and
 * 201 for 4 positions, some 145 a position: there arithmetic is the limit, at 1.3 times the bytes.
 *
 * Predicted from that, bytes of valid K and V alone counting:
 *   batch 32, 32/8 heads of 128, bf16, lengths 512 to 4096 (302 MB at the mean of 2304: 72 us):
 *     82 to 90 us, 1.14 to 1.25 times the bytes: partial sums are 3 % of them and stay in the
 *     second-level cache, 3 us are launch, first items and last merges, and issue is busy at 80 %
 *   batch 8, 12/12 heads of 64, bf16, capacity 1024, lengths of 586 at the mean (14.4 MB: 3.4 us):
 *     6.5 to 8 us, of which 1.2 are launch and lengths, 1 is a first latency, 1.5 the last merge
 */
#include "codegen/decode_extents.h"

#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define THREADS 128U
#define PIECE_BYTES 16U
#define LANE_ELEMS 8U
/* Query heads that share a position once it is in registers: as many floats of q, and of the sum,
 * has a thread for each of a lane's elements. */
#define MAX_TILE_HEADS 8U
/* With more heads than this, or with wider elements, a batch is of fewer positions: their scores
 * are in registers too. */
#define HEADS_OF_LONG_BATCH 4U
#define LONG_BATCH 4U
#define SHORT_BATCH 2U
/* Slots of a thread's ring: 32 KiB a block and 128 KiB a multiprocessor, more than it has under
 * way; and at the end of a tile the sums of 8 heads have room there. */
#define RING_PIECES 16U
/* What leaves a thread 128 registers; where it has more heads, or elements of 4 bytes, 168; and 255
 * where it also merges more than two quads. */
#define RESIDENT_BLOCKS 4U
#define FEWER_RESIDENT_BLOCKS 3U
#define FEWEST_RESIDENT_BLOCKS 2U
#define LONG_HEAD_LANES 32U
/* Bytes of a tile that are worth its overhead; where 128 positions are less, 256 are taken. */
#define LEAST_TILE_BYTES 32768U
#define LONG_TILE 256U
/* Partial sums are 3 to 6 % of K and V at a chunk of 128; no call is worth more. */
#define MAX_PARTIAL_BYTES ((size_t)256 << 20)

static uint32_t ceil_pow2(uint32_t n) {
  uint32_t power = 1;
  while (power < n) {
    power *= 2;
  }
  return power;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* Positions of a tile, and the shortest chunk that is worth it. */
static uint32_t tile_of(const struct stg_decode_geometry *g) {
  const size_t position_bytes = 2 * (size_t)g->dim * stg_dtype_bytes(g->dtype);
  return STG_DECODE_MIN_CHUNK * position_bytes >= LEAST_TILE_BYTES ? STG_DECODE_MIN_CHUNK
                                                                   : LONG_TILE;
}

uint32_t stg_decode_chunk(const struct stg_decode_geometry *geometry, int64_t capacity) {
  uint32_t chunk = tile_of(geometry);
  while ((capacity + chunk - 1) / chunk > STG_DECODE_MAX_CHUNKS && chunk < STG_DECODE_MAX_CHUNK) {
    chunk *= 2;
  }
  return chunk;
}

static uint32_t resident_blocks(const struct stg_decode_extents *e) {
  if (e->tile_heads <= HEADS_OF_LONG_BATCH) {
    return e->pieces == 1 ? RESIDENT_BLOCKS : FEWER_RESIDENT_BLOCKS;
  }
  return e->lanes < LONG_HEAD_LANES ? FEWER_RESIDENT_BLOCKS : FEWEST_RESIDENT_BLOCKS;
}

struct stg_decode_extents stg_decode_extents_of(const struct stg_decode_geometry *g) {
  struct stg_decode_extents e = {
      .group = g->heads / g->kv_heads,
      .lanes = ceil_pow2((g->dim + LANE_ELEMS - 1) / LANE_ELEMS),
      .pieces = LANE_ELEMS * (uint32_t)stg_dtype_bytes(g->dtype) / PIECE_BYTES,
      .tile = tile_of(g),
      .threads = THREADS,
      .ring_bytes = RING_PIECES * THREADS * PIECE_BYTES,
      .whole = g->dim * stg_dtype_bytes(g->dtype) % PIECE_BYTES == 0,
  };
  e.group_tiles = (e.group + MAX_TILE_HEADS - 1) / MAX_TILE_HEADS;
  e.tile_heads = (e.group + e.group_tiles - 1) / e.group_tiles;
  e.tiles = g->kv_heads * e.group_tiles;
  e.resident_blocks = resident_blocks(&e);
  if (g->chunk != 0) {
    e.tile = smaller(e.tile, g->chunk);
  }
  const bool is_long = e.tile_heads <= HEADS_OF_LONG_BATCH && e.pieces == 1;
  e.batch = smaller(is_long ? LONG_BATCH : SHORT_BATCH, e.lanes);
  e.depth = RING_PIECES / (e.batch * e.pieces);
  /* the quads of all heads, then two floats of each head */
  e.slot_bytes = (size_t)PIECE_BYTES * (e.tile_heads * 2 * e.lanes + (e.tile_heads + 1) / 2);
  return e;
}

/* Chunks that a row may reach into. */
static int64_t chunks_of(const struct stg_decode_geometry *g, int64_t capacity, int64_t window) {
  const int64_t chunk = (int64_t)g->chunk;
  const int64_t all = (capacity + chunk - 1) / chunk;
  const int64_t some = (window - 1 + chunk - 1) / chunk + 1;
  return window > 0 && some < all ? some : all;
}

struct stg_decode_space stg_decode_space_of(const struct stg_decode_geometry *geometry,
                                            uint32_t max_rows, int64_t capacity, int64_t window) {
  const struct stg_decode_extents e = stg_decode_extents_of(geometry);
  const size_t chunks = (size_t)chunks_of(geometry, capacity, window);
  size_t row_bytes = 0;
  size_t slots;
  struct stg_decode_space space = {.split_rows = smaller(max_rows, STG_DECODE_SPLIT_ROWS),
                                   .chunks = (uint32_t)chunks};
  if (chunks > 1) {
    if (!stg_mul_size(chunks, e.tiles, &slots) || !stg_mul_size(slots, e.slot_bytes, &row_bytes)) {
      row_bytes = SIZE_MAX;
    }
    const size_t fit = MAX_PARTIAL_BYTES / row_bytes;
    space.split_rows = fit < space.split_rows ? (uint32_t)fit : space.split_rows;
  }
  if (chunks > STG_DECODE_MAX_CHUNKS) {
    space.split_rows = 0;
  }
  space.partial_bytes = space.split_rows * row_bytes;
  space.counter_bytes = (size_t)space.split_rows * e.tiles * sizeof(uint32_t);
  return space;
}

struct stg_decode_launch stg_decode_launch_of(const struct stg_decode_geometry *geometry,
                                              const struct stg_decode_space *space, uint32_t rows,
                                              uint32_t multiprocessors) {
  const struct stg_decode_extents e = stg_decode_extents_of(geometry);
  struct stg_decode_launch launch = {.owner = rows > space->split_rows};
  const uint64_t most = (uint64_t)multiprocessors * e.resident_blocks;
  const uint64_t items = (uint64_t)rows * e.tiles * (launch.owner ? 1 : space->chunks);
  launch.blocks = (uint32_t)(items < most ? items : most);
  launch.blocks += launch.blocks == 0;
  return launch;
}

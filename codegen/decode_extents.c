/*
 * decode_extents.c: see decode_extents.h.
 *
 * The figures were chosen on an NVIDIA H200 (driver 580.159.04), where tests/gpu/decode_timing.c
 * timed them: tools/bench/results/kernel-shapes.md has the tables. A plain read of as many bytes is
 * the floor there: 66.5 us for the 302 MB of K and V of 32 rows of 512 to 4096 positions, 8 KV
 * heads of 128 in bf16 (4.5 TB/s).
 *
 * Counted in the machine code for sm_90, a warp takes 555 instructions for a slice of 16 positions
 * at dim 128, be it of 1 query head or of 8, and some 500 for a chunk besides: to look into it, the
 * exchange between warps, partial sums. Of 128 positions that is 45 % of what issues while memory
 * brings them; by threads that multiply and add it was 87 instructions a position for 4 heads.
 *
 * The warps of 3 or 4 blocks have a slice of K and one of V each under way, or one of them while
 * they work: 70 to 140 KB a multiprocessor at dim 64 and 128; and a slice of K at the ends of
 * chunks. A warp could have whole chunks to itself and meet nobody: but a machine has 1584 warps,
 * and those rows have 2400 chunks of 256 positions. 3 blocks leave a thread the registers that many
 * heads and pages take, and have fewer shares to merge: 81.3 us for those rows, 83.5 with 4. But
 * one row of 32768 positions, in chunks of 512, takes 53.1 with 3 and 46.4 with 4, and rows of one
 * query head to a KV head 49.9 and 46.0. 2 blocks of 8 warps, and 7 of 2, take a tenth longer.
 *
 * Chunks of 256 have half the partial sums and exchanges of 128, but coarser shares: 83.5 against
 * 85.7 us for the rows above. In caches of 1024 positions and fewer shares would be too few.
 *
 * A row that is one chunk waits for no other block: chunks of 128, 256 or 512 in its place took 0.2
 * to 1.6 us more at 8 rows of 148 to 1024 positions and 12 heads of 64. Of the 10 us most is
 * neither K nor V, but what the block of the longest row does one after the other.
 */
#include "codegen/decode_extents.h"

#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define WARP_LANES 32U
#define PIECE_BYTES 16U
#define LANE_ELEMS 8U
#define MATRIX_ELEMS 16U
/* Query heads that share a position once it is in shared memory: the columns of a product. */
#define MAX_TILE_HEADS 8U
#define WARPS 4U
/* Where a head is longer, a warp's slice is of fewer positions, of 8 KiB of K at most. */
#define LONG_SLICE_ELEMS 64U
#define LONG_SLICE 32U
#define SHORT_SLICE 16U
/* What leaves a thread 128 registers. */
#define RESIDENT_BLOCKS 4U
/* 168, where K and V come by elements, a mask is looked at besides, or heads of over 64 elements
 * come in groups of 4 and more or by pages. Groups of 4 that come in long chunks can do without. */
#define FEWER_RESIDENT_BLOCKS 3U
#define WIDE_GROUP 4U
/* And 255, with 90 KiB of shared memory. */
#define LONG_HEAD_ELEMS 128U
#define FEWEST_RESIDENT_BLOCKS 2U
/* Of heads that are not long, a cache of no more positions is one chunk, and a chunk of many has
 * more warps in half as many blocks: what a row waits for is then its own K and V alone, not
 * another block's partial sums. */
#define WHOLE_POSITIONS 1024U
#define MANY_POSITIONS 512U
#define MANY_WARPS 8U

/* Of elements of 4 bytes: positions of a batch; slots of a thread's ring, 32 KiB a block; and where
 * more heads than this have their scores in registers, fewer of either. */
#define BATCH 2U
#define RING_PIECES 16U
#define HEADS_OF_MORE_BLOCKS 4U
#define LONG_HEAD_LANES 32U
/* Bytes of a chunk that are worth its overhead; where 128 positions are less, 256 are taken. In
 * long caches of 16-bit elements they are anyway. */
#define LEAST_TILE_BYTES 32768U
#define LONG_TILE 256U
/* Partial sums are 2 to 3 % of K and V at a chunk of 256; no call is worth more. */
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

static uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static uint32_t round_up(uint32_t n, uint32_t unit) {
  return (n + unit - 1) / unit * unit;
}

/* Positions of a tile, and the shortest chunk that is worth it. */
static uint32_t tile_of(const struct stg_decode_geometry *g) {
  const size_t position_bytes = 2 * (size_t)g->dim * stg_dtype_bytes(g->dtype);
  return STG_DECODE_MIN_CHUNK * position_bytes >= LEAST_TILE_BYTES ? STG_DECODE_MIN_CHUNK
                                                                   : LONG_TILE;
}

static bool is_short(const struct stg_decode_geometry *g) {
  return stg_dtype_bytes(g->dtype) == 2 && g->dim <= LONG_SLICE_ELEMS;
}

uint32_t stg_decode_chunk(const struct stg_decode_geometry *geometry, int64_t capacity) {
  uint32_t chunk = tile_of(geometry);
  if (is_short(geometry) && capacity <= WHOLE_POSITIONS) {
    return larger(chunk, ceil_pow2((uint32_t)capacity));
  }
  if (stg_dtype_bytes(geometry->dtype) == 2 && capacity > WHOLE_POSITIONS) {
    chunk = LONG_TILE;
  }
  while ((capacity + chunk - 1) / chunk > STG_DECODE_MAX_CHUNKS && chunk < STG_DECODE_MAX_CHUNK) {
    chunk *= 2;
  }
  return chunk;
}

struct stg_decode_choice stg_decode_choice_of(const struct stg_decode_geometry *g) {
  const bool by_elements = g->loose || g->dim % LANE_ELEMS != 0;
  const uint32_t group = g->heads / g->kv_heads;
  const bool is_wide = group > WIDE_GROUP || (group == WIDE_GROUP && g->chunk < MANY_POSITIONS);
  struct stg_decode_choice choice = {
      .warps = WARPS,
      .slice = g->dim > LONG_SLICE_ELEMS ? SHORT_SLICE : LONG_SLICE,
      .resident_blocks = RESIDENT_BLOCKS,
  };
  if (g->dim > LONG_HEAD_ELEMS) {
    choice.resident_blocks = FEWEST_RESIDENT_BLOCKS;
  } else if (by_elements || g->masked || (g->dim > LONG_SLICE_ELEMS && (g->paged || is_wide))) {
    choice.resident_blocks = FEWER_RESIDENT_BLOCKS;
  }
  if (is_short(g) && g->chunk >= MANY_POSITIONS) {
    choice.warps = MANY_WARPS;
    choice.resident_blocks /= MANY_WARPS / WARPS;
  }
  return choice;
}

/* A warp has a slice of K and one of V, of rows that do not share banks with the next 7. */
static void lay_out_products(struct stg_decode_choice choice, struct stg_decode_extents *e) {
  const uint32_t row_bytes = e->padded * 2 + PIECE_BYTES;
  e->lanes = ceil_pow2(e->padded / LANE_ELEMS);
  e->slice = choice.slice;
  e->threads = choice.warps * WARP_LANES;
  e->resident_blocks = choice.resident_blocks;
  e->ring_bytes = choice.warps * 2 * choice.slice * row_bytes;
}

static void lay_out_lanes(const struct stg_decode_geometry *g, struct stg_decode_extents *e) {
  const uint32_t pieces = LANE_ELEMS * (uint32_t)stg_dtype_bytes(g->dtype) / PIECE_BYTES;
  e->lanes = e->padded / LANE_ELEMS;
  e->threads = WARPS * WARP_LANES;
  e->tile = g->chunk == 0 ? tile_of(g) : smaller(tile_of(g), g->chunk);
  e->batch = smaller(BATCH, e->lanes);
  e->depth = RING_PIECES / (e->batch * pieces);
  e->ring_bytes = RING_PIECES * e->threads * PIECE_BYTES;
  e->resident_blocks = e->tile_heads <= HEADS_OF_MORE_BLOCKS || e->lanes < LONG_HEAD_LANES
                           ? FEWER_RESIDENT_BLOCKS
                           : FEWEST_RESIDENT_BLOCKS;
}

struct stg_decode_extents stg_decode_extents_with(const struct stg_decode_geometry *g,
                                                  struct stg_decode_choice choice) {
  struct stg_decode_extents e = {
      .products = stg_dtype_bytes(g->dtype) == 2,
      .group = g->heads / g->kv_heads,
      .tile = g->chunk,
      .whole = g->dim * stg_dtype_bytes(g->dtype) % PIECE_BYTES == 0,
  };
  e.group_tiles = (e.group + MAX_TILE_HEADS - 1) / MAX_TILE_HEADS;
  e.tile_heads = (e.group + e.group_tiles - 1) / e.group_tiles;
  e.tiles = g->kv_heads * e.group_tiles;
  if (e.products) {
    e.padded = round_up(g->dim, MATRIX_ELEMS);
    lay_out_products(choice, &e);
  } else {
    e.padded = LANE_ELEMS * ceil_pow2((g->dim + LANE_ELEMS - 1) / LANE_ELEMS);
    lay_out_lanes(g, &e);
  }
  /* the elements of all heads, then two floats of each head, in 16 bytes */
  e.slot_bytes =
      sizeof(float) * e.tile_heads * e.padded + PIECE_BYTES * (size_t)((e.tile_heads + 1) / 2);
  return e;
}

struct stg_decode_extents stg_decode_extents_of(const struct stg_decode_geometry *g) {
  return stg_decode_extents_with(g, stg_decode_choice_of(g));
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
  if (chunks == 1 || chunks > STG_DECODE_MAX_CHUNKS) {
    space.split_rows = 0; /* there is nothing to split, or too much to merge */
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

/*
 * rope_extents.c: see rope_extents.h.
 *
 * The figures follow from these counts, for an H200 with 132 multiprocessors at 1.7 GHz and 4.2
 * TB/s of reads and writes, 18.7 bytes a cycle each; the last column is what
 * tests/gpu/rope_timing.c measured on one (driver 580.159.04), a launch as a host captures it.
 *
 * A thread's item of two pieces is 32 bytes in and 32 out. Of 16-bit elements it takes about 130
 * instructions: 16 to widen, 48 to turn 8 pairs, 8 to narrow, 4 loads from shared memory, 4 to and
 * from memory, 50 for where it comes from and goes to; a warp of them has 2048 bytes, 110 cycles of
 * a multiprocessor's share, and 33 cycles of its four schedulers. Each block adds about 200
 * instructions a warp: its row's place, one sine and cosine, their way into shared memory.
 *
 * What hides the 600 to 900 ns of a load under full traffic is bytes on their way: the reads, half
 * of 18.7 bytes a cycle, by 1500 cycles are 14 KiB. 1024 threads of up to 3 items, all asked for
 * before any is worked on, are 96 KiB where all have theirs on the way, and 32 KiB where a third
 * has. For that a thread has 64 registers, 24 of them for what it asked for.
 *
 *   shape                                            bytes      floor      predicted  measured
 *   4 x 2048 rows, 32/8 heads of 64, bf16, with V    100.7 MB   24.0 us    26 us      27.0 us
 *   the same, Q and K alone                           83.9 MB   20.0 us    22 us      23.8 us
 *   8 x 2048 rows, 32/32 heads of 128, f32, Q and K    1.07 GB   256 us    270 us     263 us
 *   8192 rows, 32/8 heads of 128, bf16, with V       201.3 MB   47.9 us    51 us      50.5 us
 *   32 rows, 32/8 heads of 128, bf16, appended        0.79 MB   latency    2.3 us     2.0 us
 *
 * The last: a launch of 0.9 us, then, one after the other, the map (0.45 us from the second level),
 * length and row together (0.5), a sine behind a barrier (0.15), the turning and the stores (0.3).
 * With 3 spans to a row each thread has one item there; with one it would have three, 0.3 us more.
 */
#include "codegen/rope_extents.h"

#include <assert.h>

#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define WARP_THREADS 32
#define PIECE_BYTES 16
/* Of a block: enough for a few of the angles each, and few enough for several blocks. */
#define MAX_THREADS 128
/* Items that a thread asks for before it works on any: 24 registers, of float32, which has fewer to
 * work with, 32; one less where there are the scales of xPos to keep as well. */
#define MAX_TURNS 3
#define MAX_TURNS_F32 4
/* Threads that a multiprocessor is to hold at once, which leave each 64 registers. */
#define RESIDENT_THREADS 1024
/* What the smaller architectures hold of blocks. */
#define MAX_RESIDENT_BLOCKS 16
/* A launch of fewer blocks leaves multiprocessors idle or with little to hide waits behind: there
 * rows are cut as finely as can be. Two blocks for each multiprocessor of an H200. */
#define FEW_BLOCKS 264

static uint32_t ceil_div(uint32_t x, uint32_t by) {
  return (uint32_t)stg_ceil_div(x, by);
}

/* Elements of a wide piece. */
static uint32_t piece_elems(const struct stg_rope_geometry *g) {
  return PIECE_BYTES / (uint32_t)stg_dtype_bytes(g->dtype);
}

/* Pairs come in whole pieces, whichever they are. */
static bool is_wide(const struct stg_rope_geometry *g) {
  return g->dim % piece_elems(g) == 0 && g->rot % (2 * piece_elems(g)) == 0;
}

static uint32_t most_turns(const struct stg_rope_geometry *g) {
  const uint32_t most = g->dtype == STG_F32 ? MAX_TURNS_F32 : MAX_TURNS;
  return g->xpos == STG_ROPE_XPOS_NONE ? most : most - 1;
}

struct stg_rope_extents stg_rope_extents_of(const struct stg_rope_geometry *g) {
  const uint32_t piece = is_wide(g) ? piece_elems(g) : 1;
  const uint32_t turned = g->rot / (2 * piece);
  const uint32_t passing = ceil_div((g->dim - g->rot) / piece, 2);
  const uint32_t heads = g->heads + 2 * g->kv_heads;
  const uint32_t items = heads * (turned + passing);
  const uint32_t most = most_turns(g);
  const uint32_t wanted = ceil_div(items, MAX_THREADS);
  const uint32_t turns = wanted < most ? wanted : most;
  assert(turns > 0);
  const uint32_t even = ceil_div(items, turns);
  const uint32_t warps = ceil_div(even < MAX_THREADS ? even : MAX_THREADS, WARP_THREADS);
  const uint32_t threads = warps * WARP_THREADS;
  const uint32_t resident = RESIDENT_THREADS / threads;
  return (struct stg_rope_extents){
      .row_heads = heads,
      .wide = is_wide(g),
      .units = turned + passing,
      .turned_units = turned,
      .items = items,
      .threads = threads,
      .turns = turns,
      .resident_blocks = resident < MAX_RESIDENT_BLOCKS ? resident : MAX_RESIDENT_BLOCKS,
  };
}

struct stg_rope_spans stg_rope_spans_of(const struct stg_rope_geometry *g, int64_t rows,
                                        bool v_stays) {
  const struct stg_rope_extents e = stg_rope_extents_of(g);
  const uint32_t block_items = e.threads * e.turns;
  /* V stands last, but in groups */
  const bool ends_early = v_stays && g->layout != STG_ROPE_LAYOUT_GROUPED;
  const uint32_t items = ends_early ? (g->heads + g->kv_heads) * e.units : e.items;
  const uint32_t whole = ceil_div(items, block_items);
  if (rows >= ceil_div(FEW_BLOCKS, whole)) {
    return (struct stg_rope_spans){.spans = whole, .span_items = block_items};
  }
  return (struct stg_rope_spans){.spans = ceil_div(items, e.threads), .span_items = e.threads};
}

/*
 * components_extents.c: see components_extents.h.
 *
 * They follow from these counts. What a product of 16 x 8 x 16 reads of shared memory limits it:
 * 128 bytes a cycle of a multiprocessor, which could begin one in 1.5 cycles. A warp's tile of 32 x
 * 32 reads 256 bytes for each, of 32 x 64 192, of 32 x 176 151. At 128 -> 128 all of a chunk, with
 * its intermediate and what the ring writes, comes to 238 for each product; at 128 -> 341 to 199.
 * Of weights, t and g read about 350 and sums over rows 230 where a side has 128, 145 where it has
 * 341. On an H200 an apply of 128 -> 128 then took 45 us of 16384 rows, shared memory 44 % busy,
 * the tensor cores 37 % and issue 32 %: the 8 warps that sums leave room for wait for their
 * latencies.
 */
#include "codegen/components_extents.h"

#include <assert.h>

#include "codegen/components_args.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define THREADS 256
#define WARPS 8
#define LANES 32
#define UNIT_BYTES 16
#define STRIP 8 /* columns of a product */
#define STEP 16 /* rows, columns and depth of what a warp multiplies at once */

/* Of a multiprocessor there are as many rows as make a block for each of an H200's 132. */
#define FEW_ROWS 4224
#define MANY_ROWS 8448

/* Columns of 32 rows whose sums a thread has room for, beside what it multiplies. */
#define MOST_WARP_COLUMNS 176
/* dd, which is summed from them, takes some. */
#define MOST_DD_COLUMNS 160
/* Exact float32 has sums of parts beside them, and what it multiplies in two. */
#define MOST_EXACT_COLUMNS 96

/* A row of pieces is brought by no fewer. */
#define LEAST_OWN_THREADS 128

/* What a row of a tile has in static memory: where its mask begins, and d; of apply dd as well. */
#define KNOWN_BYTES 12
#define ROW_BYTES 16

/* Of weights: warps beside each other have 2 parts of the block's components, those below each
 * other every fourth tile of a side. A thread has room for so many sums. */
#define SUM_WARPS_N 2
#define SUM_WARPS_M (WARPS / SUM_WARPS_N)
#define MOST_SUMS 160
#define MOST_EXACT_SUMS 64

static uint32_t ceil_div(uint32_t x, uint32_t by) {
  return (uint32_t)stg_ceil_div(x, by);
}
static uint32_t round_up(uint32_t x, uint32_t by) {
  return ceil_div(x, by) * by;
}
static uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* Products that have sums of parts of STG_COMPONENTS_PART of their depth: chunks and tiles are not
 * less, so that they change no bit. */
static bool is_exact(const struct stg_components_geometry *g) {
  return g->dtype == STG_F32 && !g->tf32;
}

/* Bytes of a matrix in shared memory: rows have an odd number of units. */
static uint32_t matrix_bytes(uint32_t rows, uint32_t pieces) {
  return rows * (pieces | 1) * UNIT_BYTES;
}

/* The same of one that a product takes by rows of its depth, of which float32 are read word by
 * word: rows are 2 units apart, or 6, and a multiple of 4. */
static uint32_t factor_bytes(stg_dtype dtype, uint32_t rows, uint32_t pieces) {
  return dtype == STG_F32 ? rows * ((pieces + 1) / 4 * 4 + 2) * UNIT_BYTES
                          : matrix_bytes(rows, pieces);
}

uint32_t stg_components_shared_bytes(uint32_t sm) {
  switch (sm) {
  case 80:
  case 87:
    return 166912;
  case 90:
  case 100:
  case 103:
    return 232448;
  default:
    return 101376;
  }
}

uint32_t stg_components_tile_of(int64_t max_rows) {
  return max_rows <= FEW_ROWS ? 32 : max_rows <= MANY_ROWS ? 64 : 128;
}

int64_t stg_components_sum_blocks(const struct stg_components_geometry *g, int64_t rows,
                                  int64_t share, bool shared_dm) {
  const int64_t components = g->components;
  const int64_t elements = (g->d_in + (int64_t)g->d_out) * components +
                           (g->delta ? (int64_t)g->d_in * g->d_out : 0) + (g->bias ? g->d_out : 0) +
                           (shared_dm ? stg_components_groups(rows, share) * components : 0);
  return (elements + STG_COMPONENTS_SUM_THREADS - 1) / STG_COMPONENTS_SUM_THREADS;
}

/* How warps share the result of a tile, and the intermediate of a chunk. */
static struct stg_components_extents spread(uint32_t out, uint32_t tile, uint32_t chunk,
                                            uint32_t stages) {
  struct stg_components_extents e = {
      .threads = THREADS, .tile = tile, .chunk = chunk, .stages = stages};
  e.warps_n = tile == 128 ? 2 : 4;
  e.warp_rows = tile / (WARPS / e.warps_n);
  e.warp_columns = round_up(ceil_div(out, e.warps_n), STEP);
  /* as square as can be, for as many warps as there are */
  const uint32_t steps = tile / STEP * (chunk / STEP);
  const uint32_t each = ceil_div(steps, WARPS); /* 4, 2 or 1 */
  e.s_rows = each >= 2 ? 2 * STEP : STEP;
  e.s_columns = each >= 4 ? 2 * STEP : STEP;
  e.static_bytes = tile * ROW_BYTES;
  return e;
}

/* How warps have rows of their own. */
static struct stg_components_extents spread_own(uint32_t out, uint32_t tile,
                                                struct stg_components_choice choice) {
  return (struct stg_components_extents){.threads = tile / choice.rows * LANES,
                                         .tile = tile,
                                         .chunk = choice.chunk,
                                         .stages = choice.stages,
                                         .warps_n = 1,
                                         .warp_rows = choice.rows,
                                         .warp_columns = round_up(out, STEP),
                                         .own = true,
                                         .s_rows = choice.rows,
                                         .s_columns = choice.columns,
                                         .static_bytes = tile * ROW_BYTES};
}

static uint32_t dynamic_bytes(const struct stg_components_kernel *kernel,
                              const struct stg_components_extents *e) {
  const struct stg_components_geometry *g = &kernel->geometry;
  const bool in_place = g->mask == STG_COMPONENTS_MASK_DTYPE;
  const uint32_t piece = UNIT_BYTES / (uint32_t)stg_dtype_bytes(g->dtype);
  const uint32_t in_columns = round_up(kernel->turned ? g->d_out : g->d_in, STEP);
  const uint32_t out_columns = e->warps_n * e->warp_columns;
  const uint32_t in_pieces = in_columns / piece;
  const uint32_t out_pieces = out_columns / piece;
  const uint32_t chunk_pieces = e->chunk / piece;
  const uint32_t by_columns = factor_bytes(g->dtype, e->chunk, out_pieces);
  const uint32_t by_rows = matrix_bytes(out_columns, chunk_pieces);
  const uint32_t first = kernel->turned ? matrix_bytes(e->chunk, in_pieces)
                                        : factor_bytes(g->dtype, in_columns, chunk_pieces);
  const uint32_t second = kernel->turned ? by_rows : by_columns;
  const uint32_t mask =
      g->mask == STG_COMPONENTS_MASK_NONE
          ? 0
          : matrix_bytes(e->tile, in_place ? chunk_pieces : e->chunk / UNIT_BYTES);
  const uint32_t delta = !g->delta ? 0 : kernel->turned ? by_columns : by_rows;
  return matrix_bytes(e->tile, in_pieces) +
         (in_place || e->own ? 0 : matrix_bytes(e->tile, chunk_pieces)) +
         e->stages * larger(first + second + mask, delta);
}

/* Columns of 32 rows whose sums a thread may have. */
static uint32_t most_columns(const struct stg_components_kernel *kernel) {
  if (is_exact(&kernel->geometry)) {
    return MOST_EXACT_COLUMNS;
  }
  return kernel->turned && kernel->geometry.delta ? MOST_DD_COLUMNS : MOST_WARP_COLUMNS;
}

/* Of a tile and a ring; false: there is no room, of registers or of shared memory. */
static bool try_ring(const struct stg_components_kernel *kernel, uint32_t tile,
                     struct stg_components_choice choice, struct stg_components_extents *ret) {
  const uint32_t out = kernel->turned ? kernel->geometry.d_in : kernel->geometry.d_out;
  const bool exact = is_exact(&kernel->geometry);
  struct stg_components_extents e = choice.rows != 0
                                        ? spread_own(out, tile, choice)
                                        : spread(out, tile, choice.chunk, choice.stages);
  e.dynamic_bytes = dynamic_bytes(kernel, &e);
  if (exact && e.chunk < STG_COMPONENTS_PART) {
    return false;
  }
  const uint32_t columns =
      exact || e.own ? most_columns(kernel) * 2 * STEP / e.warp_rows : most_columns(kernel);
  if (e.warp_columns > columns ||
      e.static_bytes + e.dynamic_bytes > stg_components_shared_bytes(kernel->sm)) {
    return false;
  }
  *ret = e;
  return true;
}

/* Whether a tile may be spread so. */
static bool is_possible(const struct stg_components_kernel *kernel,
                        struct stg_components_choice c) {
  const bool own = c.rows == STEP || c.rows == 2 * STEP;
  const bool columns = c.columns >= STEP && c.columns % STEP == 0 && c.chunk % c.columns == 0;
  return c.rows == 0 || (own && columns && kernel->geometry.dtype != STG_F32 &&
                         kernel->tile / c.rows * LANES >= LEAST_OWN_THREADS);
}

struct stg_components_extents
stg_components_extents_of(const struct stg_components_kernel *kernel) {
  /* In the order in which they are wanted, the last of exact float32 alone; of 16-bit types the one
   * before it fits wherever a tile of 32 rows is. */
  static const struct stg_components_choice rings[] = {
      {.chunk = 64, .stages = 3}, {.chunk = 64, .stages = 2}, {.chunk = 32, .stages = 3},
      {.chunk = 32, .stages = 2}, {.chunk = 16, .stages = 3}, {.chunk = 16, .stages = 2},
      {.chunk = 16, .stages = 1}, {.chunk = 32, .stages = 1}};
  const struct stg_components_choice chosen = kernel->choice;
  struct stg_components_extents e = {0};
  for (uint32_t tile = kernel->tile; tile >= 32; tile /= 2) {
    for (size_t i = 0; i < sizeof rings / sizeof rings[0]; i++) {
      struct stg_components_choice ring = rings[i];
      ring.rows = chosen.rows;
      ring.columns = chosen.columns;
      if ((chosen.chunk == 0 || (chosen.chunk == ring.chunk && chosen.stages == ring.stages)) &&
          is_possible(kernel, ring) && try_ring(kernel, tile, ring, &e)) {
        return e;
      }
    }
    if (chosen.rows != 0 || chosen.chunk != 0) { /* of this tile alone */
      break;
    }
  }
  assert(kernel->geometry.dtype == STG_F32 || chosen.rows != 0 ||
         chosen.chunk != 0); /* sizes were checked */
  return e;
}

/* ---- weights ---- */

static uint32_t weights_dynamic_bytes(const struct stg_components_geometry *g,
                                      const struct stg_components_weights_extents *e) {
  const uint32_t piece = UNIT_BYTES / (uint32_t)stg_dtype_bytes(g->dtype);
  const uint32_t in_columns = round_up(g->d_in, STEP);
  const uint32_t out_pieces = round_up(g->d_out, STEP) / piece;
  const uint32_t block_pieces = e->block / piece;
  const bool in_place = g->mask == STG_COMPONENTS_MASK_DTYPE;
  const uint32_t narrow = factor_bytes(g->dtype, e->tile, block_pieces);
  const uint32_t dy = matrix_bytes(e->tile, out_pieces);
  const uint32_t mask = g->mask == STG_COMPONENTS_MASK_NONE ? 0
                        : in_place                          ? narrow
                                   : matrix_bytes(e->tile, e->block / UNIT_BYTES);
  const uint32_t stage =
      larger(dy + matrix_bytes(e->tile, in_columns / piece) + mask, g->delta ? dy + narrow : 0);
  return factor_bytes(g->dtype, in_columns, block_pieces) + matrix_bytes(e->block, out_pieces) +
         narrow + (in_place ? 0 : narrow) + e->stages * stage;
}

/* Rows that are known, and sums of groups of them. */
static uint32_t weights_static_bytes(const struct stg_components_weights_extents *e) {
  return (e->stages + 1) * e->tile * KNOWN_BYTES +
         2 * (e->tile / STEP) * e->block * (uint32_t)sizeof(float);
}

static uint32_t sums_of_thread(const struct stg_components_geometry *g, uint32_t block) {
  const uint32_t rows = SUM_WARPS_M * STEP;
  const uint32_t tiles = ceil_div(g->d_in, rows) + ceil_div(g->d_out, rows);
  return tiles * (block / STRIP / SUM_WARPS_N) * 4;
}

struct stg_components_weights_extents
stg_components_weights_extents_of(const struct stg_components_kernel *kernel) {
  /* In the order in which they are wanted, each with whatever block fits; of 16-bit types the last
   * but one does wherever sizes are allowed, and the last is of exact float32 alone. */
  static const struct {
    uint32_t least, tile, stages;
  } rings[] = {{STG_COMPONENTS_BLOCK, 64, 2},
               {64, 32, 2},
               {64, 16, 2},
               {32, 32, 2},
               {32, 32, 1},
               {16, 16, 1},
               {16, 32, 1}};
  const struct stg_components_geometry *g = &kernel->geometry;
  const uint32_t most = stg_components_shared_bytes(kernel->sm);
  const bool exact = is_exact(g);
  const uint32_t sums = exact ? MOST_EXACT_SUMS : MOST_SUMS;
  struct stg_components_weights_extents e = {0};
  for (size_t i = 0; i < sizeof rings / sizeof rings[0]; i++) {
    if (exact && rings[i].tile < STG_COMPONENTS_PART) {
      continue;
    }
    for (uint32_t block = STG_COMPONENTS_BLOCK; block >= rings[i].least; block -= STEP) {
      e = (struct stg_components_weights_extents){.threads = THREADS,
                                                  .tile = rings[i].tile,
                                                  .block = block,
                                                  .stages = rings[i].stages,
                                                  .warps_n = SUM_WARPS_N,
                                                  .s_rows = STEP};
      e.static_bytes = weights_static_bytes(&e);
      e.dynamic_bytes = weights_dynamic_bytes(g, &e);
      if (sums_of_thread(g, block) <= sums && e.static_bytes + e.dynamic_bytes <= most) {
        return e;
      }
    }
  }
  assert(g->dtype == STG_F32); /* sizes were checked */
  return (struct stg_components_weights_extents){0};
}

int64_t stg_components_weights_blocks(const struct stg_components_kernel *kernel, int64_t rows) {
  const struct stg_components_geometry *g = &kernel->geometry;
  const uint32_t block = stg_components_weights_extents_of(kernel).block;
  const int64_t of_span = (int64_t)ceil_div(g->components, block) +
                          (g->delta ? ceil_div(g->d_in, block) : 0) + (g->bias ? 1 : 0);
  return of_span * stg_components_spans(g->components, rows);
}

/*
 * gram.c: a hash table from unordered pairs of ids to float32 dots.
 *
 * Pairs of forgotten vectors go many at once: a walk over the table for each vector would make the
 * release of n vectors take n^2. Ids are not reused, so a pair that stays a while is never wrong.
 */
#include "engine/gram.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define INITIAL_CELLS 256
/* A sweep is worth its walk when the forgotten are this part of the cells. */
#define CELLS_PER_FORGOTTEN 8
#define LANES ((size_t)16)
#define BLOCK_ELEMS ((size_t)(32 * LANES))

struct cell {
  uint64_t low, high; /* ids, low <= high; low 0: empty */
  float dot;
};

struct stg_gram_memo {
  struct cell *cells; /* open addressing, a power of two, at most half full */
  size_t n_cells;
  size_t used;
  uint64_t hits;
  uint64_t *forgotten; /* ids whose pairs the next sweep drops */
  size_t n_forgotten;
  size_t forgotten_capacity;
};

stg_status stg_gram_memo_create(struct stg_gram_memo **ret_memo, stg_error *reterr) {
  struct stg_gram_memo *memo = stg_calloc(1, sizeof *memo);
  struct cell *cells = stg_calloc(INITIAL_CELLS, sizeof *cells);
  if (memo == NULL || cells == NULL) {
    stg_free(memo);
    stg_free(cells);
    return stg_error_memory(reterr, "the gram memo", INITIAL_CELLS * sizeof *cells);
  }
  memo->cells = cells;
  memo->n_cells = INITIAL_CELLS;
  *ret_memo = memo;
  return STG_OK;
}

void stg_gram_memo_destroy(struct stg_gram_memo *memo) {
  if (memo != NULL) {
    stg_free(memo->cells);
    stg_free(memo->forgotten);
    stg_free(memo);
  }
}

static size_t hash_pair(uint64_t low, uint64_t high) {
  uint64_t h = low * 0x9e3779b97f4a7c15u ^ (high + 0x7f4a7c15u) * 0xc2b2ae3d27d4eb4fu;
  return (size_t)(h ^ h >> 29);
}

/* The pair's cell, or the empty one where it belongs. */
static struct cell *find_cell(struct cell *cells, size_t n_cells, uint64_t low, uint64_t high) {
  size_t i = hash_pair(low, high) & (n_cells - 1);
  while (cells[i].low != 0 && (cells[i].low != low || cells[i].high != high)) {
    i = (i + 1) & (n_cells - 1);
  }
  return &cells[i];
}

static stg_status grow(struct stg_gram_memo *memo, stg_error *reterr) {
  size_t n_cells = 2 * memo->n_cells;
  struct cell *cells = stg_calloc(n_cells, sizeof *cells);
  if (cells == NULL) {
    return stg_error_memory(reterr, "the gram memo", n_cells * sizeof *cells);
  }
  for (size_t i = 0; i < memo->n_cells; i++) {
    const struct cell *c = &memo->cells[i];
    if (c->low != 0) {
      *find_cell(cells, n_cells, c->low, c->high) = *c;
    }
  }
  stg_free(memo->cells);
  memo->cells = cells;
  memo->n_cells = n_cells;
  return STG_OK;
}

/* Empty a cell, moving later ones up so that no search ends too early. */
static void remove_at(struct stg_gram_memo *memo, size_t at) {
  struct cell *cells = memo->cells;
  size_t mask = memo->n_cells - 1;
  size_t hole = at;
  for (size_t i = (at + 1) & mask; cells[i].low != 0; i = (i + 1) & mask) {
    size_t home = hash_pair(cells[i].low, cells[i].high) & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      cells[hole] = cells[i];
      hole = i;
    }
  }
  cells[hole] = (struct cell){0};
  memo->used--;
}

static int compare_ids(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static bool is_forgotten(const struct stg_gram_memo *memo, uint64_t id) {
  return bsearch(&id, memo->forgotten, memo->n_forgotten, sizeof id, compare_ids) != NULL;
}

/* Drop the pairs of all that was forgotten. */
static void sweep(struct stg_gram_memo *memo) {
  if (memo->n_forgotten == 0) {
    return;
  }
  qsort(memo->forgotten, memo->n_forgotten, sizeof *memo->forgotten, compare_ids);
  for (size_t i = 0; i < memo->n_cells; i++) {
    /* again at the same place: a removal moves others up */
    const struct cell *c = &memo->cells[i];
    while (c->low != 0 && (is_forgotten(memo, c->low) || is_forgotten(memo, c->high))) {
      remove_at(memo, i);
    }
  }
  memo->n_forgotten = 0;
}

static void widen_padded(stg_dtype dtype, const void *src, size_t count, size_t padded,
                         float *ret_row) {
  stg_convert(STG_F32, ret_row, dtype, src, count);
  memset(ret_row + count, 0, (padded - count) * sizeof *ret_row);
}

/* Whole groups of lanes, the form that gcc and clang vectorise at -O2. */
static void add_products(const float *x, const float *y, size_t padded, double *restrict lanes) {
  for (size_t k = 0; k < padded; k += LANES) {
    for (size_t l = 0; l < LANES; l++) {
      lanes[l] += (double)x[k + l] * (double)y[k + l];
    }
  }
}

/*
 * Element k adds to lane k % LANES; at the end the upper half of the lanes adds to the lower half,
 * until one is left. Products (24 bits by 24 bits) are exact in float64, so that only this order
 * decides the bits.
 */
static float dot_f64(const struct stg_gram_side *a, const struct stg_gram_side *b, size_t length) {
  const unsigned char *a_bytes = a->data, *b_bytes = b->data;
  const bool same = a_bytes == b_bytes && a->dtype == b->dtype;
  double lanes[LANES] = {0};
  float x[BLOCK_ELEMS], y[BLOCK_ELEMS];
  for (size_t done = 0; done < length; done += BLOCK_ELEMS) {
    const size_t elems = length - done < BLOCK_ELEMS ? length - done : BLOCK_ELEMS;
    const size_t padded = stg_round_up(elems, LANES);
    widen_padded(a->dtype, a_bytes + done * stg_dtype_bytes(a->dtype), elems, padded, x);
    if (!same) {
      widen_padded(b->dtype, b_bytes + done * stg_dtype_bytes(b->dtype), elems, padded, y);
    }
    add_products(x, same ? x : y, padded, lanes);
  }
  for (size_t width = LANES / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; l++) {
      lanes[l] += lanes[l + width];
    }
  }
  return (float)lanes[0];
}

stg_status stg_gram_memo_get(struct stg_gram_memo *memo, const struct stg_gram_side *a,
                             const struct stg_gram_side *b, size_t length, float *ret_dot,
                             stg_error *reterr) {
  uint64_t low = a->id < b->id ? a->id : b->id;
  uint64_t high = a->id < b->id ? b->id : a->id;
  struct cell *cell = find_cell(memo->cells, memo->n_cells, low, high);
  if (cell->low != 0) {
    memo->hits++;
    *ret_dot = cell->dot;
    return STG_OK;
  }
  if (2 * (memo->used + 1) > memo->n_cells) {
    sweep(memo);
    if (2 * (memo->used + 1) > memo->n_cells) {
      stg_status status = grow(memo, reterr);
      if (status != STG_OK) {
        return status;
      }
    }
    cell = find_cell(memo->cells, memo->n_cells, low, high);
  }
  *cell = (struct cell){.low = low, .high = high, .dot = dot_f64(a, b, length)};
  memo->used++;
  *ret_dot = cell->dot;
  return STG_OK;
}

void stg_gram_memo_forget(struct stg_gram_memo *memo, uint64_t id) {
  if (memo->n_forgotten == memo->forgotten_capacity) {
    size_t capacity = memo->forgotten_capacity == 0 ? 64 : 2 * memo->forgotten_capacity;
    uint64_t *forgotten = stg_realloc(memo->forgotten, capacity * sizeof *forgotten);
    if (forgotten == NULL) {
      return; /* pairs that stay are dead weight, not wrong */
    }
    memo->forgotten = forgotten;
    memo->forgotten_capacity = capacity;
  }
  memo->forgotten[memo->n_forgotten++] = id;
  if (memo->n_forgotten > memo->n_cells / CELLS_PER_FORGOTTEN) {
    sweep(memo);
  }
}

void stg_gram_memo_counters(struct stg_gram_memo *memo, uint64_t *ret_pairs, uint64_t *ret_hits) {
  sweep(memo);
  *ret_pairs = memo->used;
  *ret_hits = memo->hits;
}

/*
 * gram.c: a hash table from unordered pairs of ids to float32 dots.
 */
#include "engine/gram.h"

#include <stdbool.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

#define INITIAL_CELLS 256

struct cell {
  uint64_t low, high; /* ids, low <= high; low 0: empty */
  float dot;
};

struct stg_gram_memo {
  struct cell *cells; /* open addressing, a power of two, at most half full */
  size_t n_cells;
  size_t used;
  uint64_t hits;
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

/* Move every pair that is not of `without` into a table of n_cells. */
static stg_status rehash(struct stg_gram_memo *memo, size_t n_cells, uint64_t without,
                         stg_error *reterr) {
  struct cell *cells = stg_calloc(n_cells, sizeof *cells);
  if (cells == NULL) {
    return stg_error_memory(reterr, "the gram memo", n_cells * sizeof *cells);
  }
  memo->used = 0;
  for (size_t i = 0; i < memo->n_cells; i++) {
    const struct cell *c = &memo->cells[i];
    if (c->low != 0 && c->low != without && c->high != without) {
      *find_cell(cells, n_cells, c->low, c->high) = *c;
      memo->used++;
    }
  }
  stg_free(memo->cells);
  memo->cells = cells;
  memo->n_cells = n_cells;
  return STG_OK;
}

/* Four partial sums in one fixed order: exact products (24 bits by 24 bits) in float64. */
static float dot_f64(const struct stg_gram_side *a, const struct stg_gram_side *b, size_t length) {
  double sums[4] = {0.0, 0.0, 0.0, 0.0};
  for (size_t i = 0; i < length; i++) {
    sums[i % 4] +=
        (double)stg_load_f32(a->dtype, a->data, i) * (double)stg_load_f32(b->dtype, b->data, i);
  }
  return (float)((sums[0] + sums[1]) + (sums[2] + sums[3]));
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
    stg_status status = rehash(memo, 2 * memo->n_cells, 0, reterr);
    if (status != STG_OK) {
      return status;
    }
    cell = find_cell(memo->cells, memo->n_cells, low, high);
  }
  *cell = (struct cell){.low = low, .high = high, .dot = dot_f64(a, b, length)};
  memo->used++;
  *ret_dot = cell->dot;
  return STG_OK;
}

void stg_gram_memo_forget(struct stg_gram_memo *memo, uint64_t id) {
  bool present = false;
  for (size_t i = 0; i < memo->n_cells && !present; i++) {
    present = memo->cells[i].low != 0 && (memo->cells[i].low == id || memo->cells[i].high == id);
  }
  if (present) {
    /* ids are not reused, so pairs that stay when memory is short are dead weight, not wrong */
    stg_status status = rehash(memo, memo->n_cells, id, NULL);
    (void)status;
  }
}

void stg_gram_memo_counters(const struct stg_gram_memo *memo, uint64_t *ret_pairs,
                            uint64_t *ret_hits) {
  *ret_pairs = memo->used;
  *ret_hits = memo->hits;
}

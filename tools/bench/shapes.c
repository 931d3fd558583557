/*
 * bench/shapes.c: see shapes.h.
 */
#include "tools/bench/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "specs/random.h"

/* A number in 1..limit: the high part of a product, whose bias is below limit / 2^32. */
static uint32_t pick(uint32_t word, uint32_t limit) {
  return (uint32_t)(((uint64_t)word * limit) >> 32) + 1;
}

static void fill_one(uint64_t seed, size_t index, struct stg_bench_shape *shape) {
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t words[4];
  *shape = (struct stg_bench_shape){0};
  stg_philox4x32((const uint32_t[4]){(uint32_t)index, 0, 0, 0}, key, words);
  shape->n_requests = pick(words[0], STG_SHAPE_MAX_REQUESTS);
  for (uint32_t r = 0; r < shape->n_requests; r++) {
    if (r % 4 == 0) {
      stg_philox4x32((const uint32_t[4]){(uint32_t)index, 1 + r / 4, 0, 0}, key, words);
    }
    const uint32_t length = pick(words[r % 4], STG_SHAPE_MAX_LENGTH);
    shape->lengths[r] = (uint8_t)length;
    shape->rows += length;
    shape->longest = length > shape->longest ? length : shape->longest;
  }
}

void stg_bench_shapes_fill(uint64_t seed, size_t count, struct stg_bench_shape *ret_shapes) {
  for (size_t i = 0; i < count; i++) {
    fill_one(seed, i, &ret_shapes[i]);
  }
}

static int compare_u32(uint32_t a, uint32_t b) {
  return (a > b) - (a < b);
}

static int by_rows(const void *a, const void *b) {
  const struct stg_bench_shape *x = a;
  const struct stg_bench_shape *y = b;
  return compare_u32(x->rows, y->rows);
}

static int by_counts(const void *a, const void *b) {
  const struct stg_bench_shape *x = a;
  const struct stg_bench_shape *y = b;
  int order = compare_u32(x->n_requests, y->n_requests);
  order = order != 0 ? order : compare_u32(x->longest, y->longest);
  return order != 0 ? order : by_rows(a, b);
}

static int by_lengths(const void *a, const void *b) {
  const struct stg_bench_shape *x = a;
  const struct stg_bench_shape *y = b;
  return memcmp(x->lengths, y->lengths, sizeof x->lengths);
}

size_t stg_bench_shapes_distinct(struct stg_bench_shape *shapes, size_t count,
                                 enum stg_shape_identity identity) {
  int (*compare)(const void *, const void *) = identity == STG_SHAPE_BY_ROWS     ? by_rows
                                               : identity == STG_SHAPE_BY_COUNTS ? by_counts
                                                                                 : by_lengths;
  qsort(shapes, count, sizeof *shapes, compare);
  size_t distinct = 1;
  for (size_t i = 1; i < count; i++) {
    distinct += compare(&shapes[i - 1], &shapes[i]) != 0 ? 1 : 0;
  }
  return distinct;
}

void stg_bench_shape_map(const struct stg_bench_shape *shape, int32_t tail, int32_t *ret_map) {
  size_t row = 0;
  for (uint32_t r = 0; r < shape->n_requests; r++) {
    for (uint32_t i = 0; i < shape->lengths[r]; i++) {
      ret_map[row++] = (int32_t)r;
    }
  }
  while (row < STG_SHAPE_MAX_ROWS) {
    ret_map[row++] = tail;
  }
}

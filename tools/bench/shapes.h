/*
 * bench/shapes.h: random batch shapes, as a serving engine sees them, and how many differ.
 */
#ifndef STG_TOOLS_BENCH_SHAPES_H
#define STG_TOOLS_BENCH_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#define STG_SHAPE_MAX_REQUESTS 32
#define STG_SHAPE_MAX_LENGTH 64
#define STG_SHAPE_MAX_ROWS 2048
_Static_assert(STG_SHAPE_MAX_ROWS == STG_SHAPE_MAX_REQUESTS * STG_SHAPE_MAX_LENGTH, "of a shape");

/* One batch: the rows of each request, in order. Lengths past n_requests are 0. */
struct stg_bench_shape {
  uint32_t n_requests;
  uint32_t longest;
  uint32_t rows;
  uint8_t lengths[STG_SHAPE_MAX_REQUESTS];
};

/* What two shapes share when a system takes them for one. */
enum stg_shape_identity {
  STG_SHAPE_BY_LENGTHS, /* the length of every request: a loop over slices */
  STG_SHAPE_BY_COUNTS,  /* requests, the longest one and rows */
  STG_SHAPE_BY_ROWS     /* rows alone: one tensor of [rows, hidden] */
};

/**
 * Fill `count` shapes: 1..32 requests of 1..64 rows, each number as likely as another. Shape i
 * depends on the seed and i alone, and is the same on every platform.
 */
void stg_bench_shapes_fill(uint64_t seed, size_t count, struct stg_bench_shape *ret_shapes);

/** How many of `count` > 0 shapes differ; sorts them by what is compared. */
size_t stg_bench_shapes_distinct(struct stg_bench_shape *shapes, size_t count,
                                 enum stg_shape_identity identity);

/**
 * Fill the row map of a shape: request r is slot r. `ret_map` holds STG_SHAPE_MAX_ROWS entries;
 * those past the shape's rows become `tail`.
 */
void stg_bench_shape_map(const struct stg_bench_shape *shape, int32_t tail, int32_t *ret_map);

#endif

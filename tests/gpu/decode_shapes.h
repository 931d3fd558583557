/*
 * decode_shapes.h: calls of the decode family that are timed.
 */
#ifndef STG_TESTS_GPU_DECODE_SHAPES_H
#define STG_TESTS_GPU_DECODE_SHAPES_H

#include "codegen/decode_extents.h"

struct decode_shape {
  const char *name;
  uint32_t rows, batch; /* more rows than sequences: those before the last positions */
  int32_t capacity, shortest, longest; /* positions that rows read, evenly from here to there */
  uint32_t block_shift;                /* of a paged cache */
  bool owner;
  struct stg_decode_geometry geometry;
};
extern const struct decode_shape decode_shapes[];
extern const size_t decode_shape_count;

#endif

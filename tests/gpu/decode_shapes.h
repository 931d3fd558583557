/*
 * decode_shapes.h: calls of the decode family that are timed, and choices for them that are not the
 * family's.
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

/* Another choice than the family's; zeros: the same. */
struct decode_variant {
  struct stg_decode_choice choice;
  uint32_t chunk, blocks;
  const char *tries; /* for decode_kernel_try; NULL: none */
};

#define DECODE_MAX_VARIANTS 16
/* What is worth a look, by shape; what tells most comes first, behind the family's own. */
struct decode_survey {
  const char *name;
  struct decode_variant variants[DECODE_MAX_VARIANTS]; /* until one without tries and warps */
};
extern const struct decode_survey decode_surveys[];
extern const size_t decode_survey_count;

/** By the name of a survey, or NULL. */
const struct decode_shape *decode_shape_of(const char *name);

#endif

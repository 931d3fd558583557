/*
 * spec_source.h: where the numbers of a workload come from, of any family: a tensor of a file,
 * values in the text, or a seed.
 *
 * Knows nothing of what the numbers are for.
 */
#ifndef STG_SPECS_SPEC_SOURCE_H
#define STG_SPECS_SPEC_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>
#include <steergraph/status.h>

#include "runtime/base/arena.h"

/* Where "{}" stands in a source that is one vector per layer. */
enum stg_spec_layer_in { STG_LAYER_IN_NONE, STG_LAYER_IN_TENSOR, STG_LAYER_IN_ROW };

struct stg_spec_vector_source {
  enum { STG_VECTOR_FILE, STG_VECTOR_VALUES, STG_VECTOR_RANDOM } kind;
  const char *path;                /* FILE: resolved against the spec's folder */
  const char *name;                /* FILE: the same as the spec has it */
  const char *tensor;              /* FILE: NULL for one whose tensor has no name */
  int64_t row;                     /* FILE: row of a 2-D tensor, or -1 */
  enum stg_spec_layer_in layer_in; /* FILE: the number of a reference replaces "{}" there */
  int64_t offset;                  /* FILE, raw: elements before the first row */
  int64_t count;       /* FILE, raw: float32 elements, of a vector of a row; 0: not raw */
  const float *values; /* VALUES */
  size_t n_values;
  uint64_t seed;     /* RANDOM */
  float scale;       /* RANDOM, default 1 */
  const char *where; /* "vectors.noise", "input.hidden", for messages */
};

#define STG_SPEC_ARRAY_DIMS 4

/* A source of an array of a known shape, slowest dimension first. */
struct stg_spec_array {
  struct stg_spec_vector_source source;
  int64_t shape[STG_SPEC_ARRAY_DIMS];
  uint32_t n_dims;
  int64_t elems;   /* their product */
  uint64_t stream; /* RANDOM: of the generator (random.h) */
};

/* The vector file that was read last, and what such files said (spec_files.c). */
struct stg_open_file;

/* Reader options of a workload; {0} is the default. */
struct stg_workload_options {
  bool allow_outside; /* paths may leave the spec's folder */
};

/**
 * Elements [first, first + count) of an array, rounded once to `dtype`. Non-finite ones are
 * allowed.
 * @return STG_E_FORMAT with both shapes where the tensor has another one, STG_E_NOT_FOUND, or what
 *         opening the file gave; the content of ret_elems is then unspecified.
 */
STG_NODISCARD stg_status stg_spec_array_read(struct stg_open_file *open,
                                             const struct stg_spec_array *array, int64_t first,
                                             size_t count, stg_dtype dtype, void *ret_elems,
                                             stg_error *reterr);

#endif

/*
 * vectors/output.h: the tensors of a vector file as they are written anew, and where they come
 * from.
 *
 * Must not know words of the command line, nor print.
 */
#ifndef STG_TOOLS_VECTORS_OUTPUT_H
#define STG_TOOLS_VECTORS_OUTPUT_H

#include "tools/vectors/facts.h"

#define STG_VECTORS_OUTPUT_MAX_BYTES                                                               \
  ((uint64_t)1 << 30) /* of tensors: they are put together in memory */

struct stg_vectors_output_options {
  char *const *tensors; /* names of those that are wanted */
  size_t n_tensors;     /* 0: all */
  stg_dtype dtype;      /* STG_DTYPE_NONE: that of the file, F64 as f32 */
  const char *name;     /* of the tensors, with {} for the layer; NULL: as they are */
};

/* In its arena, or borrowed from the file. {0} is freed. */
struct stg_vectors_output {
  struct stg_arena arena;
  struct stg_tensor_out *tensors;
  size_t n_tensors;
  const char **metadata; /* key, value pairs */
  size_t n_metadata;
  const char *conversion; /* "none", or what was done to elements */
  uint64_t non_finite;    /* elements */
};

/**
 * Take the tensors of an open file, rename and convert them. A name with {} splits the only tensor
 * of two dimensions into its rows.
 * @return STG_E_NOT_FOUND, STG_E_UNSUPPORTED for a tensor that is not there or not read;
 *         STG_E_INVALID for names that do not fit, more than 1 GiB, and an element that is finite
 * in the file and would not be in the output.
 */
STG_NODISCARD stg_status stg_vectors_output_make(const struct stg_vectors *vectors,
                                                 const struct stg_vectors_output_options *options,
                                                 struct stg_vectors_output *ret_output,
                                                 stg_error *reterr);
void stg_vectors_output_free(struct stg_vectors_output *output);

#endif

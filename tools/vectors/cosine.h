/*
 * vectors/cosine.h: which vector of another file a row is held against.
 *
 * That is one vector for all rows, or that of the same layer. Must not know how it is printed.
 */
#ifndef STG_TOOLS_VECTORS_COSINE_H
#define STG_TOOLS_VECTORS_COSINE_H

#include "tools/vectors/facts.h"

/* The tensors that are held against others, borrowed. */
struct stg_vectors_side {
  const struct stg_vectors *vectors;
  const struct stg_tensor_info *tensors;
  size_t n_tensors;
  bool named; /* one tensor was asked for by its name, so its rows are its layers */
};

struct stg_vectors_cosine_options {
  const char *path;
  const char *tensor; /* NULL: none is named */
  int64_t row;        /* below 0: none is named */
  int64_t width;      /* for a file that says nothing of itself */
};

/* {0} is closed. */
struct stg_vectors_cosine {
  struct stg_vectors vectors;
  const struct stg_tensor_info *tensor; /* NULL: each layer has its own */
  size_t row;
  bool one; /* `row` of `tensor` for all; else the row of each layer's number */
};

/** Open the file and find what is named. STG_E_NOT_FOUND for a tensor or row that is not there. */
STG_NODISCARD stg_status stg_vectors_cosine_open(const struct stg_vectors_cosine_options *options,
                                                 struct stg_vectors_cosine *ret_cosine,
                                                 stg_error *reterr);
void stg_vectors_cosine_close(struct stg_vectors_cosine *cosine);
/** STG_E_INVALID where the file has several vectors, and they cannot be told by layers. */
STG_NODISCARD stg_status stg_vectors_cosine_check(const struct stg_vectors_cosine *cosine,
                                                  const struct stg_vectors_side *side,
                                                  stg_error *reterr);
/** The cosine of a row of `side`; false where there is none: no such layer, other widths, or a norm
 * that is 0 or not finite. */
bool stg_vectors_cosine_of(const struct stg_vectors_cosine *cosine,
                           const struct stg_vectors_side *side,
                           const struct stg_tensor_info *tensor, size_t row, double *ret_cosine);

#endif

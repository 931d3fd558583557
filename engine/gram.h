/*
 * gram.h: dots of vector pairs, computed once. Not locked: its owner's lock covers it.
 */
#ifndef STG_ENGINE_GRAM_H
#define STG_ENGINE_GRAM_H

#include <stddef.h>
#include <stdint.h>

#include <steergraph/dtype.h>

#include "runtime/base/error.h"

struct stg_gram_memo;

struct stg_gram_side {
  uint64_t id;
  stg_dtype dtype;
  const void *data;
};

STG_NODISCARD stg_status stg_gram_memo_create(struct stg_gram_memo **ret_memo, stg_error *reterr);
void stg_gram_memo_destroy(struct stg_gram_memo *memo);
/** The dot of two vectors of `length` elements; symmetric in the last bit too. */
STG_NODISCARD stg_status stg_gram_memo_get(struct stg_gram_memo *memo,
                                           const struct stg_gram_side *a,
                                           const struct stg_gram_side *b, size_t length,
                                           float *ret_dot, stg_error *reterr);
/** Drop every pair of a vector that is gone, in constant time on average. */
void stg_gram_memo_forget(struct stg_gram_memo *memo, uint64_t id);
void stg_gram_memo_counters(struct stg_gram_memo *memo, uint64_t *ret_pairs, uint64_t *ret_hits);

#endif

/*
 * vectors.h: the interned vectors of an engine, and the memo of their Gram entries.
 *
 * Knows no device: a steer table keeps its own device copies (bank.h).
 */
#ifndef STG_ENGINE_VECTORS_H
#define STG_ENGINE_VECTORS_H

#include <steergraph/vector.h>

#include "runtime/base/key.h"

struct stg_vector_table;

STG_NODISCARD stg_status stg_vector_table_create(struct stg_vector_table **ret_table,
                                                 stg_error *reterr);
void stg_vector_table_destroy(struct stg_vector_table *table);

/* A live vector. `data` stays as long as it is referenced or held. */
struct stg_vector_view {
  stg_dtype dtype;
  size_t length;
  const void *data;
};

STG_NODISCARD stg_status stg_vector_table_intern(struct stg_vector_table *table, stg_dtype dtype,
                                                 const void *data, size_t length,
                                                 stg_vector *ret_vector, stg_error *reterr);
/** Drop one reference of those that stg_vector_table_intern gave; STG_E_NOT_FOUND when all are. */
STG_NODISCARD stg_status stg_vector_table_release(struct stg_vector_table *table, stg_vector vector,
                                                  stg_error *reterr);
/** Keep a vector whatever its host releases, and look at it; STG_E_NOT_FOUND with the id. */
STG_NODISCARD stg_status stg_vector_table_hold(struct stg_vector_table *table, stg_vector vector,
                                               struct stg_vector_view *ret_view, stg_error *reterr);
/** End one hold. */
void stg_vector_table_unhold(struct stg_vector_table *table, stg_vector vector);
/**
 * The content key of a vector that is referenced or held: over dtype, length and bytes. Hashed when
 * it is first asked for, which a request that waits does not do.
 */
struct stg_key stg_vector_table_content(struct stg_vector_table *table, stg_vector vector);
/**
 * v_a . v_b as stored: a float64 sum in one fixed order, rounded once to float32, memoised per
 * pair. Both vectors must be referenced or held, and of one length.
 */
STG_NODISCARD stg_status stg_vector_table_gram(struct stg_vector_table *table, stg_vector a,
                                               stg_vector b, float *ret_dot, stg_error *reterr);

struct stg_vector_counters {
  uint64_t live, bytes, hits, gram_pairs, gram_hits;
};
void stg_vector_table_counters(struct stg_vector_table *table, struct stg_vector_counters *ret);

#endif

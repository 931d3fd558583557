/*
 * attn_growing.h: a cache that grows in float64 against the cache of fixed size of an engine, token
 * by token. For cmocka.
 */
#ifndef STG_TESTS_SUPPORT_ATTN_GROWING_H
#define STG_TESTS_SUPPORT_ATTN_GROWING_H

#include <steergraph/steergraph.h>

/**
 * Two sequences of float32, decoded by a block at every length from 1 to the capacity; then one
 * token more, which is refused. Fails the test where the mean error of a row is not below 1e-6, or
 * where a kernel is compiled or a graph made after the first token. `block` 0: dense.
 */
void attn_growing_run(stg_engine *engine, int64_t capacity, uint32_t block);

#endif

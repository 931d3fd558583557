/*
 * cache_explain.h: why two entries of a cache are not one. Behind stg_cache_explain.
 */
#ifndef STG_ENGINE_CACHE_EXPLAIN_H
#define STG_ENGINE_CACHE_EXPLAIN_H

#include <steergraph/cache.h>

#include "runtime/base/arena.h"

/** stg_cache_explain on entries that have their material; all that is returned is the arena's. */
STG_NODISCARD stg_status stg_explain_entries(const stg_cache_entry *here,
                                             const stg_cache_entry *there, struct stg_arena *arena,
                                             const stg_cache_difference **ret, size_t *ret_count,
                                             stg_error *reterr);

#endif

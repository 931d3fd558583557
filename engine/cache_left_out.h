/*
 * cache_left_out.h: what lies in the folders of a cache and is left out of it, as it is collected.
 */
#ifndef STG_ENGINE_CACHE_LEFT_OUT_H
#define STG_ENGINE_CACHE_LEFT_OUT_H

#include <steergraph/cache.h>

#include "runtime/base/arena.h"
#include "runtime/disk_cache.h"

/* A growing list, all of it in one arena. {0} is a valid empty list. */
struct stg_left_outs {
  stg_cache_left_out *items;
  size_t count, capacity;
};
/** Append, text copied. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_left_outs_add(struct stg_left_outs *list, struct stg_arena *arena,
                                           const struct stg_disk_item *item, stg_error *reterr);

#endif

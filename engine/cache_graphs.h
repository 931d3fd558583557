/*
 * cache_graphs.h: the recipes of graphs of a cache that its inspector has opened.
 */
#ifndef STG_ENGINE_CACHE_GRAPHS_H
#define STG_ENGINE_CACHE_GRAPHS_H

#include <steergraph/cache.h>

#include "engine/cache_left_out.h"
#include "runtime/disk_cache.h"

struct stg_cache_graphs;

/** List the recipes of all layers; what is left out goes to `left_out`, its text to `arena`. The
 * cache is borrowed while it lists. */
STG_NODISCARD stg_status stg_cache_graphs_open(const struct stg_disk_cache *disk,
                                               struct stg_left_outs *left_out,
                                               struct stg_arena *arena,
                                               struct stg_cache_graphs **ret_graphs,
                                               stg_error *reterr);
/** NULL is fine. */
void stg_cache_graphs_close(struct stg_cache_graphs *graphs);

/** Those of a cache; as long as it is open. */
struct stg_cache_graphs *stg_cache_graphs_of(const stg_cache *cache);

#endif

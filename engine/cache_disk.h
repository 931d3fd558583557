/*
 * cache_disk.h: what is behind a cache as its inspector sees it, for what works on the files.
 */
#ifndef STG_ENGINE_CACHE_DISK_H
#define STG_ENGINE_CACHE_DISK_H

#include <steergraph/cache.h>

#include "runtime/disk_cache.h"

/** Its layers; as long as the cache is open. */
const struct stg_disk_cache *stg_cache_disk(const stg_cache *cache);

/** Where text is that lives as long as the cache is open. */
struct stg_arena *stg_cache_arena(stg_cache *cache);

/** The element of a path list that is written to, without slashes at its end; "" when it has none.
 * NULL: out of memory, which the arena says. */
char *stg_cache_last_folder(const char *path_list, struct stg_arena *arena);

#endif

/*
 * cache_disk.h: what is behind an inspected cache, for what reads entries as they are on disk.
 */
#ifndef STG_ENGINE_CACHE_DISK_H
#define STG_ENGINE_CACHE_DISK_H

#include <steergraph/cache.h>

#include "runtime/disk_cache.h"

/** Its layers; as long as the cache is open. */
const struct stg_disk_cache *stg_cache_disk(const stg_cache *cache);

#endif

/*
 * kernels_there.h: which kernels need no compiler, since a cache folder has them.
 */
#ifndef STG_TOOLS_KERNELS_THERE_H
#define STG_TOOLS_KERNELS_THERE_H

#include <stdbool.h>

#include <steergraph/cache.h>

/**
 * Open for reading what an engine takes kernels from: `given` when not NULL, otherwise what the
 * environment says. NULL where it takes none, or nothing can be read.
 */
stg_cache *stg_kernels_there_open(const char *given);
/** Whether it has a good entry of the kernel. `cache` may be NULL, and has none then. */
bool stg_kernels_there_has(stg_cache *cache, const char *kernel_key);

#endif

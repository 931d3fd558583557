/*
 * why_miss.h: which factor of a kernel's key keeps a cache from serving it.
 */
#ifndef STG_TOOLS_WHY_MISS_H
#define STG_TOOLS_WHY_MISS_H

#include <steergraph/cache.h>

#include "engine/offline.h"
#include "tools/workload_job.h"

/* The outcome. Text is borrowed from the cache. */
struct stg_miss {
  bool hit;         /* the cache holds the kernel */
  const char *path; /* of the entry, or of the nearest one; NULL: the cache has no good entry */
  char key[33];     /* of the same */
  const stg_cache_difference *factors;
  size_t n_factors;
  const char
      *bad_path; /* what has the kernel's key for its name and is bad; NULL: none, or a hit */
  const char *bad_problem; /* of the same */
};

/** Open what a run with these options would look into; the caller closes it. */
STG_NODISCARD stg_status stg_why_miss_open(const struct stg_job_options *options,
                                           stg_cache **ret_cache, stg_error *reterr);
/**
 * Look for `kernel` in `cache`; when it is not there, compare the key materials and take the entry
 * with the fewest differing factors (the first in path order among equals).
 */
STG_NODISCARD stg_status stg_why_miss(const struct stg_explained *kernel, stg_cache *cache,
                                      struct stg_miss *ret_miss, stg_error *reterr);

#endif

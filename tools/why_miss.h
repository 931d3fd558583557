/*
 * why_miss.h: which factor of a kernel's key keeps a cache from serving it.
 */
#ifndef STG_TOOLS_WHY_MISS_H
#define STG_TOOLS_WHY_MISS_H

#include <steergraph/cache.h>

#include "engine/offline.h"
#include "runtime/base/strbuf.h"

/* A factor that differs; text says what it is on either side, in few words. */
struct stg_miss_factor {
  const char *name;
  const char *here;  /* of the kernel asked for */
  const char *there; /* of the cached entry */
};

/* The outcome. Text lives in the arena. */
struct stg_miss {
  bool hit;         /* the cache holds the kernel */
  const char *path; /* of the entry, or of the nearest one; NULL: the cache has no good entry */
  const char *key;
  struct stg_miss_factor *factors;
  size_t n_factors;
};

/**
 * Look for `kernel` in `cache`; when it is not there, compare the key materials and take the entry
 * with the fewest differing factors (the first in path order among equals).
 */
STG_NODISCARD stg_status stg_why_miss(const struct stg_explained *kernel, stg_cache *cache,
                                      struct stg_arena *arena, struct stg_miss *ret_miss,
                                      stg_error *reterr);

/**
 * A key factor's value in few words: itself when short, else its size. Two long texts are
 * told apart by the first line that differs (0: not compared). Appended to `ret`.
 */
void stg_factor_describe(const char *value, size_t len, size_t differ_line, struct stg_strbuf *ret);

#endif

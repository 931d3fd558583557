/*
 * cache/pick.h: what the first digits of a key name: an entry or the recipe of a graph.
 */
#ifndef STG_TOOLS_CACHE_PICK_H
#define STG_TOOLS_CACHE_PICK_H

#include <steergraph/cache.h>

struct stg_cache_picked {
  bool is_graph;
  stg_cache_entry entry; /* one of the two */
  stg_cache_graph graph;
};

/**
 * Find either. STG_E_NOT_FOUND, STG_E_INVALID when several keys begin so, STG_E_CORRUPT with path
 * and problem when it is bad or of another format.
 */
STG_NODISCARD stg_status stg_cache_pick(stg_cache *cache, const char *key,
                                        struct stg_cache_picked *ret_picked, stg_error *reterr);

/**
 * Exit status of a command whose word is no key, which is 4 to 32 hex digits and perhaps a
 * compiler; says so.
 */
int stg_cache_check_key(const char *command, const char *key);

#endif

/*
 * cache/left_out.h: what `steergraph cache` says of what it did not look into. A command that left
 * out a folder fails, although what it printed is right.
 */
#ifndef STG_TOOLS_CACHE_LEFT_OUT_H
#define STG_TOOLS_CACHE_LEFT_OUT_H

#include <steergraph/cache.h>

#include "tools/json_out.h"

/* What is said of a list: folders, and with `links` also the links that are no entries. */
struct stg_cache_left_out_list {
  const stg_cache_left_out *items;
  size_t count;
  bool links;
};

/** What a cache left out when it was opened; the cache's. */
struct stg_cache_left_out_list stg_cache_left_out_of(const stg_cache *cache, bool links);
/** Why the first folder of those that a cache left out is, and what to do; NULL: none is. */
const char *stg_cache_folder_left_out(const stg_cache *cache);
/** Whether there is anything of it to say. */
bool stg_cache_left_out_any(const struct stg_cache_left_out_list *list);
/** The member "left_out". */
void stg_cache_left_out_json(struct stg_json_out *json, const struct stg_cache_left_out_list *list);
/** A line each. */
void stg_cache_left_out_text(const struct stg_cache_left_out_list *list, struct stg_strbuf *out);

#endif

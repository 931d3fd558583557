/*
 * cache/graph_report.h: what `steergraph cache` says of recipes of graphs.
 */
#ifndef STG_TOOLS_CACHE_GRAPH_REPORT_H
#define STG_TOOLS_CACHE_GRAPH_REPORT_H

#include <steergraph/cache.h>

#include "tools/cache/left_out.h"
#include "tools/json_out.h"

/* What `ls --graphs` lists. The entry says of the graph what entries say too, for filters and
 * orders that they share. */
struct stg_cache_graph_row {
  stg_cache_entry entry; /* first: rows are sorted as entries are */
  stg_cache_graph graph;
};
struct stg_cache_graph_list {
  const struct stg_cache_graph_row *rows;
  size_t count;
  size_t n_there; /* in the cache */
  struct stg_cache_left_out_list left_out;
  bool by_use; /* as of entries */
};
void stg_cache_graphs_json(const struct stg_cache_graph_list *list, struct stg_strbuf *out);
/** `max_width` is in columns; 0: as wide as it gets. */
void stg_cache_graphs_text(const struct stg_cache_graph_list *list, size_t max_width,
                           struct stg_strbuf *out);

/* One good graph, and of each of its nodes whether the cache has its kernel. */
void stg_cache_graph_show_json(const stg_cache_graph *graph, const bool *in_cache,
                               struct stg_strbuf *out);
void stg_cache_graph_show_text(const stg_cache_graph *graph, const bool *in_cache,
                               struct stg_strbuf *out);

#endif

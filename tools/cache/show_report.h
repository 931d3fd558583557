/*
 * cache/show_report.h: all that `steergraph cache show` says of one entry, for people and for
 * programs.
 */
#ifndef STG_TOOLS_CACHE_SHOW_REPORT_H
#define STG_TOOLS_CACHE_SHOW_REPORT_H

#include <steergraph/cache.h>

#include "runtime/base/strbuf.h"
#include "tools/cache/occupancy.h"

/* Borrowed. The entry is ok. */
struct stg_cache_shown {
  const stg_cache_entry *entry;
  const stg_cache_param *params;
  size_t n_params;
  const stg_cache_graph *graphs; /* that launch it */
  size_t n_graphs;
  bool with_source;
  const char *sass; /* NULL: not asked for */
};

/** Of a launch of many blocks: one of few has a multiprocessor for each. False as of
 * stg_occupancy_of. */
bool stg_cache_occupancy(const stg_cache_entry *entry, struct stg_occupancy *ret);

void stg_cache_show_json(const struct stg_cache_shown *shown, struct stg_strbuf *out);
void stg_cache_show_text(const struct stg_cache_shown *shown, struct stg_strbuf *out);

#endif

/*
 * cache/page/page.h: what the page of `steergraph cache report` tells, and the page put together.
 *
 * One self-contained HTML file: style, script, charts and data are in it, and it asks for nothing.
 */
#ifndef STG_TOOLS_CACHE_PAGE_PAGE_H
#define STG_TOOLS_CACHE_PAGE_PAGE_H

#include <steergraph/cache.h>

#include "runtime/base/strbuf.h"

/* An entry of the page; first the entry, as lists are sorted by it. Its facts are those of a look,
 * corrected once it was read: bad ones have a path and a problem alone. */
struct stg_cache_page_entry {
  stg_cache_entry entry;
  size_t index; /* in the cache */
};

/* All of it is borrowed. */
struct stg_cache_page {
  const struct stg_cache_page_entry *entries; /* in the order of the page */
  size_t count;
  const stg_cache_entry *there; /* all of the cache, chosen or not, as they were looked at */
  size_t n_there;
  const stg_cache_graph *graphs; /* of the cache, good ones */
  size_t n_graphs;
  const stg_cache_graph *bad_graphs;
  size_t n_bad_graphs;
  const stg_cache_layer *layers;
  size_t n_layers;
  const stg_cache_totals *totals; /* NULL: `no_totals` says why */
  const char *no_totals;
  const char *choice;   /* the words that chose the entries: "--arch sm_90"; "": all */
  int64_t written_unix; /* when the page is made */
};

/** Append the page. `rows` is the table's body, by rows.h. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_cache_page_print(const struct stg_cache_page *page,
                                              const struct stg_strbuf *rows, struct stg_strbuf *out,
                                              stg_error *reterr);

#endif

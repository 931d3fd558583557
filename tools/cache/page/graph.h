/*
 * cache/page/graph.h: the graphs that launch a kernel, as a drawing and tables of the page.
 */
#ifndef STG_TOOLS_CACHE_PAGE_GRAPH_H
#define STG_TOOLS_CACHE_PAGE_GRAPH_H

#include "tools/cache/page/page.h"

/** Append what the page says of the graphs of `entry`, each form of them drawn once. */
void stg_page_graphs(const struct stg_cache_page *page, const stg_cache_entry *entry,
                     struct stg_strbuf *out);

#endif

/*
 * cache/page/charts.h: the two charts of a page: bytes, and times to compile.
 */
#ifndef STG_TOOLS_CACHE_PAGE_CHARTS_H
#define STG_TOOLS_CACHE_PAGE_CHARTS_H

#include "tools/cache/page/page.h"

/** Append both; nothing for a page without a good entry. */
STG_NODISCARD stg_status stg_page_charts(const struct stg_cache_page *page, struct stg_strbuf *out,
                                         stg_error *reterr);

#endif

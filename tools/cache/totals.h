/*
 * cache/totals.h: the totals of a cache folder as JSON and as rows of text.
 */
#ifndef STG_TOOLS_CACHE_TOTALS_H
#define STG_TOOLS_CACHE_TOTALS_H

#include <steergraph/cache.h>

#include "tools/json_out.h"
#include "tools/table.h"

/** In percent of the kernels that folders and packs were asked for; false when none was. */
bool stg_cache_totals_rate(const stg_cache_totals *totals, double *ret_percent);
/** Append the member "totals". */
void stg_cache_totals_json(struct stg_json_out *json, const stg_cache_totals *totals);
/** Append a row of two cells for each. */
void stg_cache_totals_rows(struct stg_table *table, const stg_cache_totals *totals);

#endif

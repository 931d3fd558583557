/*
 * cache_report.h: what `steergraph cache` says of entries, for people and for programs.
 */
#ifndef STG_TOOLS_CACHE_REPORT_H
#define STG_TOOLS_CACHE_REPORT_H

#include <steergraph/cache.h>

#include "runtime/base/strbuf.h"

void stg_cache_list_json(const stg_cache_entry *entries, size_t count, struct stg_strbuf *out);
void stg_cache_list_text(const stg_cache_entry *entries, size_t count, struct stg_strbuf *out);

void stg_cache_show_json(const stg_cache_entry *entry, bool with_source, struct stg_strbuf *out);
void stg_cache_show_text(const stg_cache_entry *entry, bool with_source, struct stg_strbuf *out);

/** Of all entries verified, the bad ones; with `repair` all but `n_left` were moved to quarantine.
 */
void stg_cache_verify_json(const stg_cache_entry *entries, size_t count, bool repair, size_t n_left,
                           struct stg_strbuf *out);
void stg_cache_verify_text(const stg_cache_entry *entries, size_t count, bool repair, size_t n_left,
                           struct stg_strbuf *out);

#endif

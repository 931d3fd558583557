/*
 * cache_report.h: what `steergraph cache` says of entries, for people and for programs.
 */
#ifndef STG_TOOLS_CACHE_REPORT_H
#define STG_TOOLS_CACHE_REPORT_H

#include <steergraph/cache.h>

#include "runtime/base/strbuf.h"

/* What `ls` lists: entries as they were looked at, and not verified. */
struct stg_cache_list {
  const stg_cache_entry *entries;
  size_t count;
  size_t n_there; /* in the cache */
};
void stg_cache_list_json(const struct stg_cache_list *list, struct stg_strbuf *out);
/** `max_width` is in columns; 0: as wide as it gets. */
void stg_cache_list_text(const struct stg_cache_list *list, size_t max_width,
                         struct stg_strbuf *out);

void stg_cache_show_json(const stg_cache_entry *entry, bool with_source, struct stg_strbuf *out);
void stg_cache_show_text(const stg_cache_entry *entry, bool with_source, struct stg_strbuf *out);

/* What became of the bad entries that were to be moved to quarantine. */
struct stg_cache_repair {
  size_t n_moved;
  size_t n_in_packs; /* left: packs are never written to */
  size_t n_no_files; /* left: folders and such under an entry's name */
};
/** Of all entries verified, the bad ones, and how many another version wrote, which are neither;
 * `repair` is NULL where none was asked for. */
void stg_cache_verify_json(const stg_cache_entry *entries, size_t count,
                           const struct stg_cache_repair *repair, struct stg_strbuf *out);
void stg_cache_verify_text(const stg_cache_entry *entries, size_t count,
                           const struct stg_cache_repair *repair, struct stg_strbuf *out);

#endif

/*
 * cache/list_report.h: what `steergraph cache` says of entries, for people and for programs.
 */
#ifndef STG_TOOLS_CACHE_LIST_REPORT_H
#define STG_TOOLS_CACHE_LIST_REPORT_H

#include <steergraph/cache.h>

#include "tools/cache/left_out.h"
#include "tools/json_out.h"

/* What `ls` lists: entries as they were looked at, and not verified. */
struct stg_cache_list {
  const stg_cache_entry *entries;
  size_t count;
  size_t n_there;  /* in the cache */
  size_t n_graphs; /* likewise, which `ls --graphs` lists */
  struct stg_cache_left_out_list left_out;
  bool by_use; /* rows say when an entry was used last, not when it was made */
};
void stg_cache_list_json(const struct stg_cache_list *list, struct stg_strbuf *out);
/** `max_width` is in columns; 0: as wide as it gets. */
void stg_cache_list_text(const struct stg_cache_list *list, size_t max_width,
                         struct stg_strbuf *out);

/** The members that every list and `show` share; an entry that is not ok has a path and a problem
 * only. */
void stg_cache_entry_json(struct stg_json_out *json, const stg_cache_entry *entry);
/** The member "parameters". */
void stg_cache_params_json(struct stg_json_out *json, const stg_cache_param *params,
                           size_t n_params);
/** A line that says what is wrong with a file; other people may have named it. */
void stg_cache_problem_text(const char *path, const char *problem, bool other_format,
                            struct stg_strbuf *out);

/* What `verify` found. `not_ok` has the bad entries and graphs, and those of another format, which
 * are not bad. */
struct stg_cache_verified {
  stg_cache_entry *not_ok;
  size_t n_not_ok;
  size_t n_other_format;        /* of them */
  size_t n_good;                /* entries */
  size_t n_graphs;              /* good or not; they are counted apart */
  size_t n_graphs_not_ok;       /* of not_ok */
  size_t n_graphs_other_format; /* of them */
  struct stg_cache_left_out_list left_out;
};
/* What became of the bad entries and graphs that were to be moved to quarantine. */
struct stg_cache_repair {
  bool dry_run; /* nothing is moved, and n_moved counts what would be */
  size_t n_moved;
  size_t n_in_packs; /* left: packs are never written to */
  size_t n_no_files; /* left: folders and such under an entry's name */
};
/** `repair` is NULL where none was asked for. */
void stg_cache_verify_json(const struct stg_cache_verified *verified,
                           const struct stg_cache_repair *repair, struct stg_strbuf *out);
void stg_cache_verify_text(const struct stg_cache_verified *verified,
                           const struct stg_cache_repair *repair, struct stg_strbuf *out);

#endif

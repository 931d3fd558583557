/*
 * cache/explain_report.h: what `steergraph cache explain` says, for people and for programs.
 */
#ifndef STG_TOOLS_CACHE_EXPLAIN_REPORT_H
#define STG_TOOLS_CACHE_EXPLAIN_REPORT_H

#include "runtime/base/strbuf.h"
#include "tools/why_miss.h"

/* Two entries. Borrowed. */
struct stg_explained_pair {
  const stg_cache_entry *here, *there;
  const stg_cache_difference *differences;
  size_t n_differences;
};
void stg_cache_pair_json(const struct stg_explained_pair *pair, struct stg_strbuf *out);
void stg_cache_pair_text(const struct stg_explained_pair *pair, struct stg_strbuf *out);

/* The kernels of a workload. */
struct stg_explained_spec {
  const char *file;
  const char *arch;
  struct stg_explained *kernels;
  struct stg_miss *misses; /* of each */
  size_t n_kernels;
};
void stg_cache_spec_json(const struct stg_explained_spec *spec, struct stg_strbuf *out);
void stg_cache_spec_text(const struct stg_explained_spec *spec, struct stg_strbuf *out);

#endif

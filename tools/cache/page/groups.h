/*
 * cache/page/groups.h: the entries of a page in groups, few enough for the bars of a chart.
 */
#ifndef STG_TOOLS_CACHE_PAGE_GROUPS_H
#define STG_TOOLS_CACHE_PAGE_GROUPS_H

#include "tools/cache/page/page.h"

#define STG_PAGE_MAX_GROUPS 16

/* What makes two entries one group, from none to most. */
enum stg_page_grouping {
  STG_PAGE_BY_ENTRY,
  STG_PAGE_BY_SHAPE, /* family, architecture, and words of the signature */
  STG_PAGE_BY_FAMILY /* family, architecture and compiler */
};

struct stg_page_group {
  const stg_cache_entry *first; /* NULL: all that had no place in a group of their own */
  size_t number;                /* of `first` on the page */
  size_t count;
  uint64_t bytes, cubin_bytes, source_bytes;
  double ms, min_ms, max_ms; /* ms: of all */
};

struct stg_page_groups {
  enum stg_page_grouping by;
  struct stg_page_group groups[STG_PAGE_MAX_GROUPS];
  size_t count;
};

/** Group the good entries of a page: as finely as there are bars for. `by_time`: the groups whose
 * kernels took longest to compile come first, else the largest. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_page_groups_make(const struct stg_cache_page *page, bool by_time,
                                              struct stg_page_groups *ret, stg_error *reterr);
/** Of one kernel of the group. */
double stg_page_group_mean_ms(const struct stg_page_group *group);
/** Append "14adbf04 decode 4096 bf16", "steer decode 4096 bf16 sm_90", "steer sm_90 nvrtc-13". */
void stg_page_group_print(const struct stg_page_groups *groups, const struct stg_page_group *group,
                          struct stg_strbuf *out);

#endif

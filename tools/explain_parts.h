/*
 * explain_parts.h: what `steergraph explain` says of a workload whose launch has kernels of several
 * works, whatever family it is of.
 */
#ifndef STG_TOOLS_EXPLAIN_PARTS_H
#define STG_TOOLS_EXPLAIN_PARTS_H

#include "tools/explain_report.h"

/* What a family says of its job. */
struct stg_explain_about {
  const void *job;
  const char *family;
  struct stg_batch_sizes sizes;
  /** The work in a few words. */
  void (*print)(const void *job, struct stg_strbuf *out);
  /** Its batch in a few words. */
  void (*print_batch)(const void *job, struct stg_strbuf *out);
  /** Note `index`, or NULL behind the last. */
  const char *(*note)(const void *job, size_t index);
};

void stg_explain_parts_json(const struct stg_explain_about *about,
                            const struct stg_explain_result *result, struct stg_strbuf *out);
void stg_explain_parts_text(const struct stg_explain_about *about,
                            const struct stg_explain_result *result, struct stg_strbuf *out);

#endif

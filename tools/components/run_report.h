/*
 * components/run_report.h: what `steergraph run` says of components, for people and for programs.
 */
#ifndef STG_TOOLS_COMPONENTS_RUN_REPORT_H
#define STG_TOOLS_COMPONENTS_RUN_REPORT_H

#include "tools/components/check.h"
#include "tools/times.h"

struct stg_components_kernel {
  struct stg_explained text;
  struct stg_made_kernel made;
};

/* One launch: y, or the way back. n_kernels 0: there is none. */
struct stg_components_way {
  struct stg_explained_graph graph;
  struct stg_components_kernel kernels[STG_EXPLAINED_MAX_KERNELS]; /* [graph.n_kernels] */
};

/* Everything of a run that was done. Borrowed. */
struct stg_components_result {
  const char *spec;
  const struct stg_components_job *job;
  stg_engine_info engine;
  struct stg_components_way forward, back;
  struct stg_components_check check;
  struct stg_components_cost cost;
  bool timed;
  struct stg_times times;
  char checksum[STG_KEY_HEX_CHARS + 1];
  const char *output; /* file written, or NULL */
};

/** One JSON object; the order of its members is fixed. */
void stg_components_report_json(const struct stg_components_result *result, struct stg_strbuf *out);
/** A short block for a terminal, ending in "ok" or "FAILED". */
void stg_components_report_text(const struct stg_components_result *result, struct stg_strbuf *out);

#endif

/*
 * attention/run_report.h: what `steergraph run` says of a step, for people and for programs.
 */
#ifndef STG_TOOLS_ATTENTION_RUN_REPORT_H
#define STG_TOOLS_ATTENTION_RUN_REPORT_H

#include "runtime/base/key.h"
#include "tools/attention/check.h"
#include "tools/times.h"

/* A kernel of the launch. */
struct stg_attention_kernel {
  const char *family;
  struct stg_explained text;
  struct stg_made_kernel made;
};

/* Everything of a run that was done. Borrowed. */
struct stg_attention_result {
  const char *spec;
  const struct stg_attention_job *job;
  struct stg_attention_done done;
  stg_engine_info engine;
  struct stg_explained_graph graph;
  struct stg_attention_kernel kernels[STG_EXPLAINED_MAX_KERNELS]; /* [graph.n_kernels] */
  struct stg_attention_check check;
  uint64_t bytes; /* that the work has to move */
  bool timed;
  struct stg_times times;
  char checksum[STG_KEY_HEX_CHARS + 1];
  const char *output; /* file written, or NULL */
};

/** One JSON object; the order of its members is fixed. */
void stg_attention_report_json(const struct stg_attention_result *result, struct stg_strbuf *out);
/** A short block for a terminal, ending in "ok" or "FAILED". */
void stg_attention_report_text(const struct stg_attention_result *result, struct stg_strbuf *out);

#endif

/*
 * explain_report.h: what `steergraph explain` says of a workload, for people and for programs.
 */
#ifndef STG_TOOLS_EXPLAIN_REPORT_H
#define STG_TOOLS_EXPLAIN_REPORT_H

#include "engine/offline.h"
#include "tools/json_out.h"
#include "tools/table.h"
#include "tools/why_miss.h"
#include "tools/workload_job.h"

/* Chains with the same ops in the same order share a program. */
struct stg_explain_program {
  const struct stg_spec_chain *chain; /* one of them */
  struct stg_strbuf places;           /* "slots.calm.layers.0, ..." of all of them */
  const char *text;
};

/* Borrowed; NULL where it was not asked for. */
struct stg_explain_result {
  const char *spec;
  const char *arch;
  bool arch_is_guess; /* no device here and none asked for */
  const struct stg_declared *declared;
  const struct stg_explained_graph *graph;
  struct stg_explained kernels[STG_EXPLAINED_MAX_KERNELS]; /* [graph->n_kernels]: of the batch */
  bool with_source;
  const struct stg_explain_program *programs;
  size_t n_programs;
  struct stg_miss misses[STG_EXPLAINED_MAX_KERNELS];
  bool with_misses;
};

/** The reports of a workload of steering. */
void stg_explain_report_json(const struct stg_job *job, const struct stg_explain_result *result,
                             struct stg_strbuf *out);
void stg_explain_report_text(const struct stg_job *job, const struct stg_explain_result *result,
                             struct stg_strbuf *out);

/* What those of all families have in common. */

/** The member "programs". */
void stg_explain_programs_json(struct stg_json_out *json, const struct stg_explain_result *result);
void stg_explain_programs_text(const struct stg_explain_result *result, struct stg_strbuf *out);
/** The member "why_miss". */
void stg_explain_miss_json(struct stg_json_out *json, const struct stg_miss *miss);
void stg_explain_miss_text(const struct stg_miss *miss, struct stg_strbuf *out);
/** The row "launch" of a kernel, in a table of two columns. */
void stg_explain_launch_row(struct stg_table *table, const struct stg_explained *kernel);

/** The member "kernels": each of the launch, with what was asked for. */
void stg_explain_kernels_json(struct stg_json_out *json, const struct stg_explain_result *result);
/** A block for each of them. */
void stg_explain_kernels_text(const struct stg_explain_result *result, struct stg_strbuf *out);
/** The rows of architecture, signature and graph key, in a table of two columns. */
void stg_explain_graph_rows(struct stg_table *table, const struct stg_explain_result *result);

/** The members of the entry that should serve the kernel and is bad: null where there is none. */
void stg_miss_bad_json(struct stg_json_out *json, const struct stg_miss *miss);
/** The line of the same; none where there is none. */
void stg_miss_bad_text(const struct stg_miss *miss, struct stg_strbuf *out);

#endif

/*
 * workload_job.h: from a workload file to an engine that can serve it.
 *
 * The bridge between specs/ (what the file says) and engine/ (what the library takes). A job of
 * steering is the workload, an engine with its user ops, the description of its steer table, and
 * its batch. Families beside it are in tools/attention; what the commands see of any is job_kind.h.
 */
#ifndef STG_TOOLS_WORKLOAD_JOB_H
#define STG_TOOLS_WORKLOAD_JOB_H

#include <steergraph/steer.h>

#include "specs/workload.h"
#include "tools/job_engine.h"

/* A vector of the workload, and which copy of it. */
struct stg_job_ref {
  uint32_t vector;
  uint32_t copy;
};

struct stg_job {
  struct stg_workload workload;
  stg_engine *engine;
  stg_steer_desc desc;                    /* text and lists live in the workload or the arena */
  const int32_t *row_map;                 /* [workload.rows]: slot, or STG_ROW_UNSTEERED */
  const int32_t *positions, *prompt_lens; /* [workload.rows] of each; NULL without windows */
  uint32_t requests;                      /* of the batch */
  uint32_t longest;                       /* rows of its longest request */
  struct stg_job_ref *refs;               /* vectors in use by any slot, sorted, each once */
  size_t n_refs;
  struct stg_arena arena;
};

/**
 * Load `path`, open an engine, register the workload's ops, describe its table and batch. Messages
 * carry the file and the place. `ret_job` is to be closed after success only.
 */
STG_NODISCARD stg_status stg_job_open(const char *path, const struct stg_job_options *options,
                                      struct stg_job *ret_job, stg_error *reterr);
/** The same of a workload that was read, which is taken over, also on failure. */
STG_NODISCARD stg_status stg_job_open_workload(struct stg_workload *workload,
                                               const struct stg_job_options *options,
                                               struct stg_job *ret_job, stg_error *reterr);
/**
 * Register the ops of `job->workload`, with which the job begins, in `job->engine`; describe table
 * and batch, in the arena. Both stay their owner's who does not call stg_job_close.
 */
STG_NODISCARD stg_status stg_job_prepare(struct stg_job *job, bool declare_used, stg_error *reterr);
/** Close what stg_job_open gave; everything made from its engine must have been destroyed. */
void stg_job_close(struct stg_job *job);

/** Index in job->refs of a vector in use. */
size_t stg_job_find_ref(const struct stg_job *job, struct stg_job_ref ref);

#endif

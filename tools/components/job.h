/*
 * components/job.h: a workload of components, with an engine and the description of what serves it.
 */
#ifndef STG_TOOLS_COMPONENTS_JOB_H
#define STG_TOOLS_COMPONENTS_JOB_H

#include <steergraph/components.h>

#include "engine/offline.h"
#include "specs/spec.h"
#include "tools/job_engine.h"

struct stg_components_job {
  struct stg_components_workload workload;
  stg_engine *engine;
  stg_components_desc desc;
};

/** Open an engine and describe. The workload is taken over, also on failure. */
STG_NODISCARD stg_status stg_components_job_open(struct stg_components_workload *workload,
                                                 const struct stg_job_options *options,
                                                 struct stg_components_job *ret_job,
                                                 stg_error *reterr);
void stg_components_job_close(struct stg_components_job *job);

struct stg_batch_sizes stg_components_job_sizes(const struct stg_components_job *job);

/** "2048 rows, 128 to 341 by 1200 components, bf16; forward and back": the work in a few words. */
void stg_components_job_print(const struct stg_components_job *job, struct stg_strbuf *out);

#endif

/*
 * run_steer.h: `steergraph run` of a workload of steering.
 */
#ifndef STG_TOOLS_RUN_STEER_H
#define STG_TOOLS_RUN_STEER_H

#include "tools/job_kind.h"
#include "tools/workload_job.h"

/** See stg_job_kind.run. */
STG_NODISCARD stg_status stg_run_steer(struct stg_job *job, const struct stg_run_options *options,
                                       bool *ret_ok, struct stg_strbuf *ret_text,
                                       stg_error *reterr);

#endif

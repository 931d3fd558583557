/*
 * attention/run.h: `steergraph run` of a workload of rope, decode or step.
 */
#ifndef STG_TOOLS_ATTENTION_RUN_H
#define STG_TOOLS_ATTENTION_RUN_H

#include "tools/attention/job.h"
#include "tools/job_kind.h"

/** See stg_job_kind.run. */
STG_NODISCARD stg_status stg_attention_run(struct stg_attention_job *job,
                                           const struct stg_run_options *options, bool *ret_ok,
                                           struct stg_strbuf *ret_text, stg_error *reterr);

#endif

/*
 * components/run.h: `steergraph run` of a workload of components.
 */
#ifndef STG_TOOLS_COMPONENTS_RUN_H
#define STG_TOOLS_COMPONENTS_RUN_H

#include "tools/components/job.h"
#include "tools/job_kind.h"

/** See stg_job_kind.run. */
STG_NODISCARD stg_status stg_components_run(struct stg_components_job *job,
                                            const struct stg_run_options *options, bool *ret_ok,
                                            struct stg_strbuf *ret_text, stg_error *reterr);

#endif

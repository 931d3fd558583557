/*
 * prove/explain_report.h: what `steergraph explain` says of a workload of the family "prover".
 */
#ifndef STG_TOOLS_PROVE_EXPLAIN_REPORT_H
#define STG_TOOLS_PROVE_EXPLAIN_REPORT_H

#include "tools/explain_report.h"
#include "tools/prove/job.h"

void stg_prove_explain_json(const struct stg_prove_job *job,
                            const struct stg_explain_result *result, struct stg_strbuf *out);
void stg_prove_explain_text(const struct stg_prove_job *job,
                            const struct stg_explain_result *result, struct stg_strbuf *out);

#endif

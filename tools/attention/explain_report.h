/*
 * attention/explain_report.h: what `steergraph explain` says of a step, for people and for
 * programs.
 */
#ifndef STG_TOOLS_ATTENTION_EXPLAIN_REPORT_H
#define STG_TOOLS_ATTENTION_EXPLAIN_REPORT_H

#include "tools/attention/job.h"
#include "tools/explain_report.h"

void stg_attention_explain_json(const struct stg_attention_job *job,
                                const struct stg_explain_result *result, struct stg_strbuf *out);
void stg_attention_explain_text(const struct stg_attention_job *job,
                                const struct stg_explain_result *result, struct stg_strbuf *out);

#endif

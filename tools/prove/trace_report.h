/*
 * prove/trace_report.h: what `steergraph prove --trace` says of a way, for people and for programs.
 */
#ifndef STG_TOOLS_PROVE_TRACE_REPORT_H
#define STG_TOOLS_PROVE_TRACE_REPORT_H

#include "tools/prove/trace.h"

/** One JSON object; the order of its members is fixed. */
void stg_prove_trace_json(const struct stg_prove_way *way, struct stg_strbuf *out);
/** A block for each step; a '*' marks the child that was picked. */
void stg_prove_trace_text(const struct stg_prove_way *way, struct stg_strbuf *out);

#endif

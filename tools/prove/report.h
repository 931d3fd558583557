/*
 * prove/report.h: what `steergraph prove` says of a pool, for people and for programs.
 */
#ifndef STG_TOOLS_PROVE_REPORT_H
#define STG_TOOLS_PROVE_REPORT_H

#include "tools/json_out.h"
#include "tools/prove/run.h"

/** One JSON object; the order of its members is fixed. */
void stg_prove_report_json(const struct stg_prove_done *done, struct stg_strbuf *out);
/** A block for a terminal, ending in "ok" or "FAILED". */
void stg_prove_report_text(const struct stg_prove_done *done, struct stg_strbuf *out);

/* Of reports of one query too. */

/** The members "checked" to "ok" of a check; `query` is its first violation's. */
void stg_prove_check_json(const struct stg_prove_check *check, const char *query,
                          struct stg_json_out *json);
/** The last line: "ok", "not checked", or "FAILED" and where. */
void stg_prove_check_text(const struct stg_prove_check *check, const char *query,
                          struct stg_strbuf *out);

#endif

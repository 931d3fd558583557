/*
 * kb/facts.h: what the subcommands of `steergraph kb` say of a knowledge base.
 */
#ifndef STG_TOOLS_KB_FACTS_H
#define STG_TOOLS_KB_FACTS_H

#include "specs/kb_index.h"
#include "tools/json_out.h"

/* What the files of a knowledge base are called in its folder. */
#define STG_KB_FACTS_FILE "facts.txt"
#define STG_KB_RULES_FILE "rules.txt"
#define STG_KB_QUERIES_FILE "queries.txt"

/** Append lines for people. */
void stg_kb_text_stats(const struct stg_kb *kb, const struct stg_kb_stats *stats,
                       struct stg_strbuf *out);
/** The same as members of an object that is open. */
void stg_kb_json_stats(const struct stg_kb *kb, const struct stg_kb_stats *stats,
                       struct stg_json_out *json);

#endif

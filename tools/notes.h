/*
 * notes.h: what a user should know of a workload and its files, in the reports of commands.
 */
#ifndef STG_TOOLS_NOTES_H
#define STG_TOOLS_NOTES_H

#include "specs/workload.h"
#include "tools/json_out.h"
#include "tools/table.h"

/** Note `index`, of the workload and then of the files that were read for it, or NULL behind the
 * last. Valid until the next vector is read. */
const char *stg_notes_at(const struct stg_workload *workload, size_t index);
/** The member "notes": a list of texts, empty where there is nothing to say. */
void stg_notes_json(struct stg_json_out *json, const struct stg_workload *workload);
/** A row "note" for each, of a table of two columns. */
void stg_notes_rows(struct stg_table *table, const struct stg_workload *workload);

#endif

/*
 * notes.c: one row, one text for each note.
 */
#include "tools/notes.h"

const char *stg_notes_at(const struct stg_workload *workload, size_t index) {
  return index < workload->n_notes ? workload->notes[index]
                                   : stg_workload_file_note(workload, index - workload->n_notes);
}

void stg_notes_json(struct stg_json_out *json, const struct stg_workload *workload) {
  const char *note;
  stg_json_out_open(json, "notes", '[');
  for (size_t i = 0; (note = stg_notes_at(workload, i)) != NULL; i++) {
    stg_json_out_text(json, NULL, note);
  }
  stg_json_out_close(json, ']');
}

void stg_notes_rows(struct stg_table *table, const struct stg_workload *workload) {
  const char *note;
  for (size_t i = 0; (note = stg_notes_at(workload, i)) != NULL; i++) {
    stg_table_cell(table, "note");
    stg_table_cell(table, note);
  }
}

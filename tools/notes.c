/*
 * notes.c: one row, one text for each note.
 */
#include "tools/notes.h"

void stg_notes_json(struct stg_json_out *json, const struct stg_workload *workload) {
  stg_json_out_open(json, "notes", '[');
  for (size_t i = 0; i < workload->n_notes; i++) {
    stg_json_out_text(json, NULL, workload->notes[i]);
  }
  const char *note;
  for (size_t i = 0; (note = stg_workload_file_note(workload, i)) != NULL; i++) {
    stg_json_out_text(json, NULL, note);
  }
  stg_json_out_close(json, ']');
}

void stg_notes_rows(struct stg_table *table, const struct stg_workload *workload) {
  for (size_t i = 0; i < workload->n_notes; i++) {
    stg_table_cell(table, "note");
    stg_table_cell(table, workload->notes[i]);
  }
  const char *note;
  for (size_t i = 0; (note = stg_workload_file_note(workload, i)) != NULL; i++) {
    stg_table_cell(table, "note");
    stg_table_cell(table, note);
  }
}

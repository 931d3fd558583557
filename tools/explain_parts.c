/*
 * explain_parts.c: the report of `explain` as JSON and as text: a block for each kernel of the
 * launch. Must not compute anything; what was not asked for is left out of both.
 */
#include "tools/explain_parts.h"

#include "tools/report.h"

void stg_explain_parts_json(const struct stg_explain_about *about,
                            const struct stg_explain_result *result, struct stg_strbuf *out) {
  const char *note;
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", result->spec);
  stg_json_out_text(&json, "family", about->family);
  stg_json_out_text(&json, "arch", result->arch);
  stg_json_out_text(&json, "signature", result->graph->signature);
  stg_json_out_text(&json, "graph_key", result->graph->graph_key);
  stg_explain_kernels_json(&json, result);
  stg_json_out_open(&json, "batch", '{');
  stg_json_out_int(&json, "rows", about->sizes.rows);
  stg_json_out_count(&json, "requests", about->sizes.requests);
  stg_json_out_count(&json, "longest", about->sizes.longest);
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "notes", '[');
  for (size_t i = 0; (note = about->note(about->job, i)) != NULL; i++) {
    stg_json_out_text(&json, NULL, note);
  }
  stg_json_out_close(&json, ']');
  if (result->programs != NULL) {
    stg_explain_programs_json(&json, result);
  }
  stg_json_out_close(&json, '}');
  *out = json.text;
}

void stg_explain_parts_text(const struct stg_explain_about *about,
                            const struct stg_explain_result *result, struct stg_strbuf *out) {
  struct stg_strbuf batch = {0};
  const char *note;
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_explain_graph_rows(&table, result);
  stg_table_cell(&table, "batch");
  about->print_batch(about->job, &batch);
  stg_table_cell(&table, stg_strbuf_text(&batch));
  stg_strbuf_finish(&batch);
  for (size_t i = 0; (note = about->note(about->job, i)) != NULL; i++) {
    stg_table_cell(&table, "note");
    stg_table_cell(&table, note);
  }
  stg_report_clean(out, result->spec);
  stg_strbuf_str(out, ": ");
  about->print(about->job, out);
  stg_strbuf_char(out, '\n');
  stg_table_print(&table, out);
  stg_explain_kernels_text(result, out);
  stg_explain_programs_text(result, out);
}

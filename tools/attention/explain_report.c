/*
 * attention/explain_report.c: the report of `explain` as JSON and as text: a block for each kernel
 * of the launch. Must not compute anything; what was not asked for is left out of both.
 */
#include "tools/attention/explain_report.h"

#include "tools/report.h"

void stg_attention_explain_json(const struct stg_attention_job *job,
                                const struct stg_explain_result *result, struct stg_strbuf *out) {
  const struct stg_batch_sizes sizes = stg_attention_job_sizes(job);
  const char *note;
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", result->spec);
  stg_json_out_text(&json, "family", stg_spec_kind_name(job->workload.kind));
  stg_json_out_text(&json, "arch", result->arch);
  stg_json_out_text(&json, "signature", result->graph->signature);
  stg_json_out_text(&json, "graph_key", result->graph->graph_key);
  stg_explain_kernels_json(&json, result);
  stg_json_out_open(&json, "batch", '{');
  stg_json_out_int(&json, "rows", sizes.rows);
  stg_json_out_count(&json, "requests", sizes.requests);
  stg_json_out_count(&json, "longest", sizes.longest);
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "notes", '[');
  for (size_t i = 0; (note = stg_attention_job_note(job, i)) != NULL; i++) {
    stg_json_out_text(&json, NULL, note);
  }
  stg_json_out_close(&json, ']');
  if (result->programs != NULL) {
    stg_explain_programs_json(&json, result);
  }
  stg_json_out_close(&json, '}');
  *out = json.text;
}

void stg_attention_explain_text(const struct stg_attention_job *job,
                                const struct stg_explain_result *result, struct stg_strbuf *out) {
  const struct stg_batch_sizes sizes = stg_attention_job_sizes(job);
  const char *note;
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_explain_graph_rows(&table, result);
  stg_table_cell(&table, "batch");
  stg_table_printf(&table, "the longest of %u sequences has %u rows", sizes.requests,
                   sizes.longest);
  for (size_t i = 0; (note = stg_attention_job_note(job, i)) != NULL; i++) {
    stg_table_cell(&table, "note");
    stg_table_cell(&table, note);
  }
  stg_report_clean(out, result->spec);
  stg_strbuf_str(out, ": ");
  stg_attention_job_print(job, out);
  stg_strbuf_char(out, '\n');
  stg_table_print(&table, out);
  stg_explain_kernels_text(result, out);
  stg_explain_programs_text(result, out);
}

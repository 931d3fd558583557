/*
 * explain_parts.c: the report of `explain` as JSON and as text: a block for each kernel of the
 * launch. Must not compute anything; what was not asked for is left out of both.
 */
#include "tools/explain_parts.h"

#include "tools/report.h"

static const char *family_of(const struct stg_explain_result *result, size_t i) {
  return stg_declared_family(result->declared, result->graph->kernels[i]);
}

static void add_kernel(struct stg_json_out *json, const struct stg_explain_result *result,
                       size_t i) {
  const struct stg_explained *kernel = &result->kernels[i];
  stg_json_out_open(json, NULL, '{');
  stg_json_out_text(json, "family", family_of(result, i));
  stg_json_out_text(json, "kernel_signature", kernel->signature);
  stg_json_out_text(json, "kernel_key", kernel->kernel_key);
  stg_json_out_text(json, "variant", kernel->variant);
  stg_json_out_text(json, "kernel", kernel->kernel_name);
  stg_json_out_open(json, "launch", '{');
  stg_json_out_count(json, "threads", kernel->threads);
  stg_json_out_count(json, "rows_per_block", kernel->rows_per_block);
  stg_json_out_close(json, '}');
  if (result->with_misses) {
    stg_explain_miss_json(json, &result->misses[i]);
  }
  if (result->with_source) {
    stg_json_out_text(json, "prelude", kernel->prelude);
    stg_json_out_text(json, "source", kernel->source);
  }
  stg_json_out_close(json, '}');
}

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
  stg_json_out_open(&json, "kernels", '[');
  for (size_t i = 0; i < result->graph->n_kernels; i++) {
    add_kernel(&json, result, i);
  }
  stg_json_out_close(&json, ']');
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

static void append_kernel(const struct stg_explain_result *result, size_t i,
                          struct stg_strbuf *out) {
  const struct stg_explained *kernel = &result->kernels[i];
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_table_cell(&table, "kernel");
  stg_table_cell(&table, kernel->signature);
  stg_table_cell(&table, "kernel key");
  stg_table_cell(&table, kernel->kernel_key);
  stg_explain_launch_row(&table, kernel);
  stg_strbuf_printf(out, "\n%s\n", family_of(result, i));
  stg_table_print(&table, out);
  if (result->with_misses) {
    stg_explain_miss_text(&result->misses[i], out);
  }
  if (result->with_source && kernel->source != NULL) {
    stg_strbuf_printf(out, "\n%s", kernel->source);
  } else if (result->with_source) {
    stg_strbuf_str(out, "\nno source: the CPU does this work itself\n");
  }
}

void stg_explain_parts_text(const struct stg_explain_about *about,
                            const struct stg_explain_result *result, struct stg_strbuf *out) {
  struct stg_strbuf batch = {0};
  const char *note;
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_table_cell(&table, "arch");
  stg_table_printf(&table, "%s%s", result->arch,
                   result->arch_is_guess ? " (no GPU here; --arch chooses another, or cpu)" : "");
  stg_table_cell(&table, "signature");
  stg_table_cell(&table, result->graph->signature);
  stg_table_cell(&table, "graph key");
  stg_table_cell(&table, result->graph->graph_key);
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
  for (size_t i = 0; i < result->graph->n_kernels; i++) {
    append_kernel(result, i, out);
  }
  stg_explain_programs_text(result, out);
}

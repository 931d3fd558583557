/*
 * explain_report.c: the report of `explain` as JSON and as text, of steering; and what others
 * share.
 *
 * Must not compute anything; what was not asked for is left out of both.
 */
#include "tools/explain_report.h"

#include <inttypes.h>

#include "runtime/base/dtype.h"
#include "tools/differences.h"
#include "tools/notes.h"
#include "tools/report.h"
#include "tools/table.h"

void stg_explain_programs_json(struct stg_json_out *json, const struct stg_explain_result *result) {
  stg_json_out_open(json, "programs", '[');
  for (size_t i = 0; i < result->n_programs; i++) {
    const struct stg_explain_program *program = &result->programs[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_open(json, "ops", '[');
    for (size_t k = 0; k < program->chain->n_ops; k++) {
      stg_json_out_text(json, NULL, program->chain->ops[k].op);
    }
    stg_json_out_close(json, ']');
    stg_json_out_text(json, "chains", stg_strbuf_text(&program->places));
    stg_json_out_text(json, "program", program->text);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

void stg_explain_miss_json(struct stg_json_out *json, const struct stg_miss *miss) {
  stg_json_out_open(json, "why_miss", '{');
  stg_json_out_bool(json, "hit", miss->hit);
  stg_json_out_text(json, "nearest", miss->path);
  stg_json_out_text(json, "nearest_key", miss->path != NULL ? miss->key : NULL);
  stg_miss_bad_json(json, miss);
  stg_differences_json(json, "factors", miss->factors, miss->n_factors);
  stg_json_out_close(json, '}');
}

void stg_explain_report_json(const struct stg_job *job, const struct stg_explain_result *result,
                             struct stg_strbuf *out) {
  const struct stg_explained *kernel = &result->kernels[0];
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", result->spec);
  stg_json_out_text(&json, "arch", result->arch);
  stg_json_out_text(&json, "signature", result->graph->signature);
  stg_json_out_text(&json, "kernel_signature", kernel->signature);
  stg_json_out_text(&json, "kernel_key", kernel->kernel_key);
  stg_json_out_text(&json, "graph_key", result->graph->graph_key);
  stg_json_out_text(&json, "variant", kernel->variant);
  stg_json_out_text(&json, "kernel", kernel->kernel_name);
  stg_json_out_open(&json, "launch", '{');
  stg_json_out_count(&json, "threads", kernel->threads);
  stg_json_out_count(&json, "rows_per_block", kernel->rows_per_block);
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "batch", '{');
  stg_json_out_int(&json, "rows", job->workload.rows);
  stg_json_out_count(&json, "requests", job->requests);
  stg_json_out_count(&json, "longest", job->longest);
  stg_json_out_close(&json, '}');
  stg_json_out_open(&json, "declared_ops", '[');
  for (size_t i = 0; i < job->desc.n_ops; i++) {
    stg_json_out_text(&json, NULL, job->desc.ops[i]);
  }
  stg_json_out_close(&json, ']');
  stg_json_out_count(&json, "declared_chain", job->desc.max_chain);
  stg_notes_json(&json, &job->workload);
  if (result->programs != NULL) {
    stg_explain_programs_json(&json, result);
  }
  if (result->with_misses) {
    stg_explain_miss_json(&json, &result->misses[0]);
  }
  if (result->with_source) {
    stg_json_out_text(&json, "prelude", kernel->prelude);
    stg_json_out_text(&json, "source", kernel->source);
  }
  stg_json_out_close(&json, '}');
  *out = json.text;
}

void stg_miss_bad_json(struct stg_json_out *json, const struct stg_miss *miss) {
  stg_json_out_text(json, "bad", miss->bad_path);
  stg_json_out_text(json, "problem", miss->bad_problem);
}

void stg_miss_bad_text(const struct stg_miss *miss, struct stg_strbuf *out) {
  if (miss->bad_path != NULL) {
    stg_strbuf_str(out, "its entry serves nobody and is made again: ");
    stg_report_clean(out, miss->bad_path);
    stg_strbuf_str(out, ": ");
    stg_report_clean(out, miss->bad_problem);
    stg_strbuf_char(out, '\n');
  }
}

void stg_explain_miss_text(const struct stg_miss *miss, struct stg_strbuf *out) {
  if (miss->hit) {
    stg_strbuf_str(out, "\ncached: ");
    stg_report_clean(out, miss->path);
    stg_strbuf_char(out, '\n');
    return;
  }
  if (miss->path == NULL) {
    stg_strbuf_str(out, "\nnot cached: the cache holds no entry to compare with\n");
    stg_miss_bad_text(miss, out);
    return;
  }
  stg_strbuf_str(out, "\nnot cached; the nearest entry is ");
  stg_report_clean(out, miss->path);
  stg_strbuf_char(out, '\n');
  stg_miss_bad_text(miss, out);
  stg_differences_text(miss->factors, miss->n_factors, out);
}

void stg_explain_programs_text(const struct stg_explain_result *result, struct stg_strbuf *out) {
  for (size_t i = 0; i < result->n_programs; i++) {
    const struct stg_explain_program *program = &result->programs[i];
    stg_strbuf_str(out, "\nprogram of ");
    stg_report_clean(out, stg_strbuf_text(&program->places));
    stg_strbuf_printf(out, "\n%s", program->text);
  }
}

static void append_source(const struct stg_explain_result *result, struct stg_strbuf *out) {
  if (result->kernels[0].source == NULL) {
    stg_strbuf_str(out, "\nno source: the CPU runs the chains' scalar programs (--program)\n");
  } else {
    stg_strbuf_printf(out, "\n%s", result->kernels[0].source);
  }
}

void stg_explain_launch_row(struct stg_table *table, const struct stg_explained *kernel) {
  stg_table_cell(table, "launch");
  if (kernel->threads > 0) {
    stg_table_printf(table, "%s, %u threads a block, %u row%s at a time", kernel->kernel_name,
                     kernel->threads, kernel->rows_per_block,
                     kernel->rows_per_block == 1 ? "" : "s");
  } else {
    stg_table_cell(table, "none on the CPU");
  }
}

void stg_explain_report_text(const struct stg_job *job, const struct stg_explain_result *result,
                             struct stg_strbuf *out) {
  const struct stg_explained *kernel = &result->kernels[0];
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_table_cell(&table, "arch");
  stg_table_printf(&table, "%s%s", result->arch,
                   result->arch_is_guess ? " (no GPU here; --arch chooses another, or cpu)" : "");
  stg_table_cell(&table, "signature");
  stg_table_cell(&table, result->graph->signature);
  stg_table_cell(&table, "kernel key");
  stg_table_cell(&table, kernel->kernel_key);
  stg_table_cell(&table, "graph key");
  stg_table_cell(&table, result->graph->graph_key);
  stg_table_cell(&table, "variant");
  stg_table_printf(&table, "%s: the longest of %u requests has %u rows", kernel->variant,
                   job->requests, job->longest);
  stg_explain_launch_row(&table, kernel);
  stg_notes_rows(&table, &job->workload);
  stg_report_clean(out, result->spec);
  stg_strbuf_printf(out, ": %zu requests, %" PRId64 " rows x %" PRId64 ", %s\n",
                    job->workload.n_requests, job->workload.rows, job->workload.hidden_size,
                    stg_dtype_name(job->workload.dtype));
  stg_table_print(&table, out);
  if (result->with_misses) {
    stg_explain_miss_text(&result->misses[0], out);
  }
  stg_explain_programs_text(result, out);
  if (result->with_source) {
    append_source(result, out);
  }
}

/* ---- of the other families ---- */

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

void stg_explain_kernels_json(struct stg_json_out *json, const struct stg_explain_result *result) {
  stg_json_out_open(json, "kernels", '[');
  for (size_t i = 0; i < result->graph->n_kernels; i++) {
    add_kernel(json, result, i);
  }
  stg_json_out_close(json, ']');
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

void stg_explain_kernels_text(const struct stg_explain_result *result, struct stg_strbuf *out) {
  for (size_t i = 0; i < result->graph->n_kernels; i++) {
    append_kernel(result, i, out);
  }
}

void stg_explain_graph_rows(struct stg_table *table, const struct stg_explain_result *result) {
  stg_table_cell(table, "arch");
  stg_table_printf(table, "%s%s", result->arch,
                   result->arch_is_guess ? " (no GPU here; --arch chooses another, or cpu)" : "");
  stg_table_cell(table, "signature");
  stg_table_cell(table, result->graph->signature);
  stg_table_cell(table, "graph key");
  stg_table_cell(table, result->graph->graph_key);
}

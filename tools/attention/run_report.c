/*
 * attention/run_report.c: the report of `run` of a step as JSON and as text.
 *
 * The members of the JSON object are a contract, as those of run_report.c are, which it has as far
 * as they mean something here. Must not compute anything.
 */
#include "tools/attention/run_report.h"

#include <inttypes.h>

#include "tools/json_out.h"
#include "tools/report.h"
#include "tools/table.h"

static bool is_cuda(const struct stg_attention_result *result) {
  return result->engine.backend == STG_BACKEND_CUDA;
}

static double compile_ms(const struct stg_attention_result *result) {
  double sum = 0;
  for (size_t i = 0; i < result->graph.n_kernels; i++) {
    sum += result->kernels[i].made.compile_ms;
  }
  return sum;
}

/* Lengths as the launch left them; NULL without a cache. */
static const int32_t *lengths_of(const struct stg_attention_result *result) {
  return result->job->has_kv
             ? (const int32_t *)(const void *)result->done.tensors->of[STG_ATTENTION_LENGTHS].after
             : NULL;
}

/* ---- JSON ---- */

static void add_kernels(struct stg_json_out *json, const struct stg_attention_result *result) {
  stg_json_out_open(json, "kernels", '[');
  for (size_t i = 0; i < result->graph.n_kernels; i++) {
    const struct stg_attention_kernel *kernel = &result->kernels[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "family", kernel->family);
    stg_json_out_text(json, "signature", kernel->text.signature);
    stg_json_out_text(json, "kernel_key", kernel->text.kernel_key);
    stg_json_out_text(json, "source", kernel->made.source);
    stg_json_out_number(json, "compile_ms", kernel->made.compile_ms);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void add_first(struct stg_json_out *json, const struct stg_attention_part *part) {
  if (part->first_in == NULL) {
    stg_json_out_null(json, "first");
    return;
  }
  stg_json_out_open(json, "first", '{');
  stg_json_out_text(json, "in", part->first_in);
  stg_json_out_int(json, "row", part->first_row);
  stg_json_out_int(json, "head", part->first_head);
  stg_json_out_int(json, "element", part->first_element);
  stg_json_out_close(json, '}');
}

static void add_parts(struct stg_json_out *json, const struct stg_attention_check *check) {
  stg_json_out_open(json, "parts", '[');
  for (size_t i = 0; i < check->n_parts; i++) {
    const struct stg_attention_part *part = &check->parts[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "part", part->name);
    stg_json_out_number(json, "max_abs_err", part->max_abs_err);
    stg_json_out_number(json, "worst_ratio", part->worst_ratio);
    stg_json_out_count(json, "violations", part->violations);
    add_first(json, part);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void add_check(struct stg_json_out *json, const struct stg_attention_result *result) {
  const struct stg_attention_check *check = &result->check;
  stg_json_out_count(json, "rows", check->rows);
  stg_json_out_count(json, "rows_padding", check->rows_padding);
  stg_json_out_count(json, "rows_refused", check->rows_refused);
  stg_json_out_count_if(json, "rows_steered", check->rows_steered, result->job->workload.steered);
  stg_json_out_number(json, "max_abs_err", check->max_abs_err);
  stg_json_out_number(json, "mae", check->mae);
  stg_json_out_number(json, "worst_ratio", check->worst_ratio);
  stg_json_out_count(json, "violations", check->violations);
  stg_json_out_count(json, "overflows", check->overflows);
  add_parts(json, check);
  stg_json_out_bool(json, "ok", check->ok);
}

static void add_time(struct stg_json_out *json, const struct stg_attention_result *result) {
  if (!result->timed) {
    stg_json_out_null(json, "time_us");
    return;
  }
  stg_json_out_open(json, "time_us", '{');
  stg_json_out_number(json, "median", result->times.median_us);
  stg_json_out_number(json, "min", result->times.min_us);
  stg_json_out_number(json, "max", result->times.max_us);
  stg_json_out_close(json, '}');
}

static void add_lengths(struct stg_json_out *json, const struct stg_attention_result *result) {
  const int32_t *lengths = lengths_of(result);
  if (lengths == NULL) {
    stg_json_out_null(json, "lengths_after");
    return;
  }
  stg_json_out_open(json, "lengths_after", '[');
  for (uint32_t i = 0; i < result->job->workload.batch; i++) {
    stg_json_out_int(json, NULL, lengths[i]);
  }
  stg_json_out_close(json, ']');
}

static void add_notes(struct stg_json_out *json, const struct stg_attention_result *result) {
  const char *note;
  stg_json_out_open(json, "notes", '[');
  for (size_t i = 0; (note = stg_attention_job_note(result->job, i)) != NULL; i++) {
    stg_json_out_text(json, NULL, note);
  }
  stg_json_out_close(json, ']');
}

void stg_attention_report_json(const struct stg_attention_result *result, struct stg_strbuf *out) {
  const struct stg_attention_kernel *first = &result->kernels[0];
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", result->spec);
  stg_json_out_text(&json, "family", stg_spec_kind_name(result->job->workload.kind));
  stg_json_out_text(&json, "backend", is_cuda(result) ? "cuda" : "cpu");
  stg_json_out_text(&json, "reason", result->engine.reason);
  stg_json_out_text(&json, "device", result->engine.device);
  stg_json_out_text(&json, "signature", result->graph.signature);
  stg_json_out_text(&json, "kernel_key", first->text.kernel_key);
  add_kernels(&json, result);
  stg_json_out_text(&json, "graph_key", result->graph.graph_key);
  stg_json_out_text(&json, "source", first->made.source);
  stg_json_out_null(&json, "tier");
  stg_json_out_number(&json, "compile_ms", compile_ms(result));
  add_check(&json, result);
  add_time(&json, result);
  stg_json_out_count(&json, "bytes", result->bytes);
  stg_json_out_text(&json, "checksum", result->checksum);
  add_lengths(&json, result);
  stg_json_out_text(&json, "output", result->output);
  add_notes(&json, result);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

/* ---- text ---- */

static void add_time_rows(struct stg_table *table, const struct stg_attention_result *result) {
  if (!result->timed) {
    return;
  }
  struct stg_strbuf text = {0};
  stg_times_print(&result->times, result->job->workload.repeats, "launches", &text);
  stg_table_cell(table, "time");
  stg_table_cell(table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  if (result->times.median_us > 0) {
    stg_table_cell(table, "moves");
    stg_table_printf(table, "%" PRIu64 " bytes at least, %.4g GB/s", result->bytes,
                     (double)result->bytes / result->times.median_us / 1000);
  }
}

static void add_kernel_rows(struct stg_table *table, const struct stg_attention_result *result) {
  if (!is_cuda(result)) {
    stg_table_cell(table, "kernels");
    stg_table_cell(table, "none: the CPU does their work itself");
    return;
  }
  for (size_t i = 0; i < result->graph.n_kernels; i++) {
    const struct stg_attention_kernel *kernel = &result->kernels[i];
    stg_table_cell(table, i == 0 ? "kernels" : "");
    stg_table_printf(table, "%s %s, from %s", kernel->family, kernel->text.kernel_key,
                     kernel->made.source != NULL ? kernel->made.source : "nowhere");
    if (kernel->made.compile_ms > 0) {
      stg_table_cell(table, "");
      stg_table_printf(table, "compiled in %.0f ms", kernel->made.compile_ms);
    }
  }
}

static void add_check_rows(struct stg_table *table, const struct stg_attention_result *result) {
  const struct stg_attention_check *check = &result->check;
  struct stg_strbuf text = {0};
  stg_strbuf_printf(&text, "%" PRIu64 ", %" PRIu64 " of padding, %" PRIu64 " refused", check->rows,
                    check->rows_padding, check->rows_refused);
  if (result->job->workload.steered) {
    stg_strbuf_printf(&text, ", %" PRIu64 " steered", check->rows_steered);
  }
  stg_table_cell(table, "rows");
  stg_table_cell(table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  if (result->done.refused->full_rows > 0) {
    stg_table_cell(table, "");
    stg_table_printf(table, "no room first for row %" PRId64 ", of sequence %" PRId32,
                     result->done.refused->full_row, result->done.refused->full_seq);
  }
  stg_table_cell(table, "check");
  stg_table_printf(table,
                   "%" PRIu64 " violations, worst error %.3g of its bound, largest %.3g, mean %.3g",
                   check->violations, check->worst_ratio, check->max_abs_err, check->mae);
  if (check->overflows > 0) {
    stg_table_cell(table, "");
    stg_table_printf(table,
                     "%" PRIu64 " elements are not finite, since what leads to them leaves the "
                     "range of its type",
                     check->overflows);
  }
}

static void add_lengths_row(struct stg_table *table, const struct stg_attention_result *result) {
  const int32_t *lengths = lengths_of(result);
  const uint32_t batch = result->job->workload.batch;
  if (lengths == NULL) {
    return;
  }
  int32_t least = lengths[0], most = lengths[0];
  for (uint32_t i = 1; i < batch; i++) {
    least = lengths[i] < least ? lengths[i] : least;
    most = lengths[i] > most ? lengths[i] : most;
  }
  stg_table_cell(table, "lengths");
  stg_table_printf(table, "%" PRId32 " to %" PRId32 "%s", least, most,
                   result->job->workload.advance ? ", after the step" : "");
}

static void add_verdict(struct stg_strbuf *out, const struct stg_attention_check *check) {
  if (check->ok) {
    stg_strbuf_str(out, "ok\n");
    return;
  }
  const struct stg_attention_part *part = check->parts;
  while (part->violations == 0) {
    part++;
  }
  stg_strbuf_printf(
      out, "FAILED: %s: first in %s, row %" PRId64 ", head %" PRId64 ", element %" PRId64 "\n",
      part->name, part->first_in != NULL ? part->first_in : "?", part->first_row, part->first_head,
      part->first_element);
}

void stg_attention_report_text(const struct stg_attention_result *result, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "ll", .indent = "  "};
  const char *note;
  stg_table_cell(&table, "backend");
  stg_table_cell(&table, result->engine.reason);
  stg_table_cell(&table, "device");
  stg_table_cell(&table, result->engine.device);
  stg_table_cell(&table, "signature");
  stg_table_cell(&table, result->graph.signature);
  add_kernel_rows(&table, result);
  add_check_rows(&table, result);
  add_lengths_row(&table, result);
  add_time_rows(&table, result);
  stg_table_cell(&table, "checksum");
  stg_table_cell(&table, result->checksum);
  if (result->output != NULL) {
    stg_table_cell(&table, "output");
    stg_table_cell(&table, result->output);
  }
  for (size_t i = 0; (note = stg_attention_job_note(result->job, i)) != NULL; i++) {
    stg_table_cell(&table, "note");
    stg_table_cell(&table, note);
  }
  stg_report_clean(out, result->spec);
  stg_strbuf_str(out, ": ");
  stg_attention_job_print(result->job, out);
  stg_strbuf_char(out, '\n');
  stg_table_print(&table, out);
  add_verdict(out, &result->check);
}

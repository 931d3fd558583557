/*
 * components/run_report.c: the report of `run` of components as JSON and as text.
 *
 * The members of the JSON object are a contract, as those of run_report.c are, which it has as far
 * as they mean something here. Must not compute anything.
 */
#include "tools/components/run_report.h"

#include <inttypes.h>

#include "tools/json_out.h"
#include "tools/report.h"
#include "tools/table.h"

static bool is_cuda(const struct stg_components_result *result) {
  return result->engine.backend == STG_BACKEND_CUDA;
}

static double compile_ms(const struct stg_components_way *way) {
  double sum = 0;
  for (size_t i = 0; i < way->graph.n_kernels; i++) {
    sum += way->kernels[i].made.compile_ms;
  }
  return sum;
}

/* ---- JSON ---- */

static void add_kernels(struct stg_json_out *json, const struct stg_components_way *way) {
  stg_json_out_open(json, "kernels", '[');
  for (size_t i = 0; i < way->graph.n_kernels; i++) {
    const struct stg_components_kernel *kernel = &way->kernels[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "family", "components");
    stg_json_out_text(json, "signature", kernel->text.signature);
    stg_json_out_text(json, "kernel_key", kernel->text.kernel_key);
    stg_json_out_text(json, "source", kernel->made.source);
    stg_json_out_number(json, "compile_ms", kernel->made.compile_ms);
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void add_way(struct stg_json_out *json, const struct stg_components_way *way) {
  stg_json_out_text(json, "signature", way->graph.signature);
  stg_json_out_text(json, "kernel_key", way->kernels[0].text.kernel_key);
  add_kernels(json, way);
  stg_json_out_text(json, "graph_key", way->graph.graph_key);
}

/* The launch of the gradients; null where there is none. */
static void add_back(struct stg_json_out *json, const struct stg_components_way *back) {
  if (back->graph.n_kernels == 0) {
    stg_json_out_null(json, "back");
    return;
  }
  stg_json_out_open(json, "back", '{');
  add_way(json, back);
  stg_json_out_close(json, '}');
}

static void add_first(struct stg_json_out *json,
                      const struct stg_oracle_components_report *report) {
  if (report->first_in == NULL) {
    stg_json_out_null(json, "first");
    return;
  }
  stg_json_out_open(json, "first", '{');
  stg_json_out_int(json, "row", report->first_row);
  stg_json_out_int(json, "element", report->first_element);
  stg_json_out_close(json, '}');
}

static void add_errors(struct stg_json_out *json,
                       const struct stg_oracle_components_report *report) {
  stg_json_out_number(json, "max_abs_err", report->max_abs_err);
  stg_json_out_number(json, "mae", report->mae);
  stg_json_out_number(json, "worst_ratio", report->worst_ratio);
  stg_json_out_count(json, "violations", report->violations);
  stg_json_out_count(json, "overflows", report->overflows);
  stg_json_out_count(json, "unbounded", report->unbounded);
  add_first(json, report);
}

static void add_gradients(struct stg_json_out *json, const struct stg_components_result *result) {
  if (!result->job->workload.both) {
    stg_json_out_null(json, "gradients");
    return;
  }
  stg_json_out_open(json, "gradients", '{');
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS; i++) {
    if (result->check.has[i]) {
      stg_json_out_open(json, stg_oracle_components_gradient(i), '{');
      add_errors(json, &result->check.gradients[i]);
      stg_json_out_close(json, '}');
    }
  }
  stg_json_out_close(json, '}');
}

static void add_time(struct stg_json_out *json, const struct stg_components_result *result) {
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

void stg_components_report_json(const struct stg_components_result *result,
                                struct stg_strbuf *out) {
  const struct stg_components_check *check = &result->check;
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", result->spec);
  stg_json_out_text(&json, "family", "components");
  stg_json_out_text(&json, "backend", is_cuda(result) ? "cuda" : "cpu");
  stg_json_out_text(&json, "reason", result->engine.reason);
  stg_json_out_text(&json, "device", result->engine.device);
  add_way(&json, &result->forward);
  add_back(&json, &result->back);
  stg_json_out_text(&json, "source", result->forward.kernels[0].made.source);
  stg_json_out_null(&json, "tier");
  stg_json_out_number(&json, "compile_ms",
                      compile_ms(&result->forward) + compile_ms(&result->back));
  stg_json_out_count(&json, "rows", check->rows);
  stg_json_out_count(&json, "rows_padding", check->rows_padding);
  add_errors(&json, &check->y);
  add_gradients(&json, result);
  stg_json_out_bool(&json, "ok", check->ok);
  add_time(&json, result);
  stg_json_out_count(&json, "bytes", result->cost.bytes);
  stg_json_out_number(&json, "flop", result->cost.flop);
  stg_json_out_text(&json, "checksum", result->checksum);
  stg_json_out_text(&json, "output", result->output);
  stg_json_out_open(&json, "notes", '[');
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

/* ---- text ---- */

static void add_kernel_rows(struct stg_table *table, const struct stg_components_way *way,
                            const char *label) {
  for (size_t i = 0; i < way->graph.n_kernels; i++) {
    const struct stg_components_kernel *kernel = &way->kernels[i];
    stg_table_cell(table, i == 0 ? label : "");
    stg_table_printf(table, "%s, from %s", kernel->text.kernel_key,
                     kernel->made.source != NULL ? kernel->made.source : "nowhere");
    if (kernel->made.compile_ms > 0) {
      stg_table_cell(table, "");
      stg_table_printf(table, "compiled in %.0f ms", kernel->made.compile_ms);
    }
  }
}

static void add_check_row(struct stg_table *table, const char *tensor,
                          const struct stg_oracle_components_report *report) {
  stg_table_cell(table, tensor);
  stg_table_printf(table,
                   "%" PRIu64 " violations, worst error %.3g of its bound, largest %.3g, mean %.3g",
                   report->violations, report->worst_ratio, report->max_abs_err, report->mae);
  if (report->overflows + report->unbounded > 0) {
    stg_table_cell(table, "");
    stg_table_printf(table,
                     "%" PRIu64 " elements are not finite, since what leads to them leaves the "
                     "range of its type; of %" PRIu64 " nothing can be said",
                     report->overflows, report->unbounded);
  }
}

static void add_time_rows(struct stg_table *table, const struct stg_components_result *result) {
  if (!result->timed) {
    return;
  }
  struct stg_strbuf text = {0};
  stg_times_print(&result->times, result->job->workload.repeats,
                  result->job->workload.both ? "calls of both directions" : "calls", &text);
  stg_table_cell(table, "time");
  stg_table_cell(table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  if (result->times.median_us > 0) {
    stg_table_cell(table, "computes");
    stg_table_printf(table, "%.3g GFLOP at least, %.4g GFLOP/s", result->cost.flop / 1e9,
                     result->cost.flop / result->times.median_us / 1000);
    stg_table_cell(table, "moves");
    stg_table_printf(table, "%" PRIu64 " bytes at least, %.4g GB/s", result->cost.bytes,
                     (double)result->cost.bytes / result->times.median_us / 1000);
  }
}

/* The first result that fails. */
static void add_verdict(struct stg_strbuf *out, const struct stg_components_check *check) {
  if (check->ok) {
    stg_strbuf_str(out, "ok\n");
    return;
  }
  const struct stg_oracle_components_report *first = &check->y;
  for (size_t i = 0; first->violations == 0; i++) {
    first = &check->gradients[i];
  }
  stg_strbuf_printf(out, "FAILED: first in %s, row %" PRId64 ", element %" PRId64 "\n",
                    first->first_in, first->first_row, first->first_element);
}

void stg_components_report_text(const struct stg_components_result *result,
                                struct stg_strbuf *out) {
  const struct stg_components_check *check = &result->check;
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_table_cell(&table, "backend");
  stg_table_cell(&table, result->engine.reason);
  stg_table_cell(&table, "device");
  stg_table_cell(&table, result->engine.device);
  stg_table_cell(&table, "signature");
  stg_table_cell(&table, result->forward.graph.signature);
  if (result->back.graph.n_kernels > 0) {
    stg_table_cell(&table, "back");
    stg_table_cell(&table, result->back.graph.signature);
  }
  if (is_cuda(result)) {
    add_kernel_rows(&table, &result->forward, "kernel");
    add_kernel_rows(&table, &result->back, "back");
  } else {
    stg_table_cell(&table, "kernels");
    stg_table_cell(&table, "none: the CPU does their work itself");
  }
  stg_table_cell(&table, "rows");
  stg_table_printf(&table, "%" PRIu64 ", %" PRIu64 " of padding", check->rows, check->rows_padding);
  add_check_row(&table, "y", &check->y);
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS; i++) {
    if (check->has[i]) {
      add_check_row(&table, stg_oracle_components_gradient(i), &check->gradients[i]);
    }
  }
  add_time_rows(&table, result);
  stg_table_cell(&table, "checksum");
  stg_table_cell(&table, result->checksum);
  if (result->output != NULL) {
    stg_table_cell(&table, "output");
    stg_table_cell(&table, result->output);
  }
  stg_report_clean(out, result->spec);
  stg_strbuf_str(out, ": ");
  stg_components_job_print(result->job, out);
  stg_strbuf_char(out, '\n');
  stg_table_print(&table, out);
  add_verdict(out, check);
}

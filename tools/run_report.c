/*
 * run_report.c: the report of `run` as JSON and as text.
 *
 * The members of the JSON object are a contract (ARCHITECTURE.md, "The command line"): scripts and
 * the benchmark read them. Must not compute anything.
 */
#include "tools/run_report.h"

#include <inttypes.h>

#include "runtime/base/dtype.h"
#include "tools/json_out.h"
#include "tools/notes.h"
#include "tools/report.h"
#include "tools/table.h"

static const char *backend_name(stg_backend backend) {
  return backend == STG_BACKEND_CUDA ? "cuda" : "cpu";
}

static void add_check(struct stg_json_out *json, const struct stg_run_result *result) {
  const struct stg_oracle_report *check = &result->check;
  stg_json_out_count(json, "rows", check->rows);
  stg_json_out_count(json, "rows_steered", check->rows_steered);
  stg_json_out_count(json, "rows_untouched", check->rows_untouched);
  stg_json_out_number(json, "max_abs_err", check->max_abs_err);
  stg_json_out_number(json, "worst_ratio", check->worst_ratio);
  stg_json_out_count(json, "violations", check->violations);
  stg_json_out_open(json, "projection_err_rms", '{');
  for (size_t i = 0; i < check->n_ops; i++) {
    stg_json_out_number(json, check->ops[i].op, check->ops[i].projection_err_rms);
  }
  stg_json_out_close(json, '}');
  stg_json_out_bool(json, "ok", result->ok);
}

void stg_run_report_json(const struct stg_run_result *result, struct stg_strbuf *out) {
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", result->spec);
  stg_json_out_text(&json, "backend", backend_name(result->engine.backend));
  stg_json_out_text(&json, "reason", result->engine.reason);
  stg_json_out_text(&json, "device", result->engine.device);
  stg_json_out_text(&json, "signature", result->plan.signature);
  stg_json_out_text(&json, "kernel_key", result->plan.kernel_key);
  stg_json_out_text(&json, "graph_key", result->plan.graph_key);
  stg_json_out_text(&json, "source", result->plan.source);
  if (result->plan.tier >= 0) {
    stg_json_out_int(&json, "tier", result->plan.tier);
  } else {
    stg_json_out_null(&json, "tier");
  }
  stg_json_out_number(&json, "compile_ms", result->plan.compile_ms);
  add_check(&json, result);
  if (result->timed) {
    stg_json_out_open(&json, "time_us", '{');
    stg_json_out_number(&json, "median", result->times.median_us);
    stg_json_out_number(&json, "min", result->times.min_us);
    stg_json_out_number(&json, "max", result->times.max_us);
    stg_json_out_close(&json, '}');
  } else {
    stg_json_out_null(&json, "time_us");
  }
  stg_json_out_text(&json, "checksum", result->checksum);
  stg_json_out_count(&json, "overflows", result->check.overflows);
  stg_json_out_count(&json, "branch_rows", result->check.branch_rows);
  stg_json_out_count(&json, "non_finite_rows", result->device.non_finite_rows);
  stg_json_out_text(&json, "output", result->output);
  stg_notes_json(&json, &result->job->workload);
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void add_times(struct stg_table *table, const struct stg_run_result *result) {
  if (!result->timed) {
    return;
  }
  struct stg_strbuf text = {0};
  stg_times_print(&result->times, result->job->workload.repeats, "applies", &text);
  stg_table_cell(table, "time");
  stg_table_cell(table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
}

static void add_verdict(struct stg_strbuf *out, const struct stg_run_result *result) {
  const struct stg_oracle_report *check = &result->check;
  if (result->ok) {
    stg_strbuf_str(out, "ok\n");
  } else if (check->violations > 0) {
    stg_strbuf_printf(out, "FAILED: first at row %" PRId64 ", element %" PRId64 "%s\n",
                      check->first_row, check->first_element,
                      check->first_in_residual ? " of the residual"
                      : check->first_in_probes ? " of the probes"
                                               : "");
  } else {
    stg_strbuf_printf(out, "FAILED: %u rows named no slot, one of them %" PRId32 "\n",
                      result->device.bad_slot_rows, result->device.bad_slot);
  }
}

void stg_run_report_text(const struct stg_run_result *result, struct stg_strbuf *out) {
  const struct stg_workload *w = &result->job->workload;
  const struct stg_oracle_report *check = &result->check;
  struct stg_table table = {.columns = "ll", .indent = "  "};
  stg_table_cell(&table, "backend");
  stg_table_cell(&table, result->engine.reason);
  stg_table_cell(&table, "device");
  stg_table_cell(&table, result->engine.device);
  stg_table_cell(&table, "signature");
  stg_table_cell(&table, result->plan.signature);
  stg_table_cell(&table, "kernel");
  if (result->engine.backend == STG_BACKEND_CUDA) {
    stg_table_printf(&table, "%s, tier %d, from %s", result->plan.kernel_key, result->plan.tier,
                     result->plan.source);
    if (result->plan.compile_ms > 0) {
      stg_table_cell(&table, "");
      stg_table_printf(&table, "compiled in %.0f ms", result->plan.compile_ms);
    }
  } else {
    stg_table_cell(&table, "none: the CPU runs the chains' scalar programs");
  }
  stg_table_cell(&table, "rows");
  stg_table_printf(&table, "%" PRIu64 " steered, %" PRIu64 " untouched", check->rows_steered,
                   check->rows_untouched);
  stg_table_cell(&table, "check");
  stg_table_printf(&table, "%" PRIu64 " violations, worst error %.3g of its bound, largest %.3g",
                   check->violations, check->worst_ratio, check->max_abs_err);
  add_times(&table, result);
  stg_table_cell(&table, "checksum");
  stg_table_cell(&table, result->checksum);
  if (result->output != NULL) {
    stg_table_cell(&table, "output");
    stg_table_cell(&table, result->output);
  }
  stg_notes_rows(&table, w);
  stg_report_clean(out, result->spec);
  stg_strbuf_printf(out, ": %zu requests, %" PRId64 " rows x %" PRId64 ", %s\n", w->n_requests,
                    w->rows, w->hidden_size, stg_dtype_name(w->dtype));
  stg_table_print(&table, out);
  add_verdict(out, result);
}

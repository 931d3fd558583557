/*
 * prove/trace_report.c: see trace_report.h. Must not prove anything.
 */
#include "tools/prove/trace_report.h"

#include <inttypes.h>
#include <math.h>

#include "tools/prove/names.h"
#include "tools/prove/report.h"
#include "tools/report.h"
#include "tools/table.h"

/* What the softmax of a step's logits divides by, and the largest of them. */
struct softmax {
  double most, sum;
};

static struct softmax softmax_of(const stg_prover_step *step) {
  struct softmax softmax = {.most = (double)step->logits[0]};
  for (uint32_t i = 1; i < step->n_children; i++) {
    softmax.most = fmax(softmax.most, (double)step->logits[i]);
  }
  for (uint32_t i = 0; i < step->n_children; i++) {
    softmax.sum += exp((double)step->logits[i] - softmax.most);
  }
  return softmax;
}

static double probability(const struct softmax *softmax, float logit) {
  return exp((double)logit - softmax->most) / softmax->sum;
}

/* ---- JSON ---- */

static void add_state(struct stg_json_out *json, const char *key, const struct stg_kb *kb,
                      const stg_prover_state *state) {
  struct stg_strbuf text = {0};
  stg_json_out_open(json, key, '[');
  for (uint32_t i = 0; i < state->n; i++) {
    stg_prove_print_atom(kb, state->atoms[i], &text);
    stg_json_out_text(json, NULL, stg_strbuf_text(&text));
    stg_strbuf_finish(&text);
  }
  stg_json_out_close(json, ']');
}

static void add_step(struct stg_json_out *json, const struct stg_kb *kb,
                     const stg_prover_step *step) {
  const struct softmax softmax = softmax_of(step);
  stg_json_out_open(json, NULL, '{');
  add_state(json, "state", kb, &step->state);
  stg_json_out_count(json, "action", step->action);
  stg_json_out_open(json, "children", '[');
  for (uint32_t i = 0; i < step->n_children; i++) {
    stg_json_out_open(json, NULL, '{');
    add_state(json, "state", kb, &step->children[i]);
    stg_json_out_float(json, "logit", step->logits[i]);
    stg_json_out_number(json, "probability", probability(&softmax, step->logits[i]));
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
  stg_json_out_close(json, '}');
}

void stg_prove_trace_json(const struct stg_prove_way *way, struct stg_strbuf *out) {
  const struct stg_kb *kb = &way->job->workload.kb;
  struct stg_json_out json = {0};
  struct stg_strbuf query = {0};
  stg_prove_print_atom(kb, way->query, &query);
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", way->options->spec);
  stg_json_out_text(&json, "query", stg_strbuf_text(&query));
  stg_json_out_count_if(&json, "candidate", way->number, way->number != SIZE_MAX);
  stg_json_out_text(&json, "outcome", stg_prove_outcome_name(way->proof->outcome));
  stg_json_out_count(&json, "depth", way->proof->depth);
  stg_json_out_float(&json, "logp", way->proof->logp);
  stg_json_out_open(&json, "steps", '[');
  for (size_t i = 0; i < way->n_steps; i++) {
    add_step(&json, kb, &way->steps[i]);
  }
  stg_json_out_close(&json, ']');
  stg_prove_check_json(&way->check, stg_strbuf_text(&query), &json);
  stg_json_out_close(&json, '}');
  stg_strbuf_finish(&query);
  *out = json.text;
}

/* ---- text ---- */

static void append_step(const struct stg_kb *kb, const stg_prover_step *step, size_t number,
                        struct stg_strbuf *out) {
  const struct softmax softmax = softmax_of(step);
  struct stg_table table = {.columns = "lrrl", .indent = "  "};
  struct stg_strbuf text = {0};
  stg_prove_print_state(kb, &step->state, &text);
  stg_strbuf_printf(out, "\nstep %zu: ", number);
  stg_report_clean(out, stg_strbuf_text(&text));
  stg_strbuf_char(out, '\n');
  stg_strbuf_finish(&text);
  stg_table_cell(&table, "");
  stg_table_cell(&table, "probability");
  stg_table_cell(&table, "logit");
  stg_table_cell(&table, "derived");
  for (uint32_t i = 0; i < step->n_children; i++) {
    stg_prove_print_state(kb, &step->children[i], &text);
    stg_table_cell(&table, i == step->action ? "*" : "");
    stg_table_printf(&table, "%.3g", probability(&softmax, step->logits[i]));
    stg_table_printf(&table, "%.4f", (double)step->logits[i]);
    stg_table_cell(&table, stg_strbuf_text(&text));
    stg_strbuf_finish(&text);
  }
  stg_table_print(&table, out);
}

void stg_prove_trace_text(const struct stg_prove_way *way, struct stg_strbuf *out) {
  const struct stg_kb *kb = &way->job->workload.kb;
  struct stg_strbuf query = {0};
  stg_prove_print_atom(kb, way->query, &query);
  stg_report_clean(out, way->options->spec);
  stg_strbuf_str(out, ": ");
  stg_report_clean(out, stg_strbuf_text(&query));
  if (way->number == SIZE_MAX) {
    stg_strbuf_str(out, ", no candidate of the workload\n");
  } else {
    stg_strbuf_printf(out, ", candidate %zu\n", way->number);
  }
  for (size_t i = 0; i < way->n_steps; i++) {
    append_step(kb, &way->steps[i], i + 1, out);
  }
  stg_strbuf_printf(out, "\n%s after %" PRIu32 " %s, logp %.6g\n",
                    stg_prove_outcome_name(way->proof->outcome), way->proof->depth,
                    way->proof->depth == 1 ? "step" : "steps", (double)way->proof->logp);
  stg_prove_check_text(&way->check, stg_strbuf_text(&query), out);
  stg_strbuf_finish(&query);
}

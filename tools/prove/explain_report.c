/*
 * prove/explain_report.c: the report of `explain` as JSON and as text: the kernel that serves pools
 * of any size, how the search is bounded, and what it is asked.
 */
#include "tools/prove/explain_report.h"

#include <inttypes.h>
#include <string.h>

#include "tools/prove/sides.h"
#include "tools/report.h"

static void add_policy(struct stg_json_out *json, const struct stg_prover_workload *w) {
  stg_json_out_open(json, "policy", '{');
  stg_json_out_count(json, "embed", w->sizes.embed);
  stg_json_out_count(json, "hidden", w->sizes.hidden);
  stg_json_out_count(json, "blocks", w->sizes.blocks);
  stg_json_out_float(json, "epsilon", w->epsilon);
  stg_json_out_text(json, "file", w->weights_path);
  stg_json_out_count_if(json, "seed", w->weights_seed, w->weights_path == NULL);
  stg_json_out_close(json, '}');
}

static void add_corruptions(struct stg_json_out *json, const struct stg_prover_workload *w) {
  const struct stg_prover_corruptions *c = &w->corruptions;
  stg_json_out_open(json, "corruptions", '{');
  stg_json_out_count(json, "count", c->count);
  stg_json_out_open(json, "sides", '[');
  for (uint32_t i = 0; i < c->n_sides; i++) {
    stg_json_out_text(json, NULL, stg_prove_side_name(c->sides[i]));
  }
  stg_json_out_close(json, ']');
  stg_json_out_text(json, "domain", c->of_argument ? "argument" : "all");
  stg_json_out_bool(json, "filter", c->filter);
  stg_json_out_close(json, '}');
}

static bool on_cpu(const struct stg_explain_result *result) {
  return strcmp(result->arch, "cpu") == 0;
}

void stg_prove_explain_json(const struct stg_prove_job *job,
                            const struct stg_explain_result *result, struct stg_strbuf *out) {
  const struct stg_prover_workload *w = &job->workload;
  const char *note;
  struct stg_json_out json = {0};
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", result->spec);
  stg_json_out_text(&json, "family", "prover");
  stg_json_out_text(&json, "arch", result->arch);
  stg_json_out_text(&json, "signature", result->graph->signature);
  stg_json_out_text(&json, "graph_key", result->graph->graph_key);
  stg_explain_kernels_json(&json, result);
  stg_json_out_count(&json, "facts", w->kb.facts.n);
  stg_json_out_count(&json, "rules", w->kb.n_rules);
  stg_json_out_count(&json, "predicates", w->kb.predicates.n);
  stg_json_out_count(&json, "constants", w->kb.constants.n);
  stg_json_out_count(&json, "queries", w->n_queries);
  add_policy(&json, w);
  stg_json_out_open(&json, "limits", '{');
  stg_json_out_count(&json, "atoms", w->sizes.atoms);
  stg_json_out_count(&json, "children", w->children);
  stg_json_out_count(&json, "depth", w->depth);
  stg_json_out_close(&json, '}');
  stg_json_out_count(&json, "capacity", w->capacity);
  add_corruptions(&json, w);
  stg_json_out_text(&json, "pick", w->sample ? "sample" : "argmax");
  stg_json_out_open(&json, "notes", '[');
  for (size_t i = 0; (note = stg_prove_job_note(job, on_cpu(result), i)) != NULL; i++) {
    stg_json_out_text(&json, NULL, note);
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  *out = json.text;
}

static void add_corruptions_row(struct stg_table *table, const struct stg_prover_corruptions *c) {
  stg_table_cell(table, "corruptions");
  stg_table_printf(table, "%" PRIu32 " a query, %s%s; of %s%s", c->count,
                   stg_prove_side_name(c->sides[0]),
                   c->n_sides < 2                   ? ""
                   : c->sides[1] == STG_PROVER_HEAD ? " and head"
                                                    : " and tail",
                   c->of_argument ? "the constants that facts have there" : "all constants",
                   c->filter ? ", none a fact or a query" : "");
}

void stg_prove_explain_text(const struct stg_prove_job *job,
                            const struct stg_explain_result *result, struct stg_strbuf *out) {
  struct stg_table table = {.columns = "ll", .indent = "  "};
  struct stg_strbuf text = {0};
  const char *note;
  stg_explain_graph_rows(&table, result);
  stg_prove_job_print_policy(job, &text);
  stg_table_cell(&table, "weights");
  stg_table_cell(&table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  stg_prove_job_print_limits(job, &text);
  stg_table_cell(&table, "limits");
  stg_table_cell(&table, stg_strbuf_text(&text));
  stg_strbuf_finish(&text);
  add_corruptions_row(&table, &job->workload.corruptions);
  stg_table_cell(&table, "capacity");
  stg_table_printf(&table, "%" PRIu32 " queries a launch; larger pools are several",
                   job->workload.capacity);
  for (size_t i = 0; (note = stg_prove_job_note(job, on_cpu(result), i)) != NULL; i++) {
    stg_table_cell(&table, "note");
    stg_table_cell(&table, note);
  }
  stg_report_clean(out, result->spec);
  stg_strbuf_str(out, ": ");
  stg_prove_job_print(job, out);
  stg_strbuf_char(out, '\n');
  stg_table_print(&table, out);
  stg_explain_kernels_text(result, out);
}

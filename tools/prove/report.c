/*
 * prove/report.c: the report of a pool as JSON and as text.
 *
 * The members of the JSON object are a contract, as those of run_report.c are, which it has as far
 * as they mean something here. Must not prove anything.
 */
#include "tools/prove/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tools/prove/dense.h"
#include "tools/prove/names.h"
#include "tools/report.h"
#include "tools/table.h"

static bool is_cuda(const struct stg_prove_done *done) {
  return stg_prove_job_is_cuda(done->job);
}

struct memory {
  stg_prover_memory held;
  uint64_t states_bytes; /* what is derived of the queries that are at work */
  uint64_t padded_bytes; /* the same of a padded batch */
  uint64_t peak_bytes;   /* of the process */
};

static size_t candidates_of(const struct stg_prove_done *done) {
  return done->objects->pool.candidates.n;
}

/* Of the CPU: no more than there are candidates have any work. */
static uint64_t threads_of(const struct stg_prove_done *done) {
  const uint64_t asked = done->options->threads;
  return candidates_of(done) < asked ? candidates_of(done) : asked;
}

static struct memory memory_of(const struct stg_prove_done *done) {
  const uint32_t children = done->job->workload.children;
  struct rusage usage = {0};
  stg_prover_memory held = {.struct_size = sizeof held};
  getrusage(RUSAGE_SELF, &usage);
  stg_prover_get_memory(done->objects->prover, &held);
  return (struct memory){
      .states_bytes = is_cuda(done) ? held.states_bytes
                                    : threads_of(done) * children * sizeof(stg_prover_state),
      .held = held,
      .padded_bytes = stg_prove_dense_bytes(STG_PROVE_DENSE_BATCH, children),
      .peak_bytes = (uint64_t)usage.ru_maxrss * 1024,
  };
}

/* Queries that there is room for at once. */
static uint64_t slots_of(const struct stg_prove_done *done, const struct memory *memory) {
  return is_cuda(done) ? memory->held.slots : threads_of(done);
}

static double share(uint64_t part, uint64_t of) {
  return of > 0 ? (double)part / (double)of : 0;
}

static double per_candidate_us(const struct stg_prove_done *done) {
  return done->times.median_us / (double)candidates_of(done);
}

/* The first candidate that the reference does not find right, "" where there is none. */
static void print_first(const struct stg_prove_done *done, struct stg_strbuf *out) {
  if (done->check.violations > 0) {
    stg_prove_print_atom(&done->job->workload.kb, done->objects->queries[done->check.first], out);
  }
}

/* ---- JSON ---- */

static void add_knowledge(struct stg_json_out *json, const struct stg_kb *kb) {
  stg_json_out_open(json, "knowledge", '{');
  stg_json_out_count(json, "facts", kb->facts.n);
  stg_json_out_count(json, "rules", kb->n_rules);
  stg_json_out_count(json, "predicates", kb->predicates.n);
  stg_json_out_count(json, "constants", kb->constants.n);
  stg_json_out_close(json, '}');
}

static void add_plan(struct stg_json_out *json, const struct stg_prove_done *done) {
  const stg_plan_info *plan = &done->plan;
  stg_json_out_text(json, "signature", plan->signature);
  stg_json_out_text(json, "kernel_key", plan->kernel_key);
  stg_json_out_text(json, "graph_key", plan->graph_key);
  stg_json_out_text(json, "source", plan->source);
  stg_json_out_number(json, "compile_ms", plan->compile_ms);
}

static void add_sides(struct stg_json_out *json, const struct stg_prove_sides *sides) {
  stg_json_out_open(json, "sides", '[');
  for (size_t i = 0; i < sides->n; i++) {
    const struct stg_prove_side *side = &sides->of[i];
    stg_json_out_open(json, NULL, '{');
    stg_json_out_text(json, "side", side->name);
    stg_json_out_count(json, "queries", side->queries);
    stg_json_out_count(json, "corruptions", side->corruptions);
    stg_json_out_number(json, "mrr", stg_oracle_mrr(&side->ranking));
    for (size_t k = 0; k < STG_ORACLE_HITS; k++) {
      char key[16];
      snprintf(key, sizeof key, "hits_at_%d", stg_oracle_hits_at[k]);
      stg_json_out_number(json, key, stg_oracle_hits(&side->ranking, k));
    }
    stg_json_out_count(json, "tied", side->ranking.tied);
    stg_json_out_number(json, "proved", share(side->proved, side->queries));
    stg_json_out_number(json, "proved_corruptions",
                        share(side->proved_corruptions, side->corruptions));
    stg_json_out_number(json, "mean_depth", share(side->steps, side->queries + side->corruptions));
    stg_json_out_close(json, '}');
  }
  stg_json_out_close(json, ']');
}

static void add_counts(struct stg_json_out *json, const stg_prover_counts *counts) {
  stg_json_out_open(json, "counts", '{');
  stg_json_out_count(json, "slot_steps", counts->slot_steps);
  stg_json_out_count(json, "query_steps", counts->query_steps);
  stg_json_out_count(json, "children", counts->children);
  stg_json_out_count(json, "states", counts->states);
  stg_json_out_count(json, "pairs", counts->pairs);
  stg_json_out_count(json, "proofs", counts->proofs);
  stg_json_out_count(json, "close", counts->close);
  stg_json_out_count(json, "cut", counts->cut);
  stg_json_out_count(json, "rejected", counts->rejected);
  stg_json_out_count(json, "seen", counts->seen);
  stg_json_out_close(json, '}');
  stg_json_out_number(json, "useful", share(counts->query_steps, counts->slot_steps));
}

static void add_time(struct stg_json_out *json, const struct stg_prove_done *done) {
  if (!done->timed) {
    stg_json_out_null(json, "time_us");
    stg_json_out_null(json, "repeats");
    stg_json_out_null(json, "per_candidate_us");
    return;
  }
  stg_json_out_open(json, "time_us", '{');
  stg_json_out_number(json, "median", done->times.median_us);
  stg_json_out_number(json, "min", done->times.min_us);
  stg_json_out_number(json, "max", done->times.max_us);
  stg_json_out_close(json, '}');
  stg_json_out_count(json, "repeats", done->repeats);
  stg_json_out_number(json, "per_candidate_us", per_candidate_us(done));
}

static void add_memory(struct stg_json_out *json, const struct stg_prove_done *done) {
  const struct memory memory = memory_of(done);
  stg_json_out_open(json, "memory", '{');
  stg_json_out_count(json, "states_bytes", memory.states_bytes);
  stg_json_out_count(json, "padded_bytes", memory.padded_bytes);
  stg_json_out_count(json, "peak_bytes", memory.peak_bytes);
  stg_json_out_count(json, "base_bytes", memory.held.base_bytes);
  stg_json_out_count(json, "policy_bytes", memory.held.policy_bytes);
  stg_json_out_count(json, "pool_bytes", memory.held.pool_bytes);
  stg_json_out_count(json, "slots", slots_of(done, &memory));
  stg_json_out_close(json, '}');
}

void stg_prove_check_json(const struct stg_prove_check *check, const char *query,
                          struct stg_json_out *json) {
  stg_json_out_count(json, "checked", check->checked);
  stg_json_out_count(json, "violations", check->violations);
  stg_json_out_count(json, "overflows", check->overflows);
  if (check->violations > 0) {
    stg_json_out_open(json, "first", '{');
    stg_json_out_count(json, "candidate", check->first);
    stg_json_out_text(json, "query", query);
    stg_json_out_text(json, "fault", stg_prove_fault_name(check->fault));
    stg_json_out_count_if(json, "step", check->step, check->fault == STG_PROVE_FAULT_PICK);
    stg_json_out_close(json, '}');
  } else {
    stg_json_out_null(json, "first");
  }
  stg_json_out_number(json, "max_logp_err", check->max_logp_err);
  stg_json_out_count(json, "checked_close", check->close);
  stg_json_out_bool(json, "ok", check->ok);
}

void stg_prove_report_json(const struct stg_prove_done *done, struct stg_strbuf *out) {
  const char *note;
  stg_engine_info info = {.struct_size = sizeof info};
  struct stg_json_out json = {0};
  struct stg_strbuf first = {0};
  stg_engine_get_info(done->job->engine, &info);
  print_first(done, &first);
  stg_json_out_open(&json, NULL, '{');
  stg_json_out_text(&json, "spec", done->options->spec);
  stg_json_out_text(&json, "family", "prover");
  stg_json_out_text(&json, "backend", info.backend == STG_BACKEND_CUDA ? "cuda" : "cpu");
  stg_json_out_text(&json, "reason", info.reason);
  stg_json_out_text(&json, "device", info.device);
  add_plan(&json, done);
  stg_json_out_count_if(&json, "threads", done->options->threads, !is_cuda(done));
  add_knowledge(&json, &done->job->workload.kb);
  stg_json_out_count(&json, "queries", done->job->workload.n_queries);
  stg_json_out_count(&json, "candidates", candidates_of(done));
  add_sides(&json, &done->sides);
  add_counts(&json, &done->counts);
  add_time(&json, done);
  add_memory(&json, done);
  stg_prove_check_json(&done->check, stg_strbuf_text(&first), &json);
  stg_json_out_text(&json, "output", done->check.ok ? done->options->output : NULL);
  stg_json_out_open(&json, "notes", '[');
  for (size_t i = 0; (note = stg_prove_job_note(done->job, !is_cuda(done), i)) != NULL; i++) {
    stg_json_out_text(&json, NULL, note);
  }
  stg_json_out_close(&json, ']');
  stg_json_out_close(&json, '}');
  stg_strbuf_finish(&first);
  *out = json.text;
}

/* ---- text ---- */

static void add_row(struct stg_table *table, const char *label, struct stg_strbuf *text) {
  stg_table_cell(table, label);
  stg_table_cell(table, stg_strbuf_text(text));
  stg_strbuf_finish(text);
}

static void add_work_rows(struct stg_table *table, const struct stg_prove_done *done) {
  const stg_prover_counts *counts = &done->counts;
  const uint64_t steps = counts->query_steps;
  stg_table_cell(table, "candidates");
  stg_table_printf(table, "%zu: %zu queries on %zu %s, and corruptions", candidates_of(done),
                   done->job->workload.n_queries, (size_t)done->job->workload.corruptions.n_sides,
                   done->job->workload.corruptions.n_sides == 1 ? "side" : "sides");
  stg_table_cell(table, "steps");
  stg_table_printf(table, "%" PRIu64 " of queries, %.3f of those executed", steps,
                   share(steps, counts->slot_steps));
  stg_table_cell(table, "a step");
  stg_table_printf(table, "%.1f children of %.1f facts and rules", share(counts->children, steps),
                   share(counts->pairs, steps));
  stg_table_cell(table, "policy");
  stg_table_printf(table, "asked for %" PRIu64 " states; %" PRIu64 " close picks", counts->states,
                   counts->close);
  stg_table_cell(table, "left out");
  stg_table_printf(
      table, "%" PRIu64 " children beyond the last, %" PRIu64 " too long, %" PRIu64 " seen before",
      counts->cut, counts->rejected, counts->seen);
  const struct stg_prove_side *all = &done->sides.of[done->sides.n - 1];
  stg_table_cell(table, "ties");
  stg_table_printf(table, "%zu of %zu ranks are with a corruption that is equal", all->ranking.tied,
                   all->ranking.n);
}

static void add_time_rows(struct stg_table *table, const struct stg_prove_done *done) {
  struct stg_strbuf text = {0};
  if (!done->timed) {
    return;
  }
  stg_times_print(&done->times, done->repeats, done->repeats == 1 ? "run" : "runs", &text);
  add_row(table, "time", &text);
  stg_times_print_one(per_candidate_us(done), &text);
  stg_strbuf_str(&text, " a candidate");
  if (!is_cuda(done)) {
    stg_strbuf_printf(&text, ", on %" PRIu64 " %s", threads_of(done),
                      threads_of(done) == 1 ? "thread" : "threads");
  }
  add_row(table, "", &text);
}

static void add_memory_rows(struct stg_table *table, const struct stg_prove_done *done) {
  struct stg_strbuf text = {0};
  const struct memory memory = memory_of(done);
  const uint64_t slots = slots_of(done, &memory);
  const uint64_t at_once = candidates_of(done) < slots ? candidates_of(done) : slots;
  stg_strbuf_bytes(&text, memory.states_bytes / slots);
  stg_strbuf_printf(&text, " of derived states a query, of %" PRIu64 " at once; padded, one has ",
                    at_once);
  stg_strbuf_bytes(&text, memory.padded_bytes / STG_PROVE_DENSE_BATCH);
  add_row(table, "memory", &text);
  if (is_cuda(done)) {
    stg_strbuf_bytes(&text, memory.held.base_bytes);
    stg_strbuf_str(&text, " of the base, ");
    stg_strbuf_bytes(&text, memory.held.policy_bytes);
    stg_strbuf_str(&text, " of the policy, ");
    stg_strbuf_bytes(&text, memory.held.pool_bytes);
    stg_strbuf_str(&text, " of the pool");
    add_row(table, "", &text);
  }
  stg_strbuf_bytes(&text, memory.peak_bytes);
  stg_strbuf_str(&text, " of the process, at most");
  add_row(table, "", &text);
}

static void add_sides_table(const struct stg_prove_sides *sides, struct stg_strbuf *out) {
  static const char *const heads[] = {"side",    "MRR",    "Hits@1", "Hits@3",
                                      "Hits@10", "proved", "others", "depth"};
  struct stg_table table = {.columns = "lrrrrrrr", .indent = "  "};
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    stg_table_cell(&table, heads[i]);
  }
  for (size_t i = 0; i < sides->n; i++) {
    const struct stg_prove_side *side = &sides->of[i];
    stg_table_cell(&table, side->name);
    stg_table_printf(&table, "%.4f", stg_oracle_mrr(&side->ranking));
    for (size_t k = 0; k < STG_ORACLE_HITS; k++) {
      stg_table_printf(&table, "%.3f", stg_oracle_hits(&side->ranking, k));
    }
    stg_table_printf(&table, "%.3f", share(side->proved, side->queries));
    stg_table_printf(&table, "%.3f", share(side->proved_corruptions, side->corruptions));
    stg_table_printf(&table, "%.2f", share(side->steps, side->queries + side->corruptions));
  }
  stg_table_print(&table, out);
}

void stg_prove_check_text(const struct stg_prove_check *check, const char *query,
                          struct stg_strbuf *out) {
  if (check->violations > 0) {
    stg_strbuf_printf(out, "FAILED: first the %s", stg_prove_fault_name(check->fault));
    if (check->fault == STG_PROVE_FAULT_PICK) {
      stg_strbuf_printf(out, " of step %" PRIu32, check->step);
    }
    stg_strbuf_printf(out, " of candidate %zu, ", check->first);
    stg_report_clean(out, query);
    stg_strbuf_str(out, check->fault == STG_PROVE_FAULT_OVERFLOW
                            ? ": the policy leaves the range of float32; scale its weights down\n"
                            : "\n");
  } else {
    stg_strbuf_str(out, check->checked > 0 ? "ok\n" : "not checked\n");
  }
}

static void add_head_rows(struct stg_table *table, const struct stg_prove_done *done) {
  stg_engine_info info = {.struct_size = sizeof info};
  struct stg_strbuf text = {0};
  stg_engine_get_info(done->job->engine, &info);
  stg_table_cell(table, "backend");
  stg_table_cell(table, info.reason);
  stg_table_cell(table, "device");
  stg_table_cell(table, info.device);
  stg_table_cell(table, "signature");
  stg_table_cell(table, done->plan.signature);
  stg_table_cell(table, "kernel");
  if (is_cuda(done)) {
    stg_table_printf(table, "%s, from %s", done->plan.kernel_key, done->plan.source);
    if (done->plan.compile_ms > 0) {
      stg_table_cell(table, "");
      stg_table_printf(table, "compiled in %.0f ms", done->plan.compile_ms);
    }
  } else {
    stg_table_cell(table, "none: the CPU does this work itself");
  }
  stg_prove_job_print_policy(done->job, &text);
  add_row(table, "weights", &text);
  stg_prove_job_print_limits(done->job, &text);
  add_row(table, "limits", &text);
}

void stg_prove_report_text(const struct stg_prove_done *done, struct stg_strbuf *out) {
  const struct stg_prove_check *check = &done->check;
  struct stg_table table = {.columns = "ll", .indent = "  "};
  struct stg_strbuf first = {0};
  const char *note;
  print_first(done, &first);
  add_head_rows(&table, done);
  add_work_rows(&table, done);
  add_time_rows(&table, done);
  add_memory_rows(&table, done);
  stg_table_cell(&table, "check");
  stg_table_printf(&table, "%zu candidates, %zu violations, logp within %.2g", check->checked,
                   check->violations, check->max_logp_err);
  if (check->overflows > 0) {
    stg_table_cell(&table, "");
    stg_table_printf(&table, "%zu of them with values beyond float32 on the way", check->overflows);
  }
  if (check->ok && done->options->output != NULL) {
    stg_table_cell(&table, "output");
    stg_table_cell(&table, done->options->output);
  }
  for (size_t i = 0; (note = stg_prove_job_note(done->job, !is_cuda(done), i)) != NULL; i++) {
    stg_table_cell(&table, "note");
    stg_table_cell(&table, note);
  }
  stg_report_clean(out, done->options->spec);
  stg_strbuf_str(out, ": ");
  stg_prove_job_print(done->job, out);
  stg_strbuf_char(out, '\n');
  stg_table_print(&table, out);
  stg_strbuf_char(out, '\n');
  add_sides_table(&done->sides, out);
  stg_strbuf_char(out, '\n');
  stg_prove_check_text(check, stg_strbuf_text(&first), out);
  stg_strbuf_finish(&first);
}

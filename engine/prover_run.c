/*
 * prover_run.c: a pool of queries from the host's arrays and back, and what a run leaves behind.
 */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "engine/prover.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/nvtx.h"

#define MAX_THREADS 1024

static bool is_query(const struct stg_prove_base *base, stg_atom atom) {
  return atom.pred >= 1 && atom.pred <= base->predicates && atom.arg0 >= 1 &&
         atom.arg0 <= base->constants && atom.arg1 >= 1 && atom.arg1 <= base->constants;
}

static stg_status check_run(const stg_prover *prover, const stg_prover_run_desc *desc,
                            const stg_proof *proofs, stg_error *reterr) {
  if (prover == NULL || desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_run: prover or desc is NULL, or struct_size is not %zu",
                         sizeof *desc);
  }
  stg_status status = stg_engine_check_process(prover->object.engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  if ((desc->queries == NULL || proofs == NULL) && desc->n > 0) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_prover_run: %s is NULL for %zu queries",
                         desc->queries == NULL ? "queries" : "ret_proofs", desc->n);
  }
  if (!stg_prover_has_weights(prover)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_run: there are no weights; call stg_prover_set_weights");
  }
  if (desc->threads > MAX_THREADS) {
    return stg_error_set(reterr, STG_E_INVALID, "threads: %u are more than %d", desc->threads,
                         MAX_THREADS);
  }
  if (desc->trace && desc->traced >= desc->n) {
    return stg_error_set(reterr, STG_E_INVALID, "traced: %zu is none of %zu queries", desc->traced,
                         desc->n);
  }
  const struct stg_prove_base *base = &prover->tables.base;
  for (size_t i = 0; i < desc->n; i++) {
    const stg_atom atom = desc->queries[i];
    if (!is_query(base, atom)) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "queries[%zu]: atom %d(%d,%d) is none of %d predicates and %d constants",
                           i, atom.pred, atom.arg0, atom.arg1, base->predicates, base->constants);
    }
  }
  return STG_OK;
}

static size_t threads_of(const stg_prover_run_desc *desc) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (desc->threads != 0) {
    return desc->threads;
  }
  return processors < 1 ? 1 : processors > MAX_THREADS ? MAX_THREADS : (size_t)processors;
}

static stg_prover_state state_of(const struct stg_prove_state *from) {
  stg_prover_state state = {.n = from->n};
  for (uint32_t i = 0; i < from->n; i++) {
    state.atoms[i] = (stg_atom){from->atoms[i].pred, from->atoms[i].arg0, from->atoms[i].arg1};
  }
  return state;
}

void stg_prover_trace_finish(struct stg_prover_trace *trace) {
  stg_free(trace->steps);
  stg_free(trace->children);
  stg_free(trace->logits);
  *trace = (struct stg_prover_trace){0};
}

/* Room for all children that `depth` steps can have. */
static stg_status trace_init(size_t depth, struct stg_prover_trace *ret_trace, stg_error *reterr) {
  const size_t most = depth * STG_PROVE_MAX_CHILDREN;
  struct stg_prover_trace trace = {.steps = stg_calloc(depth, sizeof *trace.steps),
                                   .children = stg_calloc(most, sizeof *trace.children),
                                   .logits = stg_calloc(most, sizeof *trace.logits)};
  if (trace.steps == NULL || trace.children == NULL || trace.logits == NULL) {
    stg_prover_trace_finish(&trace);
    return stg_error_memory(reterr, "the steps of a query", most * sizeof *trace.children);
  }
  *ret_trace = trace;
  return STG_OK;
}

static void trace_fill(const struct stg_prove_step *steps, size_t n,
                       struct stg_prover_trace *trace) {
  stg_prover_state *children = trace->children;
  float *logits = trace->logits;
  for (size_t k = 0; k < n; k++) {
    const struct stg_prove_step *from = &steps[k];
    trace->steps[k] = (stg_prover_step){.state = state_of(&from->state),
                                        .n_children = from->n_children,
                                        .action = from->action,
                                        .children = children,
                                        .logits = logits};
    for (uint32_t i = 0; i < from->n_children; i++) {
      *children++ = state_of(&from->children[i]);
      *logits++ = from->logits[i];
    }
  }
  trace->n = n;
}

static void copy_proofs(const struct stg_prove_result *results, size_t n, stg_proof *ret_proofs) {
  for (size_t i = 0; i < n; i++) {
    ret_proofs[i] = (stg_proof){.logp = results[i].logp,
                                .depth = results[i].depth,
                                .outcome = (stg_outcome)results[i].outcome,
                                .close = results[i].close};
    memcpy(ret_proofs[i].actions, results[i].actions, sizeof ret_proofs[i].actions);
  }
}

static stg_status room_init(const stg_prover *prover, const stg_prover_run_desc *desc,
                            struct stg_prover_pool_room *room, stg_error *reterr) {
  const size_t n = desc->n > 0 ? desc->n : 1;
  room->queries = stg_calloc(n, sizeof *room->queries);
  room->results = stg_calloc(n, sizeof *room->results);
  room->steps = desc->trace ? stg_calloc(prover->limits.depth, sizeof *room->steps) : NULL;
  if (room->queries == NULL || room->results == NULL || (desc->trace && room->steps == NULL)) {
    return stg_error_memory(reterr, "a pool of queries", desc->n * sizeof *room->results);
  }
  for (size_t i = 0; i < desc->n; i++) {
    room->queries[i] = stg_prover_atom(desc->queries[i]);
  }
  return STG_OK;
}

static stg_status run_cpu(const stg_prover *prover, const stg_prover_run_desc *desc,
                          const struct stg_prover_pool_room *room,
                          struct stg_prove_counts *ret_counts, stg_error *reterr) {
  const struct stg_cpu_pool pool = {.base = &prover->tables.base,
                                    .policy = prover->policy,
                                    .limits = prover->limits,
                                    .queries = room->queries,
                                    .n = desc->n,
                                    .threads = threads_of(desc),
                                    .sample = desc->sample,
                                    .seed = desc->seed,
                                    .traced = desc->traced,
                                    .steps = room->steps,
                                    .progress = desc->progress,
                                    .user = desc->user};
  stg_status status = stg_cpu_prove(&pool, room->results, ret_counts, reterr);
  if (status == STG_OK && desc->n > 0) {
    stg_plan_count_step(prover->object.engine->plans, prover->plan);
  }
  return status;
}

stg_status stg_prover_run(stg_prover *prover, const stg_prover_run_desc *desc,
                          stg_proof *ret_proofs, stg_error *reterr) {
  struct stg_prover_pool_room room = {NULL, NULL, NULL};
  struct stg_prover_trace trace = {0};
  struct stg_prove_counts counts = {0};
  stg_status status = check_run(prover, desc, ret_proofs, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = room_init(prover, desc, &room, reterr);
  if (status == STG_OK && desc->trace) {
    status = trace_init(prover->limits.depth, &trace, reterr);
  }
  if (status == STG_OK) {
    stg_nvtx_push("prove");
    status = stg_prover_is_cuda(prover) ? stg_prover_run_cuda(prover, desc, &room, &counts, reterr)
                                        : run_cpu(prover, desc, &room, &counts, reterr);
    stg_nvtx_pop();
  }
  if (status == STG_OK) {
    copy_proofs(room.results, desc->n, ret_proofs);
    if (trace.steps != NULL) {
      trace_fill(room.steps, room.results[desc->traced].depth, &trace);
    }
    stg_prover_trace_finish(&prover->trace);
    prover->trace = trace;
    prover->counts = counts;
    stg_usage_prove(&prover->object.engine->usage, desc->n, counts.query_steps, counts.states);
  } else {
    stg_prover_trace_finish(&trace);
  }
  stg_free(room.queries);
  stg_free(room.results);
  stg_free(room.steps);
  return status;
}

void stg_prover_get_trace(const stg_prover *prover, const stg_prover_step **ret_steps,
                          size_t *ret_n) {
  *ret_steps = prover != NULL ? prover->trace.steps : NULL;
  *ret_n = prover != NULL ? prover->trace.n : 0;
}

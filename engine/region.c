/*
 * region.c: run and forget regions: whether a call's work is launched as it was recorded, recorded
 * first, or enqueued by its host.
 */
#include "engine/region.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "runtime/nvtx.h"

/* One run. */
struct run {
  struct stg_engine *engine;
  const stg_region_call *call;
  stg_stream stream;
  struct stg_plan *plan;
  stg_region_facts facts;
};

static stg_status check_pointers(const stg_region_call *call, stg_error *reterr) {
  if (call->n_pointers > STG_REGION_MAX_POINTERS ||
      (call->pointers == NULL && call->n_pointers > 0)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_region_run: n_pointers is %zu and pointers %s; there are at most %d",
                         call->n_pointers, call->pointers == NULL ? "NULL" : "given",
                         STG_REGION_MAX_POINTERS);
  }
  for (size_t i = 0; i < call->n_pointers; i++) {
    const stg_region_pointer *pointer = &call->pointers[i];
    if ((unsigned)pointer->moves > STG_REGION_RECORD) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_region_run: pointers[%zu].moves %d is unknown", i,
                           (int)pointer->moves);
    }
    const bool copied = pointer->moves != STG_REGION_FIXED && pointer->moves != STG_REGION_RECORD;
    if (copied && (pointer->address == NULL || pointer->bytes == 0)) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_region_run: pointers[%zu] is %p of %zu bytes, and to be copied", i,
                           pointer->address, pointer->bytes);
    }
  }
  return STG_OK;
}

static struct stg_region_name name_of(const stg_region_call *call) {
  return (struct stg_region_name){call->signature, {call->batch, call->seq, call->rows}};
}

static stg_status check_call(const stg_engine *engine, const stg_region_call *call,
                             const stg_region_facts *facts, stg_error *reterr) {
  if (engine == NULL || call == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_region_run: engine or call is NULL");
  }
  if (call->struct_size != sizeof *call || (facts != NULL && facts->struct_size != sizeof *facts)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_region_run: struct_size is %zu, and of ret_facts %zu; this library's "
                         "are %zu and %zu",
                         call->struct_size, facts != NULL ? facts->struct_size : sizeof *facts,
                         sizeof *call, sizeof *facts);
  }
  if (call->record == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_region_run: record is NULL");
  }
  const struct stg_region_name name = name_of(call);
  stg_status status = stg_region_name_check("stg_region_run", &name, reterr);
  return status == STG_OK ? check_pointers(call, reterr) : status;
}

/* The work as it is enqueued each time; no graph is wanted. */
static stg_status enqueue(struct run *run, const char *why, stg_error *reterr) {
  snprintf(run->facts.why, sizeof run->facts.why, "%s", why);
  return stg_region_enqueue(run->engine, run->call, run->stream, reterr);
}

/* Whether recording failed before; the facts then say why. */
static bool has_failed(struct run *run) {
  struct stg_region_body *body = run->plan->region;
  pthread_mutex_lock(&body->lock);
  const bool failed = body->failed;
  if (failed) {
    run->facts.status = body->status;
    memcpy(run->facts.why, body->why, sizeof body->why);
  }
  pthread_mutex_unlock(&body->lock);
  return failed;
}

/* Say once why there is no graph, and let later runs not try; but a lack of memory passes. */
static void note_failure(const struct run *run, stg_status status) {
  struct stg_region_body *body = run->plan->region;
  pthread_mutex_lock(&body->lock);
  const bool say = !body->said;
  body->said = true;
  if (!body->failed && status != STG_E_NO_MEMORY) {
    body->failed = true;
    body->status = status;
    memcpy(body->why, run->facts.why, sizeof body->why);
  }
  pthread_mutex_unlock(&body->lock);
  if (say) {
    stg_log_printf(&run->engine->log, STG_LOG_WARN,
                   "region '%s' is not recorded (%s); its work is enqueued each time",
                   run->call->signature, run->facts.why);
  }
}

static bool is_end(stg_status status) {
  return status == STG_E_DEVICE_LOST || status == STG_E_FORKED;
}

/* What came of a try for a graph. */
enum outcome { LAUNCHED, REFUSED, NOT_RECORDED };

/* Under the exec's lock. */
static stg_status launch(struct run *run, struct stg_exec *exec, enum outcome *ret_outcome,
                         stg_error *reterr) {
  struct stg_engine *engine = run->engine;
  bool again = false;
  const bool first = exec->graph == NULL;
  stg_status status = STG_OK;
  *ret_outcome = REFUSED;
  if (first && exec->take != NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "region '%s' was adopted on this stream; stg_region_replay launches it",
                         run->call->signature);
  }
  if (!first) {
    status = stg_region_take_check(exec, run->call, &again, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  if (first || again) {
    status = first ? stg_region_take_make(engine, exec, run->call, reterr)
                   : stg_region_take_again(engine, exec, run->call, reterr);
    if (status != STG_OK) {
      *ret_outcome = is_end(status) ? REFUSED : NOT_RECORDED;
      return status;
    }
  }
  status = stg_region_take_launch(engine, exec, run->call, reterr);
  if (status == STG_OK) {
    *ret_outcome = LAUNCHED;
    run->facts.recorded = first || again;
    run->facts.replayed = !run->facts.recorded;
    atomic_fetch_add_explicit(&engine->regions.replays, run->facts.replayed ? 1 : 0,
                              memory_order_relaxed);
  }
  return status;
}

static stg_status refuse_own(const struct run *run, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_BUSY,
                       "region '%s' is being run on this stream by its own callback; let that "
                       "enqueue the work itself",
                       run->call->signature);
}

/* By way of the stream's exec, unless recording has failed. */
static stg_status try_graph(struct run *run, enum outcome *ret_outcome, stg_error *reterr) {
  struct stg_plan_table *plans = run->engine->plans;
  struct stg_exec *exec = NULL;
  *ret_outcome = NOT_RECORDED;
  stg_status status = stg_exec_acquire_empty(plans, run->plan, run->stream, &exec, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stg_exec_enter(exec)) {
    status = launch(run, exec, ret_outcome, reterr);
    if (*ret_outcome == NOT_RECORDED && exec->came_back) { /* so it would where it is enqueued */
      *ret_outcome = REFUSED;
      status = refuse_own(run, reterr);
    }
    stg_exec_leave(exec);
  } else {
    *ret_outcome = REFUSED;
    status = refuse_own(run, reterr);
  }
  stg_exec_release(plans, exec);
  return status;
}

static stg_status run_graph(struct run *run, stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  enum outcome outcome = NOT_RECORDED;
  if (has_failed(run)) {
    run->facts.eager = true;
    return stg_region_enqueue(run->engine, run->call, run->stream, reterr);
  }
  stg_status status = try_graph(run, &outcome, &error);
  if (outcome != NOT_RECORDED) {
    return status == STG_OK ? status : stg_error_set(reterr, status, "%s", error.message);
  }
  atomic_fetch_add(&run->engine->regions.failures, 1);
  snprintf(run->facts.why, sizeof run->facts.why, "%.*s", (int)sizeof run->facts.why - 1,
           error.message);
  run->facts.eager = true;
  run->facts.status = status;
  const stg_status done = stg_region_enqueue(run->engine, run->call, run->stream, reterr);
  if (done == STG_OK) { /* else it is not recording that is at fault */
    note_failure(run, status);
  }
  return done;
}

static stg_status run_any(struct run *run, stg_error *reterr) {
  const struct stg_engine *engine = run->engine;
  bool capturing = false;
  if (!stg_engine_is_cuda(engine)) {
    return enqueue(run, "on the CPU nothing is recorded", reterr);
  }
  stg_status status = stg_stream_is_capturing(engine->device, run->stream, &capturing, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (capturing) {
    return enqueue(run, "the stream captures, and has the work itself", reterr);
  }
  if (engine->launch == STG_LAUNCH_PLAIN) {
    return enqueue(run, "launch is plain", reterr);
  }
  return run_graph(run, reterr);
}

stg_status stg_region_run(stg_engine *engine, const stg_region_call *call, stg_stream stream,
                          stg_region_facts *ret_facts, stg_error *reterr) {
  stg_status status = check_call(engine, call, ret_facts, reterr);
  if (status == STG_OK) {
    status = stg_engine_check_process(engine, reterr);
  }
  struct run run = {
      .engine = engine, .call = call, .stream = stream, .facts = {.struct_size = sizeof run.facts}};
  if (status == STG_OK) {
    const struct stg_region_name name = name_of(call);
    status = stg_region_plan_acquire(engine->plans, &name, &run.plan, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_nvtx_push("region");
  status = run_any(&run, reterr);
  stg_nvtx_pop();
  if (status == STG_OK) {
    stg_plan_count_step(engine->plans, run.plan);
  }
  stg_plan_release(engine->plans, run.plan);
  if (status == STG_OK && ret_facts != NULL) {
    *ret_facts = run.facts;
  }
  return status;
}

stg_status stg_region_forget(stg_engine *engine, const char *signature, stg_error *reterr) {
  if (engine == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_region_forget: engine is NULL");
  }
  const struct stg_region_name name = {.text = signature};
  stg_status status = stg_region_name_check("stg_region_forget", &name, reterr);
  if (status == STG_OK) {
    status = stg_engine_check_process(engine, reterr);
  }
  if (status == STG_OK) {
    status = stg_region_plans_forget(engine->plans, signature, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    stg_region_takes_collect(engine, false);
  }
  return status;
}

/*
 * region_adopt.c: a host's work that the host captured itself, and launches: kept, bounded and
 * counted as what is recorded here, and told by its token when it has gone.
 */
#include "engine/region_take.h"

#include "engine/engine.h"
#include "engine/plan_table.h"
#include "runtime/base/alloc.h"
#include "runtime/nvtx.h"
#include "runtime/record.h"

static stg_status check_owner(const stg_engine *engine, const stg_region_owner *owner,
                              stg_error *reterr) {
  if (engine == NULL || owner == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_region_adopt: engine or owner is NULL");
  }
  if (owner->struct_size != sizeof *owner) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_region_adopt: struct_size is %zu; this library's is %zu",
                         owner->struct_size, sizeof *owner);
  }
  if (owner->launch == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_region_adopt: launch is NULL");
  }
  const struct stg_region_name name = {owner->signature, {owner->batch, owner->seq, owner->rows}};
  return stg_region_name_check("stg_region_adopt", &name, reterr);
}

/* Nothing is kept where nothing may be replayed. */
static stg_status check_engine(const stg_engine *engine, stg_error *reterr) {
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  const bool cpu = !stg_engine_is_cuda(engine);
  return !cpu && engine->launch != STG_LAUNCH_PLAIN
             ? STG_OK
             : stg_error_set(reterr, STG_E_UNSUPPORTED,
                             "stg_region_adopt: %s; let the work be done as it is each time",
                             cpu ? "the engine is on the CPU" : "launch is plain");
}

static stg_status new_take(struct stg_engine *engine, const stg_region_owner *owner,
                           struct stg_region_take **ret_take, stg_error *reterr) {
  const size_t bytes = stg_region_take_bytes(0);
  struct stg_region_take *take = stg_calloc(1, bytes);
  if (take == NULL) {
    return stg_error_memory(reterr, "a region", bytes);
  }
  stg_status status = stg_event_create(engine->device, false, &take->event, reterr);
  if (status != STG_OK) {
    stg_free(take);
    return status;
  }
  take->launch = owner->launch;
  take->user = owner->user;
  take->token = owner->token;
  take->memory_bytes = owner->bytes;
  *ret_take = take;
  return STG_OK;
}

static void free_new(struct stg_engine *engine, struct stg_region_take *take) {
  if (take != NULL) {
    stg_event_destroy(engine->device, take->event);
    stg_free(take);
  }
}

/* Take the place of what the exec has. STG_E_BUSY where a launch of it has not returned: it may be
 * this thread's own. */
static stg_status put(struct stg_engine *engine, struct stg_exec *exec,
                      struct stg_region_take *take, const char *text, stg_error *reterr) {
  if (pthread_mutex_trylock(&exec->lock) != 0) {
    return stg_error_set(reterr, STG_E_BUSY,
                         "region '%s' is being run; adopt it when that has returned", text);
  }
  if (exec->take != NULL) {
    stg_region_take_drop(engine, exec);
  }
  exec->take = take;
  stg_exec_count_bytes(engine->plans, exec, stg_region_take_bytes(0), 0);
  atomic_fetch_add(&engine->regions.bytes, take->memory_bytes);
  atomic_fetch_add(&engine->regions.recorded, 1);
  atomic_fetch_add(&engine->counters.graphs_created, 1);
  pthread_mutex_unlock(&exec->lock);
  return STG_OK;
}

stg_status stg_region_adopt(stg_engine *engine, const stg_region_owner *owner, stg_stream stream,
                            stg_error *reterr) {
  struct stg_region_take *take = NULL;
  struct stg_plan *plan = NULL;
  struct stg_exec *exec = NULL;
  stg_status status = check_owner(engine, owner, reterr);
  if (status == STG_OK) {
    status = check_engine(engine, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const struct stg_region_name name = {owner->signature, {owner->batch, owner->seq, owner->rows}};
  stg_region_takes_collect(engine, false);
  status = new_take(engine, owner, &take, reterr);
  if (status == STG_OK) {
    status = stg_region_plan_acquire(engine->plans, &name, &plan, reterr);
  }
  if (status == STG_OK) {
    status = stg_exec_acquire_empty(engine->plans, plan, stream, &exec, reterr);
  }
  if (status == STG_OK) {
    status = put(engine, exec, take, owner->signature, reterr);
  }
  if (status != STG_OK) {
    free_new(engine, take);
  }
  stg_exec_release(engine->plans, exec);
  stg_plan_release(engine->plans, plan);
  return status;
}

static stg_status launch_take(void *user, stg_stream_handle stream, stg_error *reterr) {
  const struct stg_region_take *take = user;
  return take->launch(take->user, stream, reterr);
}

static stg_status refuse_absent(const struct stg_region_name *name, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_NOT_FOUND,
                       "region '%s' of batch %lld, seq %lld and rows %lld has nothing adopted on "
                       "this stream, or no longer; capture it and adopt that",
                       name->text, (long long)name->shape.batch, (long long)name->shape.seq,
                       (long long)name->shape.rows);
}

/* Under the exec's lock. */
static stg_status launch(struct stg_engine *engine, struct stg_exec *exec,
                         const struct stg_region_name *name, stg_error *reterr) {
  struct stg_region_take *take = exec->take;
  if (take == NULL) {
    return refuse_absent(name, reterr);
  }
  if (take->launch == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "region '%s' was recorded by stg_region_run, which launches it",
                         name->text);
  }
  /* said ahead: what fails on the way may have put something on the stream */
  take->launched = true;
  const struct stg_work work = {.enqueue = launch_take, .user = take};
  stg_status status = stg_work_enqueue(engine->device, &work, exec->stream, reterr);
  const stg_status recorded =
      stg_event_record(engine->device, take->event, exec->stream, status == STG_OK ? reterr : NULL);
  status = status == STG_OK ? recorded : status;
  if (status == STG_OK) {
    atomic_fetch_add_explicit(&engine->counters.graph_launches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&engine->regions.replays, 1, memory_order_relaxed);
  }
  return status;
}

static stg_status check_not_capturing(const stg_engine *engine, stg_stream stream,
                                      const struct stg_region_name *name, stg_error *reterr) {
  bool capturing = false;
  stg_status status = stg_stream_is_capturing(engine->device, stream, &capturing, reterr);
  if (status != STG_OK || !capturing) {
    return status;
  }
  return stg_error_set(reterr, STG_E_CAPTURING,
                       "stg_region_replay: the stream captures; let it have the work of region "
                       "'%s' itself",
                       name->text);
}

static stg_status replay_plan(struct stg_engine *engine, struct stg_plan *plan, stg_stream stream,
                              const struct stg_region_name *name, stg_error *reterr) {
  struct stg_exec *exec = stg_exec_find(engine->plans, plan, stream);
  if (exec == NULL) {
    return refuse_absent(name, reterr);
  }
  stg_status status = STG_OK;
  if (stg_exec_enter(exec)) {
    status = launch(engine, exec, name, reterr);
    stg_exec_leave(exec);
  } else {
    status = stg_error_set(reterr, STG_E_BUSY,
                           "region '%s' is being launched on this stream by its own callback; let "
                           "that launch what was captured",
                           name->text);
  }
  stg_exec_release(engine->plans, exec);
  if (status == STG_OK) {
    stg_plan_count_step(engine->plans, plan);
  }
  return status;
}

stg_status stg_region_replay(stg_engine *engine, const char *signature, int64_t batch, int64_t seq,
                             int64_t rows, stg_stream stream, stg_error *reterr) {
  const struct stg_region_name name = {signature, {batch, seq, rows}};
  if (engine == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_region_replay: engine is NULL");
  }
  stg_status status = stg_region_name_check("stg_region_replay", &name, reterr);
  if (status == STG_OK) {
    status = stg_engine_check_process(engine, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = check_not_capturing(engine, stream, &name, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_plan *plan = stg_region_plan_find(engine->plans, &name);
  if (plan == NULL) {
    return refuse_absent(&name, reterr);
  }
  stg_nvtx_push("region");
  status = replay_plan(engine, plan, stream, &name, reterr);
  stg_nvtx_pop();
  stg_plan_release(engine->plans, plan);
  return status;
}

stg_status stg_region_dropped(stg_engine *engine, uint64_t *ret_tokens, size_t capacity,
                              size_t *ret_count, stg_error *reterr) {
  if (engine == NULL || ret_tokens == NULL || capacity == 0 || ret_count == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_region_dropped: engine, ret_tokens or ret_count is NULL, or capacity "
                         "%zu",
                         capacity);
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stg_engine_is_cuda(engine)) {
    stg_region_takes_collect(engine, false);
  }
  *ret_count = stg_region_tokens_take(&engine->regions, ret_tokens, capacity);
  return STG_OK;
}

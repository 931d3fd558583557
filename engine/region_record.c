/*
 * region_record.c: takes: what was recorded of a host's work for one stream: its pointers as they
 * were, and the buffers that stand in for those that move.
 *
 * A take has its own buffers, since launches on other streams may be in flight beside it.
 */
#include "engine/region_take.h"

#include <string.h>

#include "engine/engine.h"
#include "engine/plan_table.h"
#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"
#include "runtime/record.h"

#define BUFFER_ALIGNMENT 256
#define OTHER_WORK "; give other work another signature, or forget this one"

static void **given_of(struct stg_region_take *take) {
  return (void **)(void *)(take->pointers + take->n_pointers);
}

static bool is_copied(const stg_region_pointer *pointer) {
  return pointer->moves == STG_REGION_IN || pointer->moves == STG_REGION_OUT ||
         pointer->moves == STG_REGION_INOUT;
}

/* What buffers the pointers need, one behind the other. */
static stg_status count_bytes(const stg_region_call *call, size_t *ret_bytes, stg_error *reterr) {
  size_t bytes = 0;
  bool fits = true;
  for (size_t i = 0; i < call->n_pointers; i++) {
    if (is_copied(&call->pointers[i])) {
      fits = fits && call->pointers[i].bytes <= SIZE_MAX - BUFFER_ALIGNMENT &&
             stg_add_size(bytes, stg_round_up(call->pointers[i].bytes, BUFFER_ALIGNMENT), &bytes);
    }
  }
  *ret_bytes = bytes;
  return fits ? STG_OK
              : stg_error_set(reterr, STG_E_NO_MEMORY,
                              "region '%s': its pointers to be copied are of too many bytes",
                              call->signature);
}

static stg_status make_buffers(struct stg_engine *engine, struct stg_region_take *take,
                               stg_error *reterr) {
  struct stg_event *event = NULL;
  uint64_t memory = 0;
  stg_status status = stg_event_create(engine->device, false, &event, reterr);
  if (status == STG_OK) {
    status = stg_device_alloc(engine->device, take->memory_bytes, &memory, reterr);
  }
  if (status != STG_OK) {
    stg_event_destroy(engine->device, event);
    return status;
  }
  take->event = event;
  take->memory = memory;
  atomic_fetch_add(&engine->regions.bytes, take->memory_bytes);
  return STG_OK;
}

/* Note a call's pointers, and what the work is given for them. */
static void note_pointers(struct stg_region_take *take, const stg_region_call *call) {
  void **given = given_of(take);
  uint64_t at = take->memory;
  for (size_t i = 0; i < call->n_pointers; i++) {
    const stg_region_pointer *pointer = &call->pointers[i];
    take->pointers[i] = *pointer;
    given[i] = pointer->address;
    if (is_copied(pointer)) {
      given[i] = (void *)(uintptr_t)at;
      at += stg_round_up(pointer->bytes, BUFFER_ALIGNMENT);
    }
  }
}

static stg_status new_take(struct stg_engine *engine, const stg_region_call *call,
                           struct stg_region_take **ret_take, stg_error *reterr) {
  size_t bytes = 0;
  stg_status status = count_bytes(call, &bytes, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_region_take *take = stg_calloc(1, stg_region_take_bytes(call->n_pointers));
  if (take == NULL) {
    return stg_error_memory(reterr, "a region", stg_region_take_bytes(call->n_pointers));
  }
  take->n_pointers = call->n_pointers;
  take->memory_bytes = bytes;
  status = bytes > 0 ? make_buffers(engine, take, reterr) : STG_OK;
  if (status != STG_OK) {
    stg_free(take);
    return status;
  }
  note_pointers(take, call);
  *ret_take = take;
  return STG_OK;
}

/* A callback, and what it is called with. */
struct host_work {
  const stg_region_call *call;
  void *const *pointers;
};

static stg_status enqueue(void *user, stg_stream_handle stream, stg_error *reterr) {
  const struct host_work *work = user;
  return work->call->record(work->call->user, stream, work->pointers, reterr);
}

stg_status stg_region_take_make(struct stg_engine *engine, struct stg_exec *exec,
                                const stg_region_call *call, stg_error *reterr) {
  struct stg_region_take *take = NULL;
  stg_region_takes_collect(engine, false);
  stg_status status = new_take(engine, call, &take, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct host_work host = {.call = call, .pointers = given_of(take)};
  const struct stg_work work = {.enqueue = enqueue, .user = &host};
  status = stg_record(engine->device, &work, exec->stream, &exec->graph, reterr);
  if (status != STG_OK) {
    stg_region_take_retire(engine, take);
    return status;
  }
  exec->take = take;
  stg_exec_count_bytes(engine->plans, exec, stg_region_take_bytes(take->n_pointers), 0);
  atomic_fetch_add(&engine->regions.recorded, 1);
  atomic_fetch_add(&engine->counters.graphs_created, 1);
  return STG_OK;
}

stg_status stg_region_take_again(struct stg_engine *engine, struct stg_exec *exec,
                                 const stg_region_call *call, stg_error *reterr) {
  struct stg_region_take *take = exec->take;
  bool updated = false;
  note_pointers(take, call);
  struct host_work host = {.call = call, .pointers = given_of(take)};
  const struct stg_work work = {.enqueue = enqueue, .user = &host};
  stg_status status =
      stg_record_again(engine->device, &work, exec->stream, exec->graph, &updated, reterr);
  if (status != STG_OK) {
    stg_region_take_drop(engine, exec);
    return status;
  }
  atomic_fetch_add(&engine->regions.recorded, 1);
  atomic_fetch_add(updated ? &engine->counters.graph_updates : &engine->counters.graphs_created, 1);
  return STG_OK;
}

stg_status stg_region_take_check(const struct stg_exec *exec, const stg_region_call *call,
                                 bool *ret_again, stg_error *reterr) {
  const struct stg_region_take *take = exec->take;
  *ret_again = false;
  if (call->n_pointers != take->n_pointers) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "region '%s' has %zu pointers and was recorded with %zu" OTHER_WORK,
                         call->signature, call->n_pointers, take->n_pointers);
  }
  for (size_t i = 0; i < call->n_pointers; i++) {
    const stg_region_pointer *now = &call->pointers[i], *then = &take->pointers[i];
    if (now->moves != then->moves) {
      return stg_error_set(
          reterr, STG_E_INVALID,
          "pointer %zu of region '%s' moves as %d and was recorded as %d" OTHER_WORK, i,
          call->signature, (int)now->moves, (int)then->moves);
    }
    if (is_copied(now) && now->bytes != then->bytes) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "pointer %zu of region '%s' is of %zu bytes and was recorded with "
                           "%zu" OTHER_WORK,
                           i, call->signature, now->bytes, then->bytes);
    }
    if (now->moves == STG_REGION_FIXED && now->address != then->address) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "pointer %zu of region '%s' is %p and was recorded as %p; declare it as "
                           "moving",
                           i, call->signature, now->address, then->address);
    }
    *ret_again = *ret_again || (now->moves == STG_REGION_RECORD && now->address != then->address);
  }
  return STG_OK;
}

/* Between the call's tensors and the buffers, for those that move one way or both. */
static stg_status copy(const struct stg_engine *engine, const struct stg_exec *exec,
                       const stg_region_call *call, stg_region_moves way, stg_error *reterr) {
  void *const *given = given_of(exec->take);
  stg_status status = STG_OK;
  for (size_t i = 0; i < call->n_pointers && status == STG_OK; i++) {
    const stg_region_pointer *pointer = &call->pointers[i];
    const uint64_t theirs = (uint64_t)(uintptr_t)pointer->address;
    const uint64_t ours = (uint64_t)(uintptr_t)given[i];
    const bool in = way == STG_REGION_IN;
    if (pointer->moves == way || pointer->moves == STG_REGION_INOUT) {
      status = stg_copy_on_device(engine->device, in ? ours : theirs, in ? theirs : ours,
                                  pointer->bytes, exec->stream, reterr);
    }
  }
  return status;
}

stg_status stg_region_take_launch(struct stg_engine *engine, struct stg_exec *exec,
                                  const stg_region_call *call, stg_error *reterr) {
  struct stg_region_take *take = exec->take;
  /* said ahead: what fails on the way may have put something on the stream */
  take->launched = take->memory != 0;
  stg_status status = copy(engine, exec, call, STG_REGION_IN, reterr);
  if (status == STG_OK) {
    status = stg_graph_launch(engine->device, exec->graph, exec->stream, reterr);
  }
  if (status == STG_OK) {
    atomic_fetch_add_explicit(&engine->counters.graph_launches, 1, memory_order_relaxed);
    status = copy(engine, exec, call, STG_REGION_OUT, reterr);
  }
  if (take->memory != 0) {
    const stg_status recorded = stg_event_record(engine->device, take->event, exec->stream,
                                                 status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? recorded : status;
  }
  return status;
}

stg_status stg_region_enqueue(struct stg_engine *engine, const stg_region_call *call,
                              stg_stream stream, stg_error *reterr) {
  void *few[16];
  void **pointers = few;
  if (call->n_pointers > sizeof few / sizeof few[0]) {
    pointers = stg_calloc(call->n_pointers, sizeof *pointers);
  }
  if (pointers == NULL) {
    return stg_error_memory(reterr, "the pointers of a region",
                            call->n_pointers * sizeof *pointers);
  }
  for (size_t i = 0; i < call->n_pointers; i++) {
    pointers[i] = call->pointers[i].address;
  }
  struct host_work host = {.call = call, .pointers = pointers};
  const struct stg_work work = {.enqueue = enqueue, .user = &host};
  stg_error said = STG_ERROR_INIT;
  stg_status status = stg_engine_is_cuda(engine)
                          ? stg_work_enqueue(engine->device, &work, stream, &said)
                          : enqueue(&host, stream, &said);
  if (pointers != few) {
    stg_free(pointers);
  }
  if (status != STG_OK && said.message[0] == '\0') { /* a host's own callback may forget it */
    return stg_error_set(reterr, status, "region '%s': its callback failed without a message",
                         call->signature);
  }
  return status == STG_OK ? status : stg_error_set(reterr, status, "%s", said.message);
}

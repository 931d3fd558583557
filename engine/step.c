/*
 * step.c: one scheduling step: check the row map, find the plan, let what slots show be sent, and
 * bring the frame's device tables up to date.
 */
#include <string.h>

#include "engine/steer.h"
#include "runtime/base/intmath.h"
#include "runtime/nvtx.h"

/* What a host row map says of its batch: runs of equal entries are requests. */
struct map_facts {
  uint32_t runs, longest;
};

static stg_status check_map(const stg_steer *steer, const int32_t *map, int64_t rows,
                            struct map_facts *ret, stg_error *reterr) {
  struct map_facts facts = {0, 0};
  uint32_t run = 0;
  for (int64_t r = 0; r < rows; r++) {
    if (map[r] < STG_ROW_PADDING || map[r] >= (int64_t)steer->decl.max_slots) {
      return stg_error_set(
          reterr, STG_E_BAD_SLOT,
          "row_map[%lld]: %d is no slot below %u, nor -1 (unsteered) nor -2 (padding)",
          (long long)r, map[r], steer->decl.max_slots);
    }
    bool same = r > 0 && map[r] == map[r - 1];
    run = same ? run + 1 : 1;
    facts.runs += same ? 0 : 1;
    facts.longest = run > facts.longest ? run : facts.longest;
  }
  *ret = facts;
  return STG_OK;
}

/* Entries are read as whole words. */
static stg_status check_entries(const stg_step *step, stg_error *reterr) {
  const struct {
    const char *name;
    const int32_t *at;
  } entries[] = {{"row_map", step->row_map},
                 {"positions", step->positions},
                 {"prompt_lens", step->prompt_lens}};
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    if ((uintptr_t)entries[i].at % sizeof(int32_t) != 0) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_steer_step: %s at %p lies between elements of 4 bytes",
                           entries[i].name, (const void *)entries[i].at);
    }
  }
  return STG_OK;
}

static stg_status check_step(const stg_frame *frame, const stg_step *step,
                             struct map_facts *ret_facts, stg_error *reterr) {
  if (frame == NULL || step == NULL || step->struct_size != sizeof *step) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_step: frame is NULL, or struct_size is not %zu", sizeof *step);
  }
  const stg_steer *steer = frame->steer;
  if (step->rows < 0 || (step->rows > 0 && step->row_map == NULL)) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_steer_step: %lld rows with a row map at %p",
                         (long long)step->rows, (const void *)step->row_map);
  }
  if (step->rows > (int64_t)steer->decl.max_rows) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "stg_steer_step: %lld rows, the table declares max_rows %u",
                         (long long)step->rows, steer->decl.max_rows);
  }
  *ret_facts = (struct map_facts){1, (uint32_t)step->rows};
  if (step->on_device && !stg_engine_is_cuda(steer->engine)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_step: on_device with the cpu backend; give a host row map");
  }
  stg_status status = check_entries(step, reterr);
  if (status == STG_OK && !step->on_device) {
    status = check_map(steer, step->row_map, step->rows, ret_facts, reterr);
  }
  return status == STG_OK ? stg_window_check_step(&steer->decl, step, reterr) : status;
}

/* How a map in device memory names a record: in 16-byte units, or -1 where there is nothing to do.
 */
static int32_t record_name(const struct stg_record *record) {
  return record != NULL && record->offset != 0 ? (int32_t)(record->offset / 16) : STG_ROW_UNSTEERED;
}

/* Point the snapshot at what slots show now; what it pointed at goes to `buffer`, until the step
 * has passed. */
static void take_snapshot(stg_frame *frame, struct stg_staging_buffer *buffer) {
  stg_steer *steer = frame->steer;
  struct stg_record_store store = stg_steer_store(steer);
  if (frame->serial == steer->serial) {
    return;
  }
  for (uint32_t s = 0; s < steer->decl.max_slots; s++) {
    struct stg_record *now = steer->slots[s].record;
    struct stg_record *before = frame->snapshot[s];
    if (now == before) {
      continue;
    }
    if (now != NULL) {
      now->refs++;
    }
    frame->snapshot[s] = now;
    if (before != NULL && buffer != NULL) {
      buffer->held[buffer->n_held++] = before;
    } else {
      stg_record_unref(&store, before);
    }
  }
  frame->serial = steer->serial;
}

/* Put the rows' positions behind a map of `until` rows, each with its prompt's length. Returns how
 * many words there are then. */
static size_t append_places(const stg_step *step, int64_t until, int32_t *host) {
  size_t at = STG_MAP_HEADER_WORDS + (size_t)until;
  host[2] = (int32_t)at;
  host[3] = 1;
  for (int64_t r = 0; r < step->rows; r++) {
    host[at++] = step->positions[r];
    host[at++] = step->prompt_lens[r];
  }
  return at;
}

/* A host map: slots become records here, and padding follows up to the highest row ever used. */
static stg_status upload_host_map(stg_frame *frame, const stg_step *step, int32_t *host,
                                  int64_t until, stg_stream stream, stg_error *reterr) {
  memset(host, 0, STG_MAP_HEADER_WORDS * sizeof *host);
  host[0] = STG_MAP_OF_RECORDS;
  host[1] = (int32_t)step->rows;
  int32_t *rows = host + STG_MAP_HEADER_WORDS;
  for (int64_t r = 0; r < step->rows; r++) {
    const int32_t slot = step->row_map[r];
    rows[r] = slot >= 0 ? record_name(frame->snapshot[slot]) : slot;
  }
  for (int64_t r = step->rows; r < until; r++) {
    rows[r] = STG_ROW_PADDING;
  }
  const size_t words = frame->steer->decl.windows ? append_places(step, until, host)
                                                  : STG_MAP_HEADER_WORDS + (size_t)until;
  return stg_copy_to_device(frame->steer->engine->device, frame->row_map, host,
                            words * sizeof *host, stream, reterr);
}

/* Positions on the device: lists of the frame's capacity behind its map. */
static stg_status copy_places(const stg_frame *frame, const stg_step *step, stg_stream stream,
                              stg_error *reterr) {
  struct stg_device *device = frame->steer->engine->device;
  const size_t bytes = (size_t)step->rows * sizeof(int32_t);
  const uint64_t list = (uint64_t)frame->capacity * sizeof(int32_t);
  const uint64_t at = frame->row_map + STG_MAP_HEADER_WORDS * sizeof(int32_t) + list;
  stg_status status =
      stg_copy_on_device(device, at, (uint64_t)(uintptr_t)step->positions, bytes, stream, reterr);
  return status == STG_OK
             ? stg_copy_on_device(device, at + list, (uint64_t)(uintptr_t)step->prompt_lens, bytes,
                                  stream, reterr)
             : status;
}

/* A device map: its slots are copied as they are, and the kernel translates them by a table. */
static stg_status upload_device_map(stg_frame *frame, const stg_step *step, int32_t *host,
                                    int64_t until, stg_stream stream, stg_error *reterr) {
  struct stg_device *device = frame->steer->engine->device;
  const uint32_t slots = frame->steer->decl.max_slots;
  const uint64_t rows_at = frame->row_map + STG_MAP_HEADER_WORDS * sizeof(int32_t);
  const size_t rows = (size_t)step->rows, tail = (size_t)(until - step->rows);
  memset(host, 0, STG_MAP_HEADER_WORDS * sizeof *host);
  host[0] = STG_MAP_OF_SLOTS;
  host[1] = (int32_t)step->rows;
  if (frame->steer->decl.windows) {
    host[2] = (int32_t)(STG_MAP_HEADER_WORDS + frame->capacity);
    host[3] = (int32_t)frame->capacity;
  }
  int32_t *table = host + STG_MAP_HEADER_WORDS;
  for (uint32_t s = 0; s < slots; s++) {
    table[s] = record_name(frame->snapshot[s]);
  }
  stg_status status = stg_copy_to_device(device, frame->row_map, host,
                                         STG_MAP_HEADER_WORDS * sizeof *host, stream, reterr);
  if (status == STG_OK) {
    status = stg_copy_to_device(device, frame->table, table, slots * sizeof *table, stream, reterr);
  }
  if (status == STG_OK && rows > 0) {
    status = stg_copy_on_device(device, rows_at, (uint64_t)(uintptr_t)step->row_map,
                                rows * sizeof(int32_t), stream, reterr);
  }
  if (status == STG_OK && rows > 0 && frame->steer->decl.windows) {
    status = copy_places(frame, step, stream, reterr);
  }
  if (status == STG_OK && tail > 0) {
    status = stg_fill_u32(device, rows_at + rows * sizeof(int32_t), (uint32_t)STG_ROW_PADDING, tail,
                          stream, reterr);
  }
  return status;
}

/* Bring the device up to date on `stream`. The table's lock is held. */
static stg_status upload(stg_frame *frame, const stg_step *step, stg_stream stream,
                         stg_error *reterr) {
  stg_steer *steer = frame->steer;
  struct stg_record_store store = stg_steer_store(steer);
  struct stg_staging_buffer *buffer = NULL;
  stg_status status = stg_upload_unsent(steer, reterr);
  if (status == STG_OK) {
    status = stg_staging_acquire(&frame->staging, &store, &buffer, reterr);
  }
  if (status == STG_OK && frame->serial != steer->serial) {
    status = stg_upload_wait(steer, stream, reterr);
  }
  /* ahead of the resets: those that the frame has seen were seen on the stream that it was on */
  if (status == STG_OK && frame->used != NULL) {
    status = stg_event_wait(steer->engine->device, frame->used, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_counters_send_resets(&steer->counters, stream, &frame->resets_seen, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  /* from here on a failure leaves half a step, which must not be applied, and rows that it may have
   * written must be overwritten by the next */
  frame->stepped = false;
  frame->high_rows = step->rows > frame->high_rows ? step->rows : frame->high_rows;
  take_snapshot(frame, buffer);
  const int64_t until = frame->high_rows;
  status = step->on_device ? upload_device_map(frame, step, buffer->host, until, stream, reterr)
                           : upload_host_map(frame, step, buffer->host, until, stream, reterr);
  /* also after a failure: what was queued before it still reads the buffer */
  stg_status committed =
      stg_staging_commit(&frame->staging, buffer, stream, status == STG_OK ? reterr : NULL);
  return status != STG_OK ? status : committed;
}

static void keep_on_host(stg_frame *frame, const stg_step *step) {
  if (step->rows > 0) {
    const size_t bytes = (size_t)step->rows * sizeof(int32_t);
    memcpy(frame->host_map, step->row_map, bytes);
    if (frame->steer->decl.windows) {
      memcpy(frame->positions, step->positions, bytes);
      memcpy(frame->prompt_lens, step->prompt_lens, bytes);
    }
  }
  take_snapshot(frame, NULL);
}

/* Everything about a step that needs no lock. */
struct plan_of_step {
  struct stg_graph_shape shape;
  enum stg_tile tile;
  uint32_t requests;
};

static stg_status prepare(const stg_frame *frame, const stg_step *step, stg_stream stream,
                          struct plan_of_step *ret, stg_error *reterr) {
  struct map_facts facts = {0};
  stg_status status = check_step(frame, step, &facts, reterr);
  if (status != STG_OK) {
    return status;
  }
  const stg_steer *steer = frame->steer;
  const uint32_t requests = step->requests != 0 ? step->requests : facts.runs;
  ret->requests = requests;
  const uint32_t longest = step->longest != 0 ? step->longest : facts.longest;
  status =
      stg_steer_shape(&steer->decl, step->rows, requests, longest, &ret->shape, &ret->tile, reterr);
  if (status != STG_OK || !stg_engine_is_cuda(steer->engine)) {
    return status;
  }
  bool capturing = false;
  status = stg_stream_is_capturing(steer->engine->device, stream, &capturing, reterr);
  if (status == STG_OK && capturing) {
    status =
        stg_error_set(reterr, STG_E_CAPTURING,
                      "stg_steer_step: the stream is capturing; step before the capture begins");
  }
  return status;
}

static void count(stg_frame *frame, const stg_step *step, const struct plan_of_step *wanted) {
  struct stg_engine *engine = frame->steer->engine;
  if (step->on_device) {
    stg_row_tally_skip(&frame->tally, step->rows);
  } else {
    stg_row_tally_read(&frame->tally, step, frame->snapshot);
  }
  atomic_fetch_add_explicit(&engine->counters.steps, 1, memory_order_relaxed);
  stg_plan_count_step(engine->plans, frame->plan);
  stg_usage_step(&engine->usage, frame->tally.live, wanted->requests, &wanted->shape);
}

/* The frame's own plan where it serves again, else one with a user more. */
static stg_status find_plan(const stg_frame *frame, const struct plan_of_step *wanted,
                            struct stg_plan **ret_plan, stg_error *reterr) {
  const stg_steer *steer = frame->steer;
  const struct stg_plan_parts parts = stg_plan_of_one(steer->kernels);
  if (frame->plan != NULL && stg_plan_is(frame->plan, &parts, &wanted->shape, wanted->tile)) {
    *ret_plan = frame->plan;
    return STG_OK;
  }
  return stg_plan_acquire(steer->engine->plans, &parts, &wanted->shape, wanted->tile, ret_plan,
                          reterr);
}

/* From now on the frame launches by this plan, which has a user for it. */
static void use_plan(stg_frame *frame, struct stg_plan *plan, stg_stream stream) {
  struct stg_plan_table *plans = frame->steer->engine->plans;
  frame->kernel = stg_kernels_serving(frame->steer->kernels, plan->variant);
  if (frame->exec == NULL || frame->exec->plan != plan || frame->exec->stream != stream) {
    struct stg_exec *exec = stg_exec_acquire(plans, plan, frame->kernel, stream);
    stg_exec_release(plans, frame->exec);
    frame->exec = exec;
  }
  if (frame->exec != NULL) {
    stg_recipes_note(frame->steer->engine->recipes, plan, frame->kernel);
  }
  if (frame->plan != plan) {
    stg_plan_release(plans, frame->plan);
    frame->plan = plan;
  }
}

/* For captures that follow. Where memory is short they say so. */
static void refill_pins(stg_steer *steer) {
  if (stg_engine_is_cuda(steer->engine)) {
    stg_status status = stg_pins_refill(&steer->pins, NULL);
    (void)status;
  }
}

/* The part under the table's lock. */
static stg_status locked_step(stg_frame *frame, const stg_step *step,
                              const struct plan_of_step *wanted, stg_stream stream,
                              stg_error *reterr) {
  stg_steer *steer = frame->steer;
  struct stg_plan *plan = NULL;
  stg_status status = stg_steer_check_slots(steer, NULL, reterr);
  if (status == STG_OK) {
    status = find_plan(frame, wanted, &plan, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(steer->engine)) {
    status = upload(frame, step, stream, reterr);
  } else if (status == STG_OK) {
    keep_on_host(frame, step);
  }
  if (status != STG_OK) {
    if (plan != frame->plan) {
      stg_plan_release(steer->engine->plans, plan);
    }
    return status;
  }
  use_plan(frame, plan, stream);
  refill_pins(steer);
  frame->rows = step->rows;
  frame->stream = stream;
  frame->stepped = true;
  frame->fresh = true;
  count(frame, step, wanted);
  return STG_OK;
}

stg_status stg_steer_step_held(stg_frame *frame, const stg_step *step, stg_stream stream,
                               stg_error *reterr) {
  struct plan_of_step wanted;
  stg_nvtx_push("step");
  stg_status status = prepare(frame, step, stream, &wanted, reterr);
  if (status == STG_OK) {
    status = locked_step(frame, step, &wanted, stream, reterr);
  }
  stg_nvtx_pop();
  return status;
}

stg_status stg_steer_step(stg_frame *frame, const stg_step *step, stg_stream stream,
                          stg_error *reterr) {
  struct plan_of_step wanted;
  stg_nvtx_push("step");
  stg_status status = prepare(frame, step, stream, &wanted, reterr);
  if (status == STG_OK) {
    pthread_mutex_lock(&frame->steer->lock);
    status = locked_step(frame, step, &wanted, stream, reterr);
    pthread_mutex_unlock(&frame->steer->lock);
  }
  stg_nvtx_pop();
  return status;
}

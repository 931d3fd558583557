/*
 * step.c: one scheduling step: check the row map, bring the frame's device tables up to date, find
 * the plan.
 */
#include <string.h>

#include "engine/steer.h"
#include "runtime/base/intmath.h"

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
  return step->on_device ? STG_OK : check_map(steer, step->row_map, step->rows, ret_facts, reterr);
}

static uint32_t chain_offset(const struct stg_record *record,
                             const struct stg_record_chain *chain) {
  return (uint32_t)((record->offset + chain->first_word * sizeof(uint32_t)) / 16);
}

/* The table row of a slot: the chain of each layer, 0 for none. */
static void encode_slot(const struct stg_record *record, uint32_t layers, uint32_t *ret_row) {
  memset(ret_row, 0, layers * sizeof *ret_row);
  for (size_t i = 0; record != NULL && i < record->n_chains; i++) {
    ret_row[record->chains[i].layer] = chain_offset(record, &record->chains[i]);
  }
}

/* Point the snapshot at what slots show now; what it pointed at goes to `buffer`, until the step
 * has passed. */
static void take_snapshot(stg_frame *frame, struct stg_staging_buffer *buffer, uint32_t *ret_first,
                          uint32_t *ret_end) {
  stg_steer *steer = frame->steer;
  struct stg_record_store store = stg_steer_store(steer);
  uint32_t first = steer->decl.max_slots, end = 0;
  for (uint32_t s = 0; s < steer->decl.max_slots; s++) {
    struct stg_record *now = steer->slots[s].record;
    struct stg_record *before = frame->snapshot[s];
    if (now == before) {
      continue;
    }
    first = s < first ? s : first;
    end = s + 1;
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
  *ret_first = first;
  *ret_end = end;
}

/* Send the table rows of slots first..end-1 from the staging buffer at `host`. */
static stg_status upload_table(stg_frame *frame, uint32_t *host, uint32_t first, uint32_t end,
                               stg_stream stream, stg_error *reterr) {
  const uint32_t layers = frame->steer->decl.layers;
  if (first >= end) {
    return STG_OK;
  }
  for (uint32_t s = first; s < end; s++) {
    encode_slot(frame->snapshot[s], layers, host + (size_t)(s - first) * layers);
  }
  const size_t row_bytes = layers * sizeof(uint32_t);
  return stg_copy_to_device(frame->steer->engine->device, frame->table + first * row_bytes, host,
                            (end - first) * row_bytes, stream, reterr);
}

/* The row map, and padding up to the highest row that any step used. */
static stg_status upload_map(stg_frame *frame, const stg_step *step, int32_t *host,
                             stg_stream stream, stg_error *reterr) {
  struct stg_device *device = frame->steer->engine->device;
  const int64_t until = step->rows > frame->high_rows ? step->rows : frame->high_rows;
  const size_t rows = (size_t)step->rows, tail = (size_t)(until - step->rows);
  frame->high_rows = until;
  if (!step->on_device) {
    memcpy(host, step->row_map, rows * sizeof *host);
    for (size_t r = rows; r < rows + tail; r++) {
      host[r] = STG_ROW_PADDING;
    }
    return rows + tail == 0 ? STG_OK
                            : stg_copy_to_device(device, frame->row_map, host,
                                                 (rows + tail) * sizeof *host, stream, reterr);
  }
  stg_status status = STG_OK;
  if (rows > 0) {
    status = stg_copy_on_device(device, frame->row_map, (uint64_t)(uintptr_t)step->row_map,
                                rows * sizeof(int32_t), stream, reterr);
  }
  if (status == STG_OK && tail > 0) {
    status = stg_fill_u32(device, frame->row_map + rows * sizeof(int32_t),
                          (uint32_t)STG_ROW_PADDING, tail, stream, reterr);
  }
  return status;
}

/* Bring the device up to date on `stream`. The table's lock is held. */
static stg_status upload(stg_frame *frame, const stg_step *step, stg_stream stream,
                         stg_error *reterr) {
  stg_steer *steer = frame->steer;
  struct stg_device *device = steer->engine->device;
  struct stg_record_store store = stg_steer_store(steer);
  struct stg_staging_buffer *buffer = NULL;
  stg_status status = stg_staging_acquire(&frame->staging, &store, &buffer, reterr);
  if (status != STG_OK) {
    return status;
  }
  int32_t *host_map = buffer->host;
  uint32_t *host_table = (uint32_t *)(host_map + frame->capacity);
  if (frame->serial != steer->serial) {
    uint32_t first, end;
    status = stg_event_wait(device, steer->uploaded, stream, reterr);
    if (status == STG_OK) {
      take_snapshot(frame, buffer, &first, &end);
      status = upload_table(frame, host_table, first, end, stream, reterr);
    }
  }
  if (status == STG_OK) {
    status = upload_map(frame, step, host_map, stream, reterr);
  }
  /* also after a failure: what was queued before it still reads the buffer */
  stg_status committed =
      stg_staging_commit(&frame->staging, buffer, stream, status == STG_OK ? reterr : NULL);
  return status != STG_OK ? status : committed;
}

static void keep_on_host(stg_frame *frame, const stg_step *step) {
  uint32_t first, end;
  if (step->rows > 0) {
    memcpy(frame->host_map, step->row_map, (size_t)step->rows * sizeof(int32_t));
  }
  take_snapshot(frame, NULL, &first, &end);
}

/* The part under the table's lock. */
static stg_status locked_step(stg_frame *frame, const stg_step *step,
                              const struct stg_graph_shape *shape, enum stg_tile tile,
                              stg_stream stream, stg_error *reterr) {
  stg_steer *steer = frame->steer;
  const struct stg_plan *plan = NULL;
  stg_status status = stg_steer_take_words(steer, NULL, reterr);
  if (status == STG_OK) {
    status = stg_plan_find(&steer->plans, shape, tile, &plan, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(steer->engine)) {
    status = upload(frame, step, stream, reterr);
  } else if (status == STG_OK) {
    keep_on_host(frame, step);
  }
  if (status == STG_OK) {
    struct stg_exec *exec = stg_exec_acquire(&steer->plans, plan, stream);
    stg_exec_release(frame->exec);
    frame->exec = exec;
    frame->plan = plan;
  }
  return status;
}

stg_status stg_steer_step(stg_frame *frame, const stg_step *step, stg_stream stream,
                          stg_error *reterr) {
  struct map_facts facts = {0};
  stg_status status = check_step(frame, step, &facts, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_steer *steer = frame->steer;
  const uint32_t requests = step->requests != 0 ? step->requests : facts.runs;
  const uint32_t longest = step->longest != 0 ? step->longest : facts.longest;
  struct stg_graph_shape shape;
  enum stg_tile tile;
  status = stg_steer_shape(&steer->decl, step->rows, requests, longest, &shape, &tile, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stg_engine_is_cuda(steer->engine)) {
    bool capturing = false;
    status = stg_stream_is_capturing(steer->engine->device, stream, &capturing, reterr);
    if (status == STG_OK && capturing) {
      status =
          stg_error_set(reterr, STG_E_CAPTURING,
                        "stg_steer_step: the stream is capturing; step before the capture begins");
    }
    if (status != STG_OK) {
      return status;
    }
  }
  pthread_mutex_lock(&steer->lock);
  status = locked_step(frame, step, &shape, tile, stream, reterr);
  pthread_mutex_unlock(&steer->lock);
  if (status == STG_OK) {
    frame->rows = step->rows;
    frame->stream = stream;
    frame->stepped = true;
    atomic_fetch_add_explicit(&steer->engine->counters.steps, 1, memory_order_relaxed);
  }
  return status;
}

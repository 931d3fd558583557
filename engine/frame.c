/*
 * frame.c: frames: one row map at fixed addresses, and what it names.
 */
#include "engine/plan_exec.h"
#include "engine/steer.h"
#include "engine/steer_launch.h"
#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* Device tables of a frame, filled with padding and "no chain". */
static stg_status create_device_side(stg_frame *frame, stg_error *reterr) {
  stg_steer *steer = frame->steer;
  struct stg_device *device = steer->engine->device;
  stg_stream stream = steer->engine->stream;
  /* behind the map of a table with windows, a position and a prompt length per row */
  const size_t map_words =
      STG_MAP_HEADER_WORDS + (steer->decl.windows ? 3 : 1) * (size_t)frame->capacity;
  const size_t table_words = steer->decl.max_slots;
  const size_t staged_words =
      STG_MAP_HEADER_WORDS + (map_words > table_words ? map_words : table_words);
  stg_status status =
      stg_device_alloc(device, map_words * sizeof(int32_t), &frame->row_map, reterr);
  if (status == STG_OK) {
    status = stg_device_alloc(device, table_words * sizeof(int32_t), &frame->table, reterr);
  }
  if (status == STG_OK) {
    /* what a step may replace: every slot's record at once */
    status = stg_staging_init(&frame->staging, device, staged_words * sizeof(int32_t),
                              steer->decl.max_slots, reterr);
  }
  if (status == STG_OK) {
    status =
        stg_fill_u32(device, frame->row_map, (uint32_t)STG_ROW_PADDING, map_words, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_fill_u32(device, frame->table, (uint32_t)STG_ROW_UNSTEERED, table_words, stream,
                          reterr);
  }
  if (status == STG_OK) {
    status = stg_stream_synchronize(device, stream, reterr);
  }
  if (status == STG_OK) {
    frame->held = (struct stg_held_bytes){
        .frame = (map_words + table_words) * sizeof(int32_t),
        .pinned = stg_staging_bytes(&frame->staging),
    };
  }
  return status;
}

static stg_status create_host_side(stg_frame *frame, stg_error *reterr) {
  const size_t rows = (size_t)frame->capacity;
  frame->host_map = stg_calloc(rows, sizeof *frame->host_map);
  frame->cpu_rows = stg_calloc(rows, sizeof *frame->cpu_rows);
  frame->cpu_chains = stg_calloc(frame->steer->decl.max_slots, sizeof *frame->cpu_chains);
  const bool counters = frame->steer->decl.counters;
  if (counters) {
    frame->cpu_counts = stg_calloc(frame->steer->decl.max_slots, sizeof *frame->cpu_counts);
  }
  const bool windows = frame->steer->decl.windows;
  if (windows) {
    frame->positions = stg_calloc(rows, sizeof *frame->positions);
    frame->prompt_lens = stg_calloc(rows, sizeof *frame->prompt_lens);
  }
  if (frame->host_map == NULL || frame->cpu_rows == NULL || frame->cpu_chains == NULL ||
      (counters && frame->cpu_counts == NULL) ||
      (windows && (frame->positions == NULL || frame->prompt_lens == NULL))) {
    return stg_error_memory(reterr, "a frame", rows * sizeof *frame->host_map);
  }
  return STG_OK;
}

stg_status stg_frame_create(stg_steer *steer, stg_frame **ret_frame, stg_error *reterr) {
  if (steer == NULL || ret_frame == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_frame_create: steer or ret_frame is NULL");
  }
  stg_status status = stg_engine_check_process(steer->engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_frame *frame = stg_calloc(1, sizeof *frame);
  if (frame == NULL) {
    return stg_error_memory(reterr, "a frame", sizeof *frame);
  }
  frame->steer = steer;
  frame->captured = STG_NO_CAPTURE;
  status = stg_row_bucket(&steer->decl.row_buckets, steer->decl.max_rows, &frame->capacity, reterr);
  if (status == STG_E_CAPACITY) {
    /* the list ends below max_rows: its last bucket is all that a step may ask for */
    frame->capacity = steer->decl.row_buckets.sizes[steer->decl.row_buckets.count - 1];
    status = STG_OK;
  }
  if (status == STG_OK) {
    frame->snapshot = stg_calloc(steer->decl.max_slots, sizeof(struct stg_record *));
    status = frame->snapshot != NULL
                 ? STG_OK
                 : stg_error_memory(reterr, "a frame", steer->decl.max_slots * sizeof(void *));
  }
  if (status == STG_OK) {
    status = stg_row_tally_init(&frame->tally, steer->decl.layers, reterr);
  }
  if (status == STG_OK) {
    status = stg_engine_is_cuda(steer->engine) ? create_device_side(frame, reterr)
                                               : create_host_side(frame, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(steer->engine)) {
    status = stg_pins_refill(&steer->pins, reterr);
  }
  stg_usage_hold(&steer->engine->usage, &frame->held);
  pthread_mutex_lock(&steer->lock);
  if (status != STG_OK) {
    stg_frame_free(frame);
  } else {
    frame->next = steer->frames;
    steer->frames = frame;
    *ret_frame = frame;
  }
  stg_frames_collect(steer, false);
  pthread_mutex_unlock(&steer->lock);
  return status;
}

void stg_frame_let_go(stg_frame *frame, stg_stream stream) {
  stg_steer *steer = frame->steer;
  struct stg_record_store store = stg_steer_store(steer);
  struct stg_staging_buffer *buffer = NULL;
  if (stg_engine_is_cuda(steer->engine) &&
      stg_staging_acquire(&frame->staging, &store, &buffer, NULL) != STG_OK) {
    return; /* they stay until the next step */
  }
  for (uint32_t s = 0; s < steer->decl.max_slots; s++) {
    if (buffer != NULL && frame->snapshot[s] != NULL) {
      buffer->held[buffer->n_held++] = frame->snapshot[s];
    } else {
      stg_record_unref(&store, frame->snapshot[s]);
    }
    frame->snapshot[s] = NULL;
  }
  frame->stepped = false;
  frame->serial = STG_NO_SERIAL;
  if (buffer != NULL) {
    stg_status status = stg_staging_commit(&frame->staging, buffer, stream, NULL);
    (void)status; /* without its event the buffer lets go when it is taken next */
  }
}

void stg_frame_free(stg_frame *frame) {
  stg_steer *steer = frame->steer;
  struct stg_device *device = steer->engine->device;
  struct stg_record_store store = stg_steer_store(steer);
  stg_usage_let_go(&steer->engine->usage, &frame->held);
  stg_row_tally_finish(&frame->tally);
  stg_exec_release(steer->engine->plans, frame->exec);
  stg_plan_release(steer->engine->plans, frame->plan);
  stg_staging_finish(&frame->staging, &store);
  for (uint32_t s = 0; frame->snapshot != NULL && s < steer->decl.max_slots; s++) {
    stg_record_unref(&store, frame->snapshot[s]);
  }
  if (device != NULL) {
    stg_event_destroy(device, frame->used);
    stg_device_free(device, frame->row_map);
    stg_device_free(device, frame->table);
  }
  stg_free(frame->snapshot);
  stg_free(frame->host_map);
  stg_free(frame->positions);
  stg_free(frame->prompt_lens);
  stg_free(frame->cpu_rows);
  stg_free(frame->cpu_chains);
  stg_free(frame->cpu_counts);
  stg_free(frame);
}

/* The stream of a stg_steer_once may be gone by now; its event is ours. */
static stg_status wait_for_last_use(const stg_frame *frame) {
  struct stg_device *device = frame->steer->engine->device;
  return frame->used != NULL ? stg_event_synchronize(device, frame->used, NULL)
                             : stg_stream_synchronize(device, frame->stream, NULL);
}

void stg_frame_destroy(stg_frame *frame) {
  if (frame == NULL || stg_engine_check_process(frame->steer->engine, NULL) != STG_OK) {
    return; /* in a child nothing is touched */
  }
  stg_steer *steer = frame->steer;
  if (frame->plan != NULL && stg_engine_is_cuda(steer->engine)) {
    stg_status status = wait_for_last_use(frame);
    (void)status; /* a lost device has no work in flight; the frame goes either way */
  }
  pthread_mutex_lock(&steer->lock);
  stg_frame **link = &steer->frames;
  while (*link != frame) {
    link = &(*link)->next;
  }
  *link = frame->next;
  if (steer->once == frame) {
    steer->once = NULL;
  }
  stg_frame_retire(frame);
  stg_frames_collect(steer, false);
  pthread_mutex_unlock(&steer->lock);
}

static uint32_t shared_bytes(const stg_frame *frame) {
  const stg_steer *steer = frame->steer;
  return stg_steer_shared_bytes(steer->engine, frame->kernel, frame->plan->shape.rows,
                                stg_steer_chain_bytes(steer));
}

stg_status stg_frame_plan(const stg_frame *frame, stg_plan_info *ret_info, stg_error *reterr) {
  if (frame == NULL || ret_info == NULL || ret_info->struct_size != sizeof *ret_info) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_frame_plan: frame is NULL, or struct_size is not %zu",
                         sizeof *ret_info);
  }
  stg_status status = stg_engine_check_process(frame->steer->engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (frame->plan == NULL) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "stg_frame_plan: the frame has had no step");
  }
  *ret_info = stg_plan_info_of(frame->steer->engine, frame->plan, frame->kernel);
  ret_info->shared_bytes = stg_engine_is_cuda(frame->steer->engine) ? shared_bytes(frame) : 0;
  return STG_OK;
}

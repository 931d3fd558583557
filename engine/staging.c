/*
 * staging.c: see staging.h.
 */
#include "engine/staging.h"

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* Buffers begin at multiples of this: no two share what the device reads at once. */
#define ALIGNMENT ((size_t)256)

size_t stg_staging_bytes(const struct stg_staging *staging) {
  return STG_STAGING_BUFFERS * stg_round_up(staging->bytes, ALIGNMENT);
}

stg_status stg_staging_init(struct stg_staging *staging, struct stg_device *device, size_t bytes,
                            size_t held_capacity, stg_error *reterr) {
  *staging = (struct stg_staging){.device = device, .bytes = bytes, .held_capacity = held_capacity};
  const size_t stride = stg_round_up(bytes, ALIGNMENT);
  stg_status status =
      stg_pinned_alloc(device, stg_staging_bytes(staging), &staging->memory, reterr);
  for (size_t i = 0; i < STG_STAGING_BUFFERS && status == STG_OK; i++) {
    struct stg_staging_buffer *buffer = &staging->buffers[i];
    buffer->host = (char *)staging->memory + i * stride;
    status = stg_event_create(device, false, &buffer->event, reterr);
    if (status == STG_OK) {
      buffer->held = stg_calloc(held_capacity, sizeof(struct stg_record *));
      status = buffer->held != NULL
                   ? STG_OK
                   : stg_error_memory(reterr, "a staging buffer", held_capacity * sizeof(void *));
    }
  }
  if (status != STG_OK) {
    stg_staging_finish(staging, NULL);
  }
  return status;
}

static void let_go(struct stg_staging_buffer *buffer, struct stg_record_store *store) {
  for (size_t i = 0; i < buffer->n_held; i++) {
    stg_record_unref(store, buffer->held[i]);
  }
  buffer->n_held = 0;
  buffer->in_flight = false;
}

/* Wait for the buffer's event. A lost device has nothing in flight any more. */
static stg_status settle(struct stg_staging *staging, struct stg_staging_buffer *buffer,
                         struct stg_record_store *store, stg_error *reterr) {
  if (!buffer->in_flight) {
    return STG_OK;
  }
  stg_status status = stg_event_synchronize(staging->device, buffer->event, reterr);
  if (status == STG_OK || status == STG_E_DEVICE_LOST) {
    let_go(buffer, store);
  }
  return status;
}

void stg_staging_finish(struct stg_staging *staging, struct stg_record_store *store) {
  for (size_t i = 0; i < STG_STAGING_BUFFERS; i++) {
    struct stg_staging_buffer *buffer = &staging->buffers[i];
    if (buffer->in_flight) {
      stg_status status = stg_event_synchronize(staging->device, buffer->event, NULL);
      (void)status; /* nothing to be done about it: the memory goes either way */
    }
    let_go(buffer, store);
    if (staging->device != NULL) {
      stg_event_destroy(staging->device, buffer->event);
    }
    stg_free(buffer->held);
  }
  if (staging->device != NULL) {
    stg_pinned_free(staging->device, staging->memory);
  }
  *staging = (struct stg_staging){0};
}

stg_status stg_staging_acquire(struct stg_staging *staging, struct stg_record_store *store,
                               struct stg_staging_buffer **ret_buffer, stg_error *reterr) {
  struct stg_staging_buffer *buffer = &staging->buffers[staging->next];
  stg_status status = settle(staging, buffer, store, reterr);
  if (status == STG_OK) {
    let_go(buffer, store); /* also what a commit that failed left behind */
    staging->next = (staging->next + 1) % STG_STAGING_BUFFERS;
    *ret_buffer = buffer;
  }
  return status;
}

stg_status stg_staging_commit(struct stg_staging *staging, struct stg_staging_buffer *buffer,
                              stg_stream_handle stream, stg_error *reterr) {
  stg_status status = stg_event_record(staging->device, buffer->event, stream, reterr);
  buffer->in_flight = status == STG_OK;
  return status;
}

void stg_staging_reclaim(struct stg_staging *staging, struct stg_record_store *store, bool wait) {
  for (size_t i = 0; i < STG_STAGING_BUFFERS && staging->device != NULL; i++) {
    struct stg_staging_buffer *buffer = &staging->buffers[i];
    bool done = false;
    if (!buffer->in_flight) {
      continue;
    }
    if (wait) {
      stg_status status = settle(staging, buffer, store, NULL);
      (void)status;
    } else if (stg_event_query(staging->device, buffer->event, &done, NULL) == STG_OK && done) {
      let_go(buffer, store);
    }
  }
}

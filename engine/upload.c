/*
 * upload.c: what slots show and the device was not sent yet, sent together on the engine's stream.
 *
 * Records and bank rows are put down in a pinned buffer in the order of their places, so that each
 * run of neighbours is one copy. What is overwritten on the device was given back before: no step
 * in flight names it. Whoever reads what was sent lets its stream wait for the event after it.
 */
#include "engine/steer.h"

#include <string.h>

/* Room for the records and vectors of a batch of new requests; what is more takes two buffers. Less
 * where the table holds less. A ring of them stays below the 2 MiB from which on the driver makes a
 * chunk of its own, which takes a millisecond: with other small pieces it has one chunk. */
#define BUFFER_BYTES ((size_t)448 * 1024)

stg_status stg_uploads_init(struct stg_uploads *uploads, struct stg_device *device,
                            const struct stg_steer_decl *decl,
                            const struct stg_steer_limits *limits, stg_error *reterr) {
  const size_t record = limits->record_bytes, row = limits->bank_row_bytes;
  const size_t all = decl->max_slots * record + decl->max_vectors * row;
  const size_t most = all < BUFFER_BYTES ? all : BUFFER_BYTES;
  const size_t least = record > row ? record : row;
  return stg_staging_init(&uploads->staging, device, most > least ? most : least, 1, reterr);
}

void stg_uploads_finish(struct stg_uploads *uploads, struct stg_record_store *store) {
  stg_staging_finish(&uploads->staging, store);
  *uploads = (struct stg_uploads){0};
}

/* The buffer that is being filled, or NULL. */
struct parcel {
  stg_steer *steer;
  struct stg_staging_buffer *buffer;
  size_t used_bytes;
};

/* Places of a table on the device, and how the item of one is written. */
struct source {
  const struct stg_places *places;
  uint64_t address; /* of place 0 */
  size_t item_bytes;
  void (*write)(const stg_steer *steer, uint32_t place, void *ret_bytes);
};

static void write_row(const stg_steer *steer, uint32_t place, void *ret_bytes) {
  stg_bank_encode(&steer->bank, place, ret_bytes);
}

static void write_record(const stg_steer *steer, uint32_t place, void *ret_bytes) {
  const struct stg_record *record = steer->pool.records[place];
  const size_t bytes = record->words * sizeof(uint32_t);
  stg_record_encode(record, ret_bytes);
  memset((char *)ret_bytes + bytes, 0, steer->pool.record_bytes - bytes);
}

/* The buffer's copies are queued: it is free again when the stream has passed them. */
static stg_status close_buffer(struct parcel *parcel, stg_error *reterr) {
  struct stg_staging_buffer *buffer = parcel->buffer;
  parcel->buffer = NULL;
  return buffer != NULL ? stg_staging_commit(&parcel->steer->uploads.staging, buffer,
                                             parcel->steer->engine->stream, reterr)
                        : STG_OK;
}

static stg_status next_buffer(struct parcel *parcel, stg_error *reterr) {
  struct stg_record_store store = stg_steer_store(parcel->steer);
  stg_status status = close_buffer(parcel, reterr);
  parcel->used_bytes = 0;
  return status == STG_OK
             ? stg_staging_acquire(&parcel->steer->uploads.staging, &store, &parcel->buffer, reterr)
             : status;
}

/* Send as much of a run as the buffer has room for; what is left of it stays in `run`. */
static stg_status send_part(struct parcel *parcel, const struct source *source,
                            struct stg_places_run *run, stg_error *reterr) {
  stg_steer *steer = parcel->steer;
  const size_t left = steer->uploads.staging.bytes - parcel->used_bytes;
  if (parcel->buffer == NULL || left < source->item_bytes) {
    return next_buffer(parcel, reterr);
  }
  const size_t room = left / source->item_bytes;
  const uint32_t count = run->count < room ? run->count : (uint32_t)room;
  char *host = (char *)parcel->buffer->host + parcel->used_bytes;
  for (uint32_t i = 0; i < count; i++) {
    source->write(steer, run->first + i, host + i * source->item_bytes);
  }
  const size_t bytes = count * source->item_bytes;
  const uint64_t to = source->address + run->first * source->item_bytes;
  run->first += count;
  run->count -= count;
  parcel->used_bytes += bytes;
  steer->uploads.copies++;
  return stg_copy_to_device(steer->engine->device, to, host, bytes, steer->engine->stream, reterr);
}

static stg_status send_all(struct parcel *parcel, const struct source *source, stg_error *reterr) {
  stg_status status = STG_OK;
  struct stg_places_run run = {0};
  while (status == STG_OK && stg_places_find_unsent(source->places, run.first, &run)) {
    while (status == STG_OK && run.count > 0) {
      status = send_part(parcel, source, &run, reterr);
    }
  }
  return status;
}

stg_status stg_upload_unsent(stg_steer *steer, stg_error *reterr) {
  struct stg_uploads *uploads = &steer->uploads;
  const struct source sources[] = {
      {&steer->bank.places, steer->bank.memory, steer->bank.row_bytes, write_row},
      {&steer->pool.places, steer->records + STG_POOL_GRANULE, steer->pool.record_bytes,
       write_record},
  };
  struct parcel parcel = {.steer = steer};
  stg_status status = STG_OK;
  if (steer->bank.places.unsent == 0 && steer->pool.places.unsent == 0) {
    return STG_OK;
  }
  for (size_t i = 0; status == STG_OK && i < sizeof sources / sizeof sources[0]; i++) {
    status = send_all(&parcel, &sources[i], reterr);
  }
  struct stg_event *after = parcel.buffer != NULL ? parcel.buffer->event : NULL;
  /* also after a failure: what was queued before it still reads the buffer */
  stg_status closed = close_buffer(&parcel, status == STG_OK ? reterr : NULL);
  status = status == STG_OK ? closed : status;
  if (status == STG_OK) {
    uploads->sent = after;
    stg_places_all_sent(&steer->bank.places);
    stg_places_all_sent(&steer->pool.places);
  }
  return status;
}

stg_status stg_upload_when_full(stg_steer *steer, stg_error *reterr) {
  const size_t waiting = steer->bank.places.unsent * steer->bank.row_bytes +
                         steer->pool.places.unsent * steer->pool.record_bytes;
  return waiting >= BUFFER_BYTES ? stg_upload_unsent(steer, reterr) : STG_OK;
}

stg_status stg_upload_wait(const stg_steer *steer, stg_stream stream, stg_error *reterr) {
  const struct stg_engine *engine = steer->engine;
  return steer->uploads.sent == NULL || stream == engine->stream
             ? STG_OK
             : stg_event_wait(engine->device, steer->uploads.sent, stream, reterr);
}

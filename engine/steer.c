/*
 * steer.c: the steer table: what it allocates, how it ends, what the device reports. Slots are in
 * slot.c.
 */
#include "engine/steer.h"

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* How long a destroy waits for the driver to say that graphs are gone, which it does late. */
#define GRAPHS_WAIT_MS 100

stg_status stg_steer_bytes(stg_engine *engine, const stg_steer_desc *desc, size_t *ret_bytes,
                           stg_error *reterr) {
  if (engine == NULL || ret_bytes == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_steer_bytes: engine or ret_bytes is NULL");
  }
  struct stg_steer_decl decl;
  struct stg_steer_limits limits;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = stg_steer_decl_init(desc, engine->ops, &decl, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  status = stg_steer_limits(&decl, &limits, reterr);
  if (status == STG_OK) {
    *ret_bytes = limits.pool_bytes + limits.bank_row_bytes * decl.max_vectors + limits.counts_bytes;
  }
  stg_steer_decl_finish(&decl);
  return status;
}

struct stg_record_store stg_steer_store(stg_steer *steer) {
  return (struct stg_record_store){
      .decl = &steer->decl,
      .vectors = steer->engine->vectors,
      .bank = &steer->bank,
      .pool = stg_engine_is_cuda(steer->engine) ? &steer->pool : NULL,
      .chain_words = steer->chain_words,
  };
}

/* Device tables: the record pool, uploads, the words that the device writes. */
static stg_status create_device_side(stg_steer *steer, const struct stg_steer_limits *limits,
                                     stg_error *reterr) {
  struct stg_device *device = steer->engine->device;
  steer->chain_words = limits->chain_words;
  stg_status status = stg_pool_init(&steer->pool, limits->records, limits->record_bytes, reterr);
  if (status == STG_OK) {
    status = stg_device_alloc(device, limits->pool_bytes, &steer->records, reterr);
  }
  if (status == STG_OK) {
    status = stg_uploads_init(&steer->uploads, device, &steer->decl, limits, reterr);
  }
  void *words = NULL;
  if (status == STG_OK) {
    status = stg_pinned_alloc(device, sizeof *steer->words, &words, reterr);
  }
  if (status == STG_OK) {
    steer->words = words;
    *steer->words = (struct stg_device_words){0};
  }
  return status;
}

static void count_bytes(stg_steer *steer, const struct stg_steer_limits *limits) {
  if (stg_engine_is_cuda(steer->engine)) {
    steer->held = (struct stg_held_bytes){
        .table = limits->pool_bytes + limits->counts_bytes,
        .bank = steer->decl.max_vectors * limits->bank_row_bytes,
        .pinned = stg_staging_bytes(&steer->uploads.staging) + sizeof *steer->words,
    };
  }
  stg_usage_hold(&steer->engine->usage, &steer->held);
}

static void release_table(stg_steer *steer) {
  struct stg_device *device = steer->engine->device;
  stg_usage_let_go(&steer->engine->usage, &steer->held);
  struct stg_record_store store = stg_steer_store(steer);
  stg_frames_collect(steer, true);
  stg_pins_list_remove(steer->engine->pins, &steer->pins);
  stg_pins_finish(&steer->pins);
  for (uint32_t s = 0; steer->slots != NULL && s < steer->decl.max_slots; s++) {
    stg_record_unref(&store, steer->slots[s].record);
  }
  stg_uploads_finish(&steer->uploads, &store);
  stg_counters_finish(&steer->counters);
  stg_kernels_close(steer->kernels);
  stg_bank_finish(&steer->bank);
  stg_pool_finish(&steer->pool);
  if (device != NULL) {
    stg_pinned_free(device, steer->words);
    if (steer->records != 0) {
      stg_device_free(device, steer->records);
    }
  }
  stg_steer_decl_finish(&steer->decl);
  pthread_mutex_destroy(&steer->lock);
  pthread_mutex_destroy(&steer->once_lock);
  stg_free(steer->slots);
  stg_free(steer);
}

stg_status stg_steer_create(stg_engine *engine, const stg_steer_desc *desc, stg_steer **ret_steer,
                            stg_error *reterr) {
  if (engine == NULL || ret_steer == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_steer_create: engine or ret_steer is NULL");
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_steer *steer = stg_calloc(1, sizeof *steer);
  if (steer == NULL) {
    return stg_error_memory(reterr, "a steer table", sizeof *steer);
  }
  steer->engine = engine;
  pthread_mutex_init(&steer->lock, NULL);
  pthread_mutex_init(&steer->once_lock, NULL);
  stg_pins_init(&steer->pins, engine->device);
  stg_pins_list_add(engine->pins, &steer->pins);
  struct stg_steer_limits limits;
  status = stg_steer_decl_init(desc, engine->ops, &steer->decl, reterr);
  if (status == STG_OK) {
    status = stg_steer_limits(&steer->decl, &limits, reterr);
  }
  if (status == STG_OK) {
    steer->slots = stg_calloc(steer->decl.max_slots, sizeof *steer->slots);
    status = steer->slots != NULL
                 ? STG_OK
                 : stg_error_memory(reterr, "slots", steer->decl.max_slots * sizeof *steer->slots);
  }
  if (status == STG_OK) {
    status = stg_bank_init(&steer->bank, engine->vectors, engine->device, steer->decl.max_vectors,
                           limits.bank_row_bytes, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = create_device_side(steer, &limits, reterr);
  }
  if (status == STG_OK) {
    status = stg_counters_init(&steer->counters, &steer->decl, engine, reterr);
  }
  if (status == STG_OK) {
    status = stg_kernels_open(engine, &steer->decl.base, &steer->kernels, reterr);
  }
  if (status != STG_OK) {
    release_table(steer);
    return status;
  }
  atomic_fetch_add(&engine->alive[STG_OBJECT_STEER], 1);
  count_bytes(steer, &limits);
  *ret_steer = steer;
  return STG_OK;
}

stg_status stg_steer_destroy(stg_steer *steer, stg_error *reterr) {
  if (steer == NULL || stg_engine_check_process(steer->engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  pthread_mutex_lock(&steer->lock);
  bool busy =
      steer->frames != NULL && (steer->frames != steer->once || steer->frames->next != NULL);
  pthread_mutex_unlock(&steer->lock);
  if (busy) {
    return stg_error_set(reterr, STG_E_BUSY,
                         "stg_steer_destroy: a frame of the table is alive; destroy it first");
  }
  const unsigned blocks = atomic_load(&steer->blocks);
  if (blocks > 0) {
    return stg_error_set(reterr, STG_E_BUSY,
                         "stg_steer_destroy: %u blocks use the table; destroy them first", blocks);
  }
  const size_t graphs = stg_pins_wait(&steer->pins, GRAPHS_WAIT_MS);
  if (graphs > 0) {
    return stg_error_set(reterr, STG_E_BUSY,
                         "stg_steer_destroy: %zu host graphs that were captured with this table "
                         "are alive; destroy them first",
                         graphs);
  }
  stg_frame_destroy(steer->once);
  if (stg_engine_is_cuda(steer->engine)) {
    /* uploads of the engine's stream may still write into what is freed now */
    stg_status status =
        stg_stream_synchronize(steer->engine->device, steer->engine->stream, reterr);
    if (status != STG_OK && status != STG_E_DEVICE_LOST) {
      return status;
    }
  }
  atomic_fetch_sub(&steer->engine->alive[STG_OBJECT_STEER], 1);
  release_table(steer);
  return STG_OK;
}

stg_status stg_steer_check_slots(stg_steer *steer, stg_device_report *ret_report,
                                 stg_error *reterr) {
  const volatile struct stg_device_words *words = steer->words;
  const uint32_t rows =
      words != NULL ? words->bad_slot_rows - steer->reported.bad_slot_rows : 0; /* may wrap */
  if (rows == 0) {
    return STG_OK;
  }
  const int32_t slot = words->bad_slot;
  steer->reported.bad_slot_rows += rows;
  if (ret_report != NULL) {
    ret_report->bad_slot_rows = rows;
    ret_report->bad_slot = slot;
  }
  return stg_error_set(
      reterr, STG_E_BAD_SLOT,
      "a row map on the device held slot %d in one of %u rows; the table has slots 0..%u", slot,
      rows, steer->decl.max_slots - 1);
}

stg_status stg_device_status(stg_steer *steer, stg_stream stream, stg_device_report *ret_report,
                             stg_error *reterr) {
  if (steer == NULL || ret_report == NULL || ret_report->struct_size != sizeof *ret_report) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_device_status: steer is NULL, or struct_size is not %zu",
                         sizeof *ret_report);
  }
  *ret_report = (stg_device_report){.struct_size = sizeof *ret_report};
  if (!stg_engine_is_cuda(steer->engine)) {
    return STG_OK;
  }
  stg_status status = stg_stream_synchronize(steer->engine->device, stream, reterr);
  if (status != STG_OK) {
    return status;
  }
  pthread_mutex_lock(&steer->lock);
  status =
      stg_steer_check_slots(steer, ret_report, NULL); /* a report, not a failure of this call */
  const volatile struct stg_device_words *words = steer->words;
  ret_report->non_finite_rows = words->non_finite_rows - steer->reported.non_finite_rows;
  steer->reported.non_finite_rows += ret_report->non_finite_rows;
  pthread_mutex_unlock(&steer->lock);
  return status == STG_E_BAD_SLOT ? STG_OK : status;
}

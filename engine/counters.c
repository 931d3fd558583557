/*
 * counters.c: see counters.h.
 */
#include "engine/counters.h"

#include <string.h>

#include "engine/steer.h"
#include "runtime/base/alloc.h"
#include "runtime/device.h"

#define COUNT_WORDS (sizeof(struct stg_steer_counts) / sizeof(uint32_t))

static size_t words_of_slot(const struct stg_counters *counters) {
  return counters->layers * COUNT_WORDS;
}

static uint64_t address_of(const struct stg_counters *counters, uint32_t slot, uint32_t layer) {
  return counters->device_counts +
         ((uint64_t)slot * counters->layers + layer) * sizeof(struct stg_steer_counts);
}

stg_status stg_counters_init(struct stg_counters *counters, const struct stg_steer_decl *decl,
                             struct stg_engine *engine, stg_error *reterr) {
  if (!decl->counters) {
    return STG_OK;
  }
  const size_t count = (size_t)decl->max_slots * decl->layers;
  const size_t bytes = count * sizeof(struct stg_steer_counts);
  counters->device = engine->device;
  counters->slots = decl->max_slots;
  counters->layers = decl->layers;
  if (engine->device == NULL) {
    counters->counts = stg_calloc(count, sizeof *counters->counts);
    return counters->counts != NULL ? STG_OK : stg_error_memory(reterr, "counters", bytes);
  }
  counters->to_reset = stg_calloc(decl->max_slots, sizeof *counters->to_reset);
  if (counters->to_reset == NULL) {
    return stg_error_memory(reterr, "counters", decl->max_slots * sizeof *counters->to_reset);
  }
  stg_status status = stg_event_create(engine->device, false, &counters->reset, reterr);
  if (status == STG_OK) {
    status = stg_device_alloc(engine->device, bytes, &counters->device_counts, reterr);
  }
  if (status == STG_OK) {
    status = stg_fill_u32(engine->device, counters->device_counts, 0, count * COUNT_WORDS,
                          engine->stream, reterr);
  }
  return status == STG_OK ? stg_stream_synchronize(engine->device, engine->stream, reterr) : status;
}

void stg_counters_finish(struct stg_counters *counters) {
  if (counters->device_counts != 0) {
    stg_device_free(counters->device, counters->device_counts);
  }
  if (counters->reset != NULL) {
    stg_event_destroy(counters->device, counters->reset);
  }
  stg_free(counters->counts);
  stg_free(counters->to_reset);
  *counters = (struct stg_counters){0};
}

void stg_counters_reset(struct stg_counters *counters, uint32_t slot) {
  for (uint32_t layer = 0; counters->counts != NULL && layer < counters->layers; layer++) {
    counters->counts[(size_t)slot * counters->layers + layer] = (struct stg_steer_counts){0};
  }
  if (counters->to_reset != NULL && !counters->to_reset[slot]) {
    counters->to_reset[slot] = true;
    counters->n_to_reset++;
  }
}

stg_status stg_counters_wait(const struct stg_counters *counters, stg_stream_handle stream,
                             stg_error *reterr) {
  return counters->n_sent > 0 ? stg_event_wait(counters->device, counters->reset, stream, reterr)
                              : STG_OK;
}

/* Fill what is to be 0, neighbours together. */
static stg_status fill_runs(const struct stg_counters *counters, stg_stream_handle stream,
                            stg_error *reterr) {
  stg_status status = STG_OK;
  uint32_t run = 0;
  for (uint32_t slot = 0; slot < counters->slots && status == STG_OK; slot += run + 1) {
    run = 0;
    while (slot + run < counters->slots && counters->to_reset[slot + run]) {
      run++;
    }
    if (run > 0) {
      status = stg_fill_u32(counters->device, address_of(counters, slot, 0), 0,
                            run * words_of_slot(counters), stream, reterr);
    }
  }
  return status;
}

stg_status stg_counters_send_resets(struct stg_counters *counters, stg_stream_handle stream,
                                    uint64_t *seen, stg_error *reterr) {
  stg_status status =
      *seen != counters->n_sent ? stg_counters_wait(counters, stream, reterr) : STG_OK;
  if (status == STG_OK && counters->n_to_reset > 0) {
    status = fill_runs(counters, stream, reterr);
    if (status == STG_OK) {
      status = stg_event_record(counters->device, counters->reset, stream, reterr);
    }
    if (status == STG_OK) {
      memset(counters->to_reset, 0, counters->slots * sizeof *counters->to_reset);
      counters->n_to_reset = 0;
      counters->n_sent++;
    }
  }
  if (status == STG_OK) {
    *seen = counters->n_sent;
  }
  return status;
}

void stg_counters_add(struct stg_counters *counters, uint32_t slot, uint32_t layer,
                      const struct stg_steer_counts *counted) {
  struct stg_steer_counts *to = &counters->counts[(size_t)slot * counters->layers + layer];
  to->touched += counted->touched;
  to->changed += counted->changed;
  to->most = counted->most > to->most ? counted->most : to->most;
}

static stg_status check_call(const stg_steer *steer, uint32_t slot, uint32_t layer,
                             const stg_slot_counters *ret, stg_error *reterr) {
  if (steer == NULL || ret == NULL || ret->struct_size != sizeof *ret) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_counters: steer or ret_counters is NULL, or struct_size is not "
                         "%zu",
                         sizeof *ret);
  }
  stg_status status = stg_engine_check_process(steer->engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (!steer->decl.counters) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED,
                         "stg_steer_counters: the table declares no counters; set counters when it "
                         "is created");
  }
  if (slot >= steer->decl.max_slots) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "stg_steer_counters: slot %u is not below the declared %u", slot,
                         steer->decl.max_slots);
  }
  if (layer >= steer->decl.layers) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_counters: layer %u is not below the declared %u", layer,
                         steer->decl.layers);
  }
  return STG_OK;
}

/* What the device has of a slot, when `stream` has done its work and every reset is through. */
static stg_status fetch(stg_steer *steer, uint32_t slot, uint32_t layer, stg_stream stream,
                        struct stg_steer_counts *ret, stg_error *reterr) {
  struct stg_device *device = steer->engine->device;
  bool capturing = false;
  stg_status status = stg_stream_is_capturing(device, stream, &capturing, reterr);
  if (status == STG_OK && capturing) {
    status = stg_error_set(reterr, STG_E_CAPTURING,
                           "stg_steer_counters: the stream is capturing; ask after the capture");
  }
  if (status == STG_OK) {
    pthread_mutex_lock(&steer->lock);
    status = stg_counters_wait(&steer->counters, stream, reterr);
    pthread_mutex_unlock(&steer->lock);
  }
  if (status == STG_OK) {
    status = stg_copy_to_host(device, ret, address_of(&steer->counters, slot, layer), sizeof *ret,
                              stream, reterr);
  }
  return status == STG_OK ? stg_stream_synchronize(device, stream, reterr) : status;
}

stg_status stg_steer_counters(stg_steer *steer, uint32_t slot, uint32_t layer, stg_stream stream,
                              stg_slot_counters *ret_counters, stg_error *reterr) {
  stg_status status = check_call(steer, slot, layer, ret_counters, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_steer_counts counts = {0};
  const bool cuda = stg_engine_is_cuda(steer->engine);
  pthread_mutex_lock(&steer->lock);
  const bool is_anew = cuda && steer->counters.to_reset[slot];
  if (!cuda) {
    counts = steer->counters.counts[(size_t)slot * steer->decl.layers + layer];
  }
  pthread_mutex_unlock(&steer->lock);
  if (cuda && !is_anew) {
    status = fetch(steer, slot, layer, stream, &counts, reterr);
  }
  if (status == STG_OK) {
    *ret_counters = (stg_slot_counters){.struct_size = sizeof *ret_counters,
                                        .rows_touched = counts.touched,
                                        .rows_changed = counts.changed,
                                        .max_update = counts.most};
  }
  return status;
}

/*
 * hostmem.c: tensors and timing for programs that own no CUDA themselves.
 */
#include "engine/hostmem.h"

#include <string.h>
#include <time.h>

#include "engine/steer.h"
#include "runtime/base/alloc.h"

stg_status stg_mem_alloc(stg_engine *engine, size_t bytes, void **ret_memory, stg_error *reterr) {
  if (!stg_engine_is_cuda(engine)) {
    void *memory = stg_malloc_aligned(bytes);
    if (memory == NULL) {
      return stg_error_memory(reterr, "a tensor", bytes);
    }
    *ret_memory = memory;
    return STG_OK;
  }
  uint64_t address;
  stg_status status = stg_device_alloc(engine->device, bytes, &address, reterr);
  if (status == STG_OK) {
    *ret_memory = (void *)(uintptr_t)address;
  }
  return status;
}

void stg_mem_free(stg_engine *engine, void *memory) {
  if (!stg_engine_is_cuda(engine)) {
    stg_free(memory);
  } else if (memory != NULL) {
    stg_device_free(engine->device, (uint64_t)(uintptr_t)memory);
  }
}

stg_status stg_mem_upload(stg_engine *engine, void *to, const void *from, size_t bytes,
                          stg_error *reterr) {
  if (bytes == 0) {
    return STG_OK;
  }
  if (!stg_engine_is_cuda(engine)) {
    memcpy(to, from, bytes);
    return STG_OK;
  }
  stg_status status = stg_copy_to_device(engine->device, (uint64_t)(uintptr_t)to, from, bytes,
                                         engine->stream, reterr);
  return status == STG_OK ? stg_stream_synchronize(engine->device, engine->stream, reterr) : status;
}

stg_status stg_mem_download(stg_engine *engine, void *to, const void *from, size_t bytes,
                            stg_error *reterr) {
  if (bytes == 0) {
    return STG_OK;
  }
  if (!stg_engine_is_cuda(engine)) {
    memcpy(to, from, bytes);
    return STG_OK;
  }
  stg_status status = stg_copy_to_host(engine->device, to, (uint64_t)(uintptr_t)from, bytes,
                                       engine->stream, reterr);
  return status == STG_OK ? stg_stream_synchronize(engine->device, engine->stream, reterr) : status;
}

struct stg_device *stg_mem_device(stg_engine *engine) {
  return engine->device;
}

stg_stream stg_mem_stream(stg_engine *engine) {
  return engine->stream;
}

stg_status stg_mem_synchronize(stg_engine *engine, stg_error *reterr) {
  return stg_engine_is_cuda(engine) ? stg_stream_synchronize(engine->device, engine->stream, reterr)
                                    : STG_OK;
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static stg_status time_on_cpu(stg_frame *frame, const stg_apply *apply, uint32_t warmup,
                              uint32_t repeats, double *ret_us, stg_error *reterr) {
  for (uint32_t i = 0; i < warmup + repeats; i++) {
    double from = now_us();
    stg_status status = stg_steer_apply(frame, apply, NULL, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (i >= warmup) {
      ret_us[i - warmup] = now_us() - from;
    }
  }
  return STG_OK;
}

/* One apply between two events. */
static stg_status time_one(stg_frame *frame, const stg_apply *apply,
                           struct stg_event *const events[2], double *ret_us, stg_error *reterr) {
  struct stg_engine *engine = frame->steer->engine;
  stg_status status = stg_event_record(engine->device, events[0], engine->stream, reterr);
  if (status == STG_OK) {
    status = stg_steer_apply(frame, apply, engine->stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_event_record(engine->device, events[1], engine->stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_event_synchronize(engine->device, events[1], reterr);
  }
  return status == STG_OK
             ? stg_event_elapsed_us(engine->device, events[0], events[1], ret_us, reterr)
             : status;
}

static stg_status time_on_device(stg_frame *frame, const stg_apply *apply, uint32_t warmup,
                                 uint32_t repeats, double *ret_us, stg_error *reterr) {
  struct stg_device *device = frame->steer->engine->device;
  struct stg_event *events[2] = {NULL, NULL};
  stg_status status = stg_event_create(device, true, &events[0], reterr);
  if (status == STG_OK) {
    status = stg_event_create(device, true, &events[1], reterr);
  }
  for (uint32_t i = 0; status == STG_OK && i < warmup + repeats; i++) {
    double us;
    status = time_one(frame, apply, events, &us, reterr);
    if (status == STG_OK && i >= warmup) {
      ret_us[i - warmup] = us;
    }
  }
  stg_event_destroy(device, events[0]);
  stg_event_destroy(device, events[1]);
  return status;
}

stg_status stg_mem_time_applies(stg_frame *frame, const stg_apply *apply, uint32_t warmup,
                                uint32_t repeats, double *ret_us, stg_error *reterr) {
  return stg_engine_is_cuda(frame->steer->engine)
             ? time_on_device(frame, apply, warmup, repeats, ret_us, reterr)
             : time_on_cpu(frame, apply, warmup, repeats, ret_us, reterr);
}

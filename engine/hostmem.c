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

/* What is timed. */
struct timing {
  stg_engine *engine;
  stg_mem_work work;
  void *user;
};

/* On the CPU a call has done its work when it returns. */
static stg_status time_one_on_cpu(const struct timing *timing, double *ret_us, stg_error *reterr) {
  const double from = now_us();
  stg_status status = timing->work(timing->user, NULL, reterr);
  *ret_us = now_us() - from;
  return status;
}

/* Between two events. */
static stg_status time_one(const struct timing *timing, struct stg_event *const events[2],
                           double *ret_us, stg_error *reterr) {
  struct stg_engine *engine = timing->engine;
  stg_status status = stg_event_record(engine->device, events[0], engine->stream, reterr);
  if (status == STG_OK) {
    status = timing->work(timing->user, engine->stream, reterr);
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

stg_status stg_mem_time_work(stg_engine *engine, stg_mem_work work, void *user, uint32_t warmup,
                             uint32_t repeats, double *ret_us, stg_error *reterr) {
  const struct timing timing = {engine, work, user};
  const bool cuda = stg_engine_is_cuda(engine);
  struct stg_event *events[2] = {NULL, NULL};
  stg_status status = STG_OK;
  for (int i = 0; i < 2 && cuda && status == STG_OK; i++) {
    status = stg_event_create(engine->device, true, &events[i], reterr);
  }
  for (uint32_t i = 0; status == STG_OK && i < warmup + repeats; i++) {
    double us = 0;
    status = cuda ? time_one(&timing, events, &us, reterr) : time_one_on_cpu(&timing, &us, reterr);
    if (status == STG_OK && i >= warmup) {
      ret_us[i - warmup] = us;
    }
  }
  for (int i = 0; i < 2 && cuda; i++) {
    stg_event_destroy(engine->device, events[i]);
  }
  return status;
}

struct apply_work {
  stg_frame *frame;
  const stg_apply *apply;
};

static stg_status apply_once(void *user, stg_stream stream, stg_error *reterr) {
  const struct apply_work *work = user;
  return stg_steer_apply(work->frame, work->apply, stream, reterr);
}

stg_status stg_mem_time_applies(stg_frame *frame, const stg_apply *apply, uint32_t warmup,
                                uint32_t repeats, double *ret_us, stg_error *reterr) {
  struct apply_work work = {frame, apply};
  return stg_mem_time_work(frame->steer->engine, apply_once, &work, warmup, repeats, ret_us,
                           reterr);
}

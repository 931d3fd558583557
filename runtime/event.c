/*
 * event.c: events: order between streams, completion, elapsed time.
 *
 * Only an event that was made for timing can be asked for a time; the others are cheaper.
 */
#include <stddef.h>

#include "runtime/base/alloc.h"
#include "runtime/context.h"

struct stg_event {
  CUevent handle;
};

stg_status stg_event_create(struct stg_device *device, bool timing, struct stg_event **ret,
                            stg_error *reterr) {
  struct stg_event *event = stg_calloc(1, sizeof *event);
  if (event == NULL) {
    return stg_error_memory(reterr, "an event", sizeof *event);
  }
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status == STG_OK) {
    unsigned flags = timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    CUresult result = device->driver->event_create(&event->handle, flags);
    status = stg_scope_leave(&scope, result, "cuEventCreate", reterr);
  }
  if (status != STG_OK) {
    stg_free(event);
    return status;
  }
  *ret = event;
  return STG_OK;
}

void stg_event_destroy(struct stg_device *device, struct stg_event *event) {
  if (event == NULL) {
    return;
  }
  struct stg_scope scope;
  if (stg_scope_enter_relaxed(&scope, device, NULL) == STG_OK) {
    device->driver->event_destroy(event->handle);
    stg_scope_exit(&scope);
  }
  stg_free(event);
}

stg_status stg_event_record(struct stg_device *device, struct stg_event *event,
                            stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result = device->driver->event_record(event->handle, stream);
  return stg_scope_leave(&scope, result, "cuEventRecord", reterr);
}

stg_status stg_event_wait(struct stg_device *device, struct stg_event *event,
                          stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result = device->driver->stream_wait_event(stream, event->handle, CU_EVENT_WAIT_DEFAULT);
  return stg_scope_leave(&scope, result, "cuStreamWaitEvent", reterr);
}

stg_status stg_event_query(struct stg_device *device, struct stg_event *event, bool *ret_done,
                           stg_error *reterr) {
  struct stg_scope scope;
  if (stg_device_has_ended(device)) {
    *ret_done = true;
    return STG_OK;
  }
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result = device->driver->event_query(event->handle);
  bool done = result != CUDA_ERROR_NOT_READY;
  status = stg_scope_leave(&scope, done ? result : CUDA_SUCCESS, "cuEventQuery", reterr);
  if (status == STG_OK) {
    *ret_done = done;
  }
  return status;
}

stg_status stg_event_synchronize(struct stg_device *device, struct stg_event *event,
                                 stg_error *reterr) {
  struct stg_scope scope;
  if (stg_device_has_ended(device)) {
    return STG_OK;
  }
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result = device->driver->event_synchronize(event->handle);
  return stg_scope_leave(&scope, result, "cuEventSynchronize", reterr);
}

stg_status stg_event_elapsed_us(struct stg_device *device, struct stg_event *from,
                                struct stg_event *to, double *ret_us, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  float ms = 0.0f;
  CUresult result = device->driver->event_elapsed_time(&ms, from->handle, to->handle);
  status = stg_scope_leave(&scope, result, "cuEventElapsedTime", reterr);
  if (status == STG_OK) {
    *ret_us = 1000.0 * (double)ms;
  }
  return status;
}

/*
 * stream.c: streams of the engine's own, waiting for any stream, and whether one captures.
 */
#include <stddef.h>

#include "runtime/context.h"

stg_status stg_stream_create(struct stg_device *device, stg_stream_handle *ret_stream,
                             stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUstream stream = NULL;
  /* non-blocking: the legacy stream of the host must neither wait for us nor hold us up */
  CUresult result = device->driver->stream_create(&stream, CU_STREAM_NON_BLOCKING);
  status = stg_scope_leave(&scope, result, "cuStreamCreate", reterr);
  if (status == STG_OK) {
    *ret_stream = stream;
  }
  return status;
}

void stg_stream_destroy(struct stg_device *device, stg_stream_handle stream) {
  struct stg_scope scope;
  if (stream == NULL || stg_scope_enter_relaxed(&scope, device, NULL) != STG_OK) {
    return;
  }
  device->driver->stream_destroy(stream);
  stg_scope_exit(&scope);
}

stg_status stg_stream_synchronize(struct stg_device *device, stg_stream_handle stream,
                                  stg_error *reterr) {
  struct stg_scope scope;
  if (stg_device_has_ended(device)) {
    return STG_OK;
  }
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result = device->driver->stream_synchronize(stream);
  return stg_scope_leave(&scope, result, "cuStreamSynchronize", reterr);
}

stg_status stg_stream_is_capturing(struct stg_device *device, stg_stream_handle stream,
                                   bool *ret_capturing, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_device_check(device, reterr); /* steps and applies begin here */
  if (status == STG_OK) {
    status = stg_scope_enter(&scope, device, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = device->driver->stream_is_capturing(stream, &capture);
  status = stg_scope_leave(&scope, result, "cuStreamIsCapturing", reterr);
  if (status == STG_OK) {
    /* an invalidated capture is still one: nothing may be waited for until it is ended */
    *ret_capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  return status;
}

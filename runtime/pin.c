/*
 * pin.c: a pin is the user object of a graph whose destructor lowers a flag.
 *
 * The destructor runs on a thread of the driver's, which may hold locks of the driver: it makes no
 * call, takes no lock and frees nothing.
 */
#include "runtime/pin.h"

#include <stddef.h>

#include "runtime/context.h"

static void CUDA_CB lower(void *user) {
  struct stg_pin *pin = user;
  atomic_store_explicit(&pin->held, false, memory_order_release);
}

stg_status stg_capture_info(struct stg_device *device, stg_stream_handle stream,
                            struct stg_capture *ret_capture, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = NULL;
  /* without the dependencies: this version of the call cannot say them of launches that begin
   * early, and then fails */
  CUresult result =
      device->driver->stream_get_capture_info(stream, &capturing, &id, &graph, NULL, NULL);
  status = stg_scope_leave(&scope, result, "cuStreamGetCaptureInfo", reterr);
  if (status == STG_OK) {
    const bool active = capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    *ret_capture =
        (struct stg_capture){.id = active ? id : STG_NO_CAPTURE, .graph = active ? graph : NULL};
  }
  return status;
}

/* In the context. The reference that creates the object moves to the graph. */
static CUresult retain(const struct stg_driver *driver, CUgraph graph, struct stg_pin *pin,
                       const char **ret_call) {
  CUuserObject object = NULL;
  *ret_call = "cuUserObjectCreate";
  CUresult result =
      driver->user_object_create(&object, pin, lower, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    lower(pin);
    return result;
  }
  *ret_call = "cuGraphRetainUserObject";
  result = driver->graph_retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result != CUDA_SUCCESS) {
    driver->user_object_release(object, 1);
  }
  return result;
}

stg_status stg_pin_retain(struct stg_device *device, const struct stg_capture *capture,
                          struct stg_pin *pin, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  const char *call = NULL;
  atomic_store_explicit(&pin->held, true, memory_order_relaxed);
  CUresult result = retain(device->driver, capture->graph, pin, &call);
  return stg_scope_leave(&scope, result, call, reterr);
}

bool stg_pins_are_over(struct stg_device *device) {
  return stg_device_check(device, NULL) != STG_OK || stg_device_has_ended(device);
}

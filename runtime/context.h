/*
 * context.h: the private side of device.h and launch.h: what an open device is, and how a call
 * enters its context, leaves it, and turns a CUresult into a status.
 *
 * Every call has the same shape:
 *   struct stg_scope scope;
 *   stg_status status = stg_scope_enter(&scope, device, reterr);
 *   if (status != STG_OK) return status;
 *   CUresult result = device->driver->...;
 *   return stg_scope_leave(&scope, result, "cuName", reterr);
 * The calling thread's context and capture mode are after the call what they were before it.
 */
#ifndef STG_RUNTIME_CONTEXT_H
#define STG_RUNTIME_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/device.h"
#include "runtime/driver.h"

struct stg_device {
  const struct stg_driver *driver;
  CUdevice handle;
  CUcontext context;
  unsigned long long context_id; /* another one: the context was reset, and made again */
  unsigned forks;   /* the driver's count when it was opened: another one means a child */
  atomic_int lost;  /* the sticky CUresult seen, 0 while the context is sound */
  int shared_optin; /* bytes of shared memory that a block may ask for */
  struct stg_device_info info;
};

/* A loaded cubin and one kernel of it (launch.h). */
struct stg_module {
  CUmodule module;
  CUfunction function;
};

/* One call's stay in a device's context. */
struct stg_scope {
  struct stg_device *device;
  bool pushed;
  bool relaxed;
  CUstreamCaptureMode mode; /* of the thread before, when relaxed */
};

static inline bool stg_device_is_usable(const struct stg_device *device) {
  return atomic_load_explicit(&device->lost, memory_order_relaxed) == 0 &&
         atomic_load_explicit(&device->driver->forks, memory_order_relaxed) == device->forks;
}

/**
 * STG_E_DEVICE_LOST, and the device is marked so, when the primary context was reset under it: what
 * it held is gone, and a context that was made again since looks the same. For a usable device.
 */
STG_NODISCARD stg_status stg_context_check(struct stg_device *device, stg_error *reterr);
/** The part of entering that a thread already in the context never needs. */
STG_NODISCARD stg_status stg_scope_push(struct stg_scope *scope, stg_error *reterr);
/** True once the driver has shut down at process exit: whatever was waited for is over. */
bool stg_device_has_ended(const struct stg_device *device);
/** Fill `reterr` from a result that is not success; marks the device lost on a sticky error. */
stg_status stg_device_fail(struct stg_device *device, CUresult result, const char *call,
                           stg_error *reterr);

/**
 * Enter for work that is legal during a capture. Does not ask whether the context was reset: what a
 * step, an apply or an allocation does first has asked. STG_E_DEVICE_LOST, STG_E_FORKED,
 * STG_E_CUDA.
 */
STG_NODISCARD static inline stg_status
stg_scope_enter(struct stg_scope *scope, struct stg_device *device, stg_error *reterr) {
  *scope = (struct stg_scope){.device = device};
  if (!stg_device_is_usable(device)) {
    return stg_device_check(device, reterr);
  }
  CUcontext current = NULL;
  if (device->driver->ctx_get_current(&current) == CUDA_SUCCESS && current == device->context) {
    return STG_OK;
  }
  return stg_scope_push(scope, reterr);
}

/**
 * Enter for work that would break a capture of another stream: allocation, loading, waiting. The
 * thread's capture mode is RELAXED until it leaves.
 */
STG_NODISCARD stg_status stg_scope_enter_relaxed(struct stg_scope *scope, struct stg_device *device,
                                                 stg_error *reterr);

/** Put the thread's capture mode and context back. */
void stg_scope_exit(struct stg_scope *scope);

/** Exit, and turn the result of `call` into a status. */
STG_NODISCARD static inline stg_status stg_scope_leave(struct stg_scope *scope, CUresult result,
                                                       const char *call, stg_error *reterr) {
  if (scope->pushed || scope->relaxed) {
    stg_scope_exit(scope);
  }
  return result == CUDA_SUCCESS ? STG_OK : stg_device_fail(scope->device, result, call, reterr);
}

#endif

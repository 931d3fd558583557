/*
 * context.c: entering and leaving a device's context, and what each CUresult means for us.
 *
 * Knows which errors are sticky. Makes no call for a device that is lost or of another process.
 */
#include "runtime/context.h"

#include <stddef.h>

/* After one of these every later call in the context fails, whatever it does. */
static const int sticky_results[] = {
    214, /* ECC_UNCORRECTABLE */
    220, /* NVLINK_UNCORRECTABLE */
    226, /* CONTAINED */
    700, /* ILLEGAL_ADDRESS */
    702, /* LAUNCH_TIMEOUT */
    709, /* CONTEXT_IS_DESTROYED */
    710, /* ASSERT */
    714, /* HARDWARE_STACK_ERROR */
    715, /* ILLEGAL_INSTRUCTION */
    716, /* MISALIGNED_ADDRESS */
    717, /* INVALID_ADDRESS_SPACE */
    718, /* INVALID_PC */
    719, /* LAUNCH_FAILED */
    721, /* TENSOR_MEMORY_LEAK */
    810, /* MPS_CLIENT_TERMINATED */
    911, /* EXTERNAL_DEVICE */
};

static bool is_sticky(CUresult result) {
  for (size_t i = 0; i < sizeof sticky_results / sizeof sticky_results[0]; i++) {
    if (sticky_results[i] == (int)result) {
      return true;
    }
  }
  return false;
}

/* Of a context that is gone, unlike one that is broken, there can be a new one. */
static stg_status reset_error(const struct stg_device *device, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_DEVICE_LOST,
                       "the primary context of device %d was reset, and with it went all that this "
                       "engine held there: destroy the engine and create a new one",
                       device->info.ordinal);
}

static stg_status lost_error(const struct stg_device *device, CUresult why, stg_error *reterr) {
  if (why == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    return reset_error(device, reterr);
  }
  return stg_error_set(reterr, STG_E_DEVICE_LOST,
                       "device %d is lost since %s (%s): its context is unusable, restart the "
                       "process",
                       device->info.ordinal, stg_driver_error_name(device->driver, why),
                       stg_driver_error_text(device->driver, why));
}

bool stg_device_is_forked(const struct stg_device *device) {
  return atomic_load_explicit(&device->driver->forks, memory_order_relaxed) != device->forks;
}

stg_status stg_context_check(struct stg_device *device, stg_error *reterr) {
  unsigned long long id = 0;
  const CUresult result = device->driver->ctx_get_id(device->context, &id);
  /* a driver that has shut down leaves it to the call that follows */
  if (result == CUDA_ERROR_DEINITIALIZED || (result == CUDA_SUCCESS && id == device->context_id)) {
    return STG_OK;
  }
  if (is_sticky(result) && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    return stg_device_fail(device, result, "cuCtxGetId", reterr); /* broken, not gone */
  }
  int sound = 0;
  atomic_compare_exchange_strong(&device->lost, &sound, (int)CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return reset_error(device, reterr);
}

stg_status stg_device_check(struct stg_device *device, stg_error *reterr) {
  if (stg_device_is_forked(device)) {
    return stg_error_set(reterr, STG_E_FORKED,
                         "device %d was opened by the parent process; CUDA does not survive fork: "
                         "open it in the child, and fork before any CUDA call",
                         device->info.ordinal);
  }
  int lost = atomic_load(&device->lost);
  return lost == 0 ? stg_context_check(device, reterr) : lost_error(device, (CUresult)lost, reterr);
}

bool stg_device_has_ended(const struct stg_device *device) {
  CUcontext current = NULL;
  return stg_device_is_usable(device) &&
         device->driver->ctx_get_current(&current) == CUDA_ERROR_DEINITIALIZED;
}

stg_status stg_device_fail(struct stg_device *device, CUresult result, const char *call,
                           stg_error *reterr) {
  const char *name = stg_driver_error_name(device->driver, result);
  const char *text = stg_driver_error_text(device->driver, result);
  if (is_sticky(result)) {
    int sound = 0;
    atomic_compare_exchange_strong(&device->lost, &sound, (int)result);
    return stg_error_set(
        reterr, STG_E_DEVICE_LOST, "%s failed: %s (%s): the context of device %d is unusable, %s",
        call, name, text, device->info.ordinal,
        result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? "destroy the engine and create a new one"
                                                  : "restart the process");
  }
  stg_status status = STG_E_CUDA;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    status = STG_E_NO_MEMORY;
  } else if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
             result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    status = STG_E_CAPTURING;
  }
  return stg_error_set(reterr, status, "%s failed: %s (%s)", call, name, text);
}

stg_status stg_scope_push(struct stg_scope *scope, stg_error *reterr) {
  struct stg_device *device = scope->device;
  CUresult result = device->driver->ctx_push_current(device->context);
  if (result != CUDA_SUCCESS) {
    return stg_device_fail(device, result, "cuCtxPushCurrent", reterr);
  }
  scope->pushed = true;
  return STG_OK;
}

stg_status stg_scope_enter_relaxed(struct stg_scope *scope, struct stg_device *device,
                                   stg_error *reterr) {
  stg_status status = stg_device_is_usable(device) ? stg_context_check(device, reterr) : STG_OK;
  if (status == STG_OK) {
    status = stg_scope_enter(scope, device, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUresult result = device->driver->exchange_capture_mode(&scope->mode);
  scope->relaxed = result == CUDA_SUCCESS;
  return scope->relaxed
             ? STG_OK
             : stg_scope_leave(scope, result, "cuThreadExchangeStreamCaptureMode", reterr);
}

void stg_scope_exit(struct stg_scope *scope) {
  const struct stg_driver *driver = scope->device->driver;
  if (scope->relaxed) {
    driver->exchange_capture_mode(&scope->mode);
  }
  if (scope->pushed) {
    CUcontext popped = NULL;
    driver->ctx_pop_current(&popped);
  }
}

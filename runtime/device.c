/*
 * device.c: count devices, open one with its primary context, and what it says of itself.
 *
 * Knows nothing of memory, streams or kernels.
 */
#include "runtime/device.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/interrupt.h"
#include "runtime/context.h"

#define DEVICE_MIN_SM 80

/* The driver, started, in the process that started it. */
static stg_status started_driver(const struct stg_driver **ret_driver, stg_error *reterr) {
  const struct stg_driver *driver = NULL;
  stg_status status = stg_driver_get(&driver, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (atomic_load(&driver->forks) != 0) {
    stg_error_set(reterr, STG_E_FORKED,
                  "CUDA was started by the parent process and does not survive fork: fork "
                  "before any CUDA call, or start the child with exec");
    return STG_E_FORKED;
  }
  *ret_driver = driver;
  return STG_OK;
}

static stg_status no_device_error(const struct stg_driver *driver, CUresult result,
                                  const char *call, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_NO_DEVICE,
                       "no CUDA device: %s of driver %d.%d answered %s (%s); check nvidia-smi and "
                       "CUDA_VISIBLE_DEVICES",
                       call, driver->version / 1000, driver->version % 1000 / 10,
                       stg_driver_error_name(driver, result),
                       stg_driver_error_text(driver, result));
}

static stg_status count_devices(const struct stg_driver *driver, int *ret_count,
                                stg_error *reterr) {
  int count = 0;
  if (driver->started != CUDA_SUCCESS && driver->started != CUDA_ERROR_NO_DEVICE) {
    return no_device_error(driver, driver->started, "cuInit", reterr);
  }
  if (driver->started == CUDA_SUCCESS) {
    CUresult result = driver->device_get_count(&count);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NO_DEVICE) {
      return no_device_error(driver, result, "cuDeviceGetCount", reterr);
    }
  }
  *ret_count = count;
  return STG_OK;
}

stg_status stg_device_count(int *ret_count, int *ret_driver_version, stg_error *reterr) {
  const struct stg_driver *driver = NULL;
  stg_status status = started_driver(&driver, reterr);
  if (status == STG_OK) {
    status = count_devices(driver, ret_count, reterr);
  }
  if (status == STG_OK) {
    *ret_driver_version = driver->version;
  }
  return status;
}

/* Ask one attribute after another; the first failure wins and names its call. */
struct attribute_query {
  CUdevice_attribute attribute;
  int *ret_value;
};

static CUresult read_identity(struct stg_device *device, const char **ret_call) {
  const struct stg_driver *driver = device->driver;
  struct stg_device_info *info = &device->info;
  *ret_call = "cuDeviceGetName";
  CUresult result = driver->device_get_name(info->name, (int)sizeof info->name, device->handle);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  CUuuid uuid;
  *ret_call = "cuDeviceGetUuid";
  result = driver->device_get_uuid(&uuid, device->handle);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  for (size_t i = 0; i < sizeof uuid.bytes; i++) {
    snprintf(info->uuid_hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)uuid.bytes[i]);
  }
  size_t bytes = 0;
  *ret_call = "cuDeviceTotalMem";
  result = driver->device_total_mem(&bytes, device->handle);
  info->memory_bytes = bytes;
  return result;
}

static stg_status read_info(struct stg_device *device, stg_error *reterr) {
  struct stg_device_info *info = &device->info;
  const char *call = NULL;
  CUresult result = read_identity(device, &call);
  int major = 0;
  int minor = 0;
  int l2_bytes = 0;
  const struct attribute_query queries[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->multiprocessors},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device->shared_optin},
  };
  for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof queries / sizeof queries[0]; i++) {
    call = "cuDeviceGetAttribute";
    result = device->driver->device_get_attribute(queries[i].ret_value, queries[i].attribute,
                                                  device->handle);
  }
  if (result != CUDA_SUCCESS) {
    return stg_device_fail(device, result, call, reterr);
  }
  info->sm = 10 * major + minor;
  snprintf(info->arch, sizeof info->arch, "sm_%d", info->sm);
  info->l2_bytes = (uint64_t)l2_bytes;
  info->driver_version = device->driver->version;
  if (info->sm < DEVICE_MIN_SM) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "device %d, %s, is sm_%d; sm_%d or later is needed", info->ordinal,
                         info->name, info->sm, DEVICE_MIN_SM);
  }
  return STG_OK;
}

/* Check the ordinal and take the device's handle. */
static stg_status get_handle(struct stg_device *device, stg_error *reterr) {
  int ordinal = device->info.ordinal;
  int count = 0;
  stg_status status = count_devices(device->driver, &count, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (count == 0) {
    return no_device_error(device->driver, CUDA_ERROR_NO_DEVICE, "cuInit", reterr);
  }
  if (ordinal < 0 || ordinal >= count) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "device %d does not exist: the driver sees %d, numbered from 0", ordinal,
                         count);
  }
  CUresult result = device->driver->device_get(&device->handle, ordinal);
  return result == CUDA_SUCCESS ? STG_OK : stg_device_fail(device, result, "cuDeviceGet", reterr);
}

stg_status stg_device_open(int ordinal, struct stg_device **ret_device, stg_error *reterr) {
  const struct stg_driver *driver = NULL;
  stg_status status = started_driver(&driver, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_device *device = stg_calloc(1, sizeof *device);
  if (device == NULL) {
    return stg_error_memory(reterr, "a device", sizeof *device);
  }
  device->driver = driver;
  device->forks = atomic_load(&driver->forks);
  device->info.ordinal = ordinal;
  status = get_handle(device, reterr);
  if (status == STG_OK) {
    status = read_info(device, reterr);
  }
  if (status == STG_OK) {
    /* the driver starts threads: a signal for the host must not go to one of them */
    struct stg_interrupt_hold hold;
    stg_interrupt_hold(&hold);
    CUresult result = driver->primary_ctx_retain(&device->context, device->handle);
    stg_interrupt_release(&hold);
    if (result != CUDA_SUCCESS) {
      status = stg_device_fail(device, result, "cuDevicePrimaryCtxRetain", reterr);
    }
  }
  if (status == STG_OK) {
    const CUresult result = device->driver->ctx_get_id(device->context, &device->context_id);
    if (result != CUDA_SUCCESS) {
      device->driver->primary_ctx_release(device->handle);
      status = stg_device_fail(device, result, "cuCtxGetId", reterr);
    }
  }
  if (status != STG_OK) {
    stg_free(device);
    return status;
  }
  *ret_device = device;
  return STG_OK;
}

void stg_device_close(struct stg_device *device) {
  if (device == NULL) {
    return;
  }
  /* a broken context is released too; one that was reset took what we held with it, and a new one
   * is others'; in a forked child the parent's is not ours to touch */
  stg_status checked = stg_device_check(device, NULL);
  (void)checked; /* a context that is gone is marked so */
  if (!stg_device_is_forked(device) &&
      atomic_load(&device->lost) != (int)CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    device->driver->primary_ctx_release(device->handle);
  }
  stg_free(device);
}

const struct stg_device_info *stg_device_get_info(const struct stg_device *device) {
  return &device->info;
}

stg_status stg_device_hold(struct stg_device *device, stg_error *reterr) {
  stg_status status = stg_device_check(device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result = device->driver->ctx_push_current(device->context);
  return result == CUDA_SUCCESS ? STG_OK
                                : stg_device_fail(device, result, "cuCtxPushCurrent", reterr);
}

void stg_device_let_go(struct stg_device *device) {
  CUcontext popped = NULL;
  if (stg_device_check(device, NULL) == STG_OK) {
    device->driver->ctx_pop_current(&popped);
  }
}

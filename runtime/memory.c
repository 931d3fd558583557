/*
 * memory.c: device memory, page-locked host memory, and copies between them.
 *
 * Allocation is legal while another stream captures; copies are stream work and capturable.
 */
#include <stddef.h>

#include "runtime/context.h"

stg_status stg_device_alloc(struct stg_device *device, size_t bytes, uint64_t *ret_address,
                            stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUdeviceptr address = 0;
  CUresult result = device->driver->mem_alloc(&address, bytes == 0 ? 1 : bytes);
  status = stg_scope_leave(&scope, result, "cuMemAlloc", reterr);
  if (status == STG_E_NO_MEMORY) {
    return stg_error_set(reterr, status, "device %d has no room for %zu bytes (cuMemAlloc)",
                         device->info.ordinal, bytes);
  }
  if (status == STG_OK) {
    *ret_address = address;
  }
  return status;
}

void stg_device_free(struct stg_device *device, uint64_t address) {
  struct stg_scope scope;
  if (address == 0 || stg_scope_enter_relaxed(&scope, device, NULL) != STG_OK) {
    return;
  }
  device->driver->mem_free(address);
  stg_scope_exit(&scope);
}

stg_status stg_pinned_alloc(struct stg_device *device, size_t bytes, void **ret_host,
                            stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  void *host = NULL;
  CUresult result =
      device->driver->mem_host_alloc(&host, bytes == 0 ? 1 : bytes, CU_MEMHOSTALLOC_PORTABLE);
  status = stg_scope_leave(&scope, result, "cuMemHostAlloc", reterr);
  if (status == STG_E_NO_MEMORY) {
    return stg_error_set(reterr, status,
                         "no room for %zu bytes of page-locked host memory "
                         "(cuMemHostAlloc); check ulimit -l",
                         bytes);
  }
  if (status == STG_OK) {
    *ret_host = host;
  }
  return status;
}

void stg_pinned_free(struct stg_device *device, void *host) {
  struct stg_scope scope;
  if (host == NULL || stg_scope_enter_relaxed(&scope, device, NULL) != STG_OK) {
    return;
  }
  device->driver->mem_free_host(host);
  stg_scope_exit(&scope);
}

stg_status stg_copy_to_device(struct stg_device *device, uint64_t to, const void *from,
                              size_t bytes, stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result =
      bytes == 0 ? CUDA_SUCCESS : device->driver->memcpy_htod_async(to, from, bytes, stream);
  return stg_scope_leave(&scope, result, "cuMemcpyHtoDAsync", reterr);
}

stg_status stg_copy_to_host(struct stg_device *device, void *to, uint64_t from, size_t bytes,
                            stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result =
      bytes == 0 ? CUDA_SUCCESS : device->driver->memcpy_dtoh_async(to, from, bytes, stream);
  return stg_scope_leave(&scope, result, "cuMemcpyDtoHAsync", reterr);
}

stg_status stg_copy_on_device(struct stg_device *device, uint64_t to, uint64_t from, size_t bytes,
                              stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result =
      bytes == 0 ? CUDA_SUCCESS : device->driver->memcpy_dtod_async(to, from, bytes, stream);
  return stg_scope_leave(&scope, result, "cuMemcpyDtoDAsync", reterr);
}

stg_status stg_fill_u32(struct stg_device *device, uint64_t to, uint32_t word, size_t count,
                        stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result =
      count == 0 ? CUDA_SUCCESS : device->driver->memset_d32_async(to, word, count, stream);
  return stg_scope_leave(&scope, result, "cuMemsetD32Async", reterr);
}

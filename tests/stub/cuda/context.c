/*
 * context.c: the stub's one device, its primary context, and what a thread has: contexts that it
 * pushed and a capture mode.
 */
#include "tests/stub/cuda/stub.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MAX_PUSHED 16
#define SHARED_OPTIN_BYTES 232448

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct primary {
  unsigned references;
  unsigned long long id;
} primary = {.id = 1};

static _Thread_local CUcontext pushed[MAX_PUSHED];
static _Thread_local size_t n_pushed;
static _Thread_local CUstreamCaptureMode mode;

static CUcontext handle(void) {
  return (CUcontext)(void *)&primary;
}

size_t stub_context_references(void) {
  pthread_mutex_lock(&lock);
  const size_t references = primary.references;
  pthread_mutex_unlock(&lock);
  return references;
}

void stub_context_reset(void) {
  pthread_mutex_lock(&lock);
  primary.references = 0;
  primary.id++;
  pthread_mutex_unlock(&lock);
  n_pushed = 0;
  mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool stub_cuda_is_balanced(void) {
  return n_pushed == 0 && mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUstreamCaptureMode *stub_thread_mode(void) {
  return &mode;
}

CUresult stub_enter_context(const char *call) {
  const CUresult result = stub_enter(call);
  if (result == CUDA_SUCCESS && (n_pushed == 0 || stub_context_references() == 0)) {
    return stub_misuse(call, "no context is current", CUDA_ERROR_INVALID_CONTEXT);
  }
  return result;
}

CUresult CUDAAPI stub_device_get_count(int *ret_count) {
  const CUresult result = stub_enter("cuDeviceGetCount");
  *ret_count = result == CUDA_SUCCESS ? 1 : 0;
  return result;
}

CUresult CUDAAPI stub_device_get(CUdevice *ret_device, int ordinal) {
  const CUresult result = stub_enter("cuDeviceGet");
  *ret_device = 0;
  return result != CUDA_SUCCESS ? result : ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI stub_device_get_name(char *ret_name, int size, CUdevice device) {
  const CUresult result = stub_enter("cuDeviceGetName");
  (void)device;
  if (result == CUDA_SUCCESS) {
    snprintf(ret_name, (size_t)size, "stub of a GPU");
  }
  return result;
}

CUresult CUDAAPI stub_device_get_uuid(CUuuid *ret_uuid, CUdevice device) {
  const CUresult result = stub_enter("cuDeviceGetUuid");
  (void)device;
  memset(ret_uuid, 0x5b, sizeof *ret_uuid);
  return result;
}

CUresult CUDAAPI stub_device_get_attribute(int *ret_value, CUdevice_attribute attribute,
                                           CUdevice device) {
  static const struct {
    CUdevice_attribute attribute;
    int value;
  } known[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, SHARED_OPTIN_BYTES},
  };
  const CUresult result = stub_enter("cuDeviceGetAttribute");
  (void)device;
  *ret_value = 0;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    *ret_value = known[i].attribute == attribute ? known[i].value : *ret_value;
  }
  return result;
}

CUresult CUDAAPI stub_device_total_mem(size_t *ret_bytes, CUdevice device) {
  const CUresult result = stub_enter("cuDeviceTotalMem");
  (void)device;
  *ret_bytes = (size_t)1 << 30;
  return result;
}

CUresult CUDAAPI stub_primary_ctx_retain(CUcontext *ret_context, CUdevice device) {
  const CUresult result = stub_enter("cuDevicePrimaryCtxRetain");
  (void)device;
  if (result == CUDA_SUCCESS) {
    pthread_mutex_lock(&lock);
    primary.references++;
    pthread_mutex_unlock(&lock);
    *ret_context = handle();
  }
  return result;
}

/* The last reference takes the context, and what is in it: to be seen by stub_cuda_live, it stays.
 */
CUresult CUDAAPI stub_primary_ctx_release(CUdevice device) {
  const CUresult result = stub_enter("cuDevicePrimaryCtxRelease");
  (void)device;
  if (stub_context_references() == 0) {
    return stub_misuse("cuDevicePrimaryCtxRelease", "nobody holds it", CUDA_ERROR_INVALID_CONTEXT);
  }
  pthread_mutex_lock(&lock);
  primary.references--;
  primary.id += primary.references == 0;
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult CUDAAPI stub_ctx_get_current(CUcontext *ret_context) {
  const CUresult result = stub_enter("cuCtxGetCurrent");
  *ret_context = result == CUDA_SUCCESS && n_pushed > 0 ? pushed[n_pushed - 1] : NULL;
  return result;
}

CUresult CUDAAPI stub_ctx_get_id(CUcontext context, unsigned long long *ret_id) {
  const CUresult result = stub_enter("cuCtxGetId");
  if (result != CUDA_SUCCESS) {
    return result;
  }
  pthread_mutex_lock(&lock);
  const bool lives = context == handle() && primary.references > 0;
  *ret_id = primary.id;
  pthread_mutex_unlock(&lock);
  return lives ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult CUDAAPI stub_ctx_push_current(CUcontext context) {
  const CUresult result = stub_enter("cuCtxPushCurrent");
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (context != handle() || n_pushed == MAX_PUSHED) {
    return stub_misuse("cuCtxPushCurrent", "no context, or too many", CUDA_ERROR_INVALID_CONTEXT);
  }
  pushed[n_pushed++] = context;
  return CUDA_SUCCESS;
}

/* One that fails leaves the context current: what is done then is still checked. */
CUresult CUDAAPI stub_ctx_pop_current(CUcontext *ret_context) {
  const CUresult result = stub_enter("cuCtxPopCurrent");
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (n_pushed == 0) {
    return stub_misuse("cuCtxPopCurrent", "none was pushed", CUDA_ERROR_INVALID_CONTEXT);
  }
  *ret_context = pushed[--n_pushed];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_exchange_capture_mode(CUstreamCaptureMode *exchanged) {
  const CUresult result = stub_enter("cuThreadExchangeStreamCaptureMode");
  if (result == CUDA_SUCCESS) {
    const CUstreamCaptureMode before = mode;
    mode = *exchanged;
    *exchanged = before;
  }
  return result;
}

/*
 * memory.c: the stub's memory, copies, streams and events. All work is done when it is asked for,
 * so an event has always passed; a stream that captures takes launches alone.
 */
#include "tests/stub/cuda/stub.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256

/* Who looks for memory by its address sees no half of one, and none that goes meanwhile. */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static void finish_memory(struct stub_object *object) {
  free(((struct stub_memory *)(void *)object)->data);
}

/* What nobody wrote reads as NaN. */
static struct stub_memory *make_memory(enum stub_kind kind, size_t bytes) {
  struct stub_memory *memory = stub_new(kind, sizeof *memory);
  if (memory == NULL) {
    return NULL;
  }
  memory->object.finish = finish_memory;
  memory->bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  memory->data = aligned_alloc(ALIGNMENT, memory->bytes);
  if (memory->data == NULL) {
    stub_free(memory);
    return NULL;
  }
  memset(memory->data, 0xff, memory->bytes);
  return memory;
}

static struct stub_memory *new_memory(enum stub_kind kind, size_t bytes) {
  pthread_mutex_lock(&memory_lock);
  struct stub_memory *memory = make_memory(kind, bytes);
  pthread_mutex_unlock(&memory_lock);
  return memory;
}

static struct stub_memory *memory_at(enum stub_kind kind, const void *address) {
  struct stub_memory *memory = stub_next(kind, NULL);
  while (memory != NULL && memory->data != address) {
    memory = stub_next(kind, memory);
  }
  return memory;
}

static CUresult release_found(const char *call, enum stub_kind kind, const void *address) {
  struct stub_memory *memory = memory_at(kind, address);
  if (memory == NULL) {
    return stub_misuse(call, "memory that was not allocated", CUDA_ERROR_INVALID_VALUE);
  }
  const CUresult result = stub_enter_destroy(call, memory, kind);
  if (result == CUDA_SUCCESS) {
    stub_free(memory);
  }
  return result;
}

static CUresult release_memory(const char *call, enum stub_kind kind, const void *address) {
  pthread_mutex_lock(&memory_lock);
  const CUresult result = release_found(call, kind, address);
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult CUDAAPI stub_mem_alloc(CUdeviceptr *ret_address, size_t bytes) {
  const CUresult result = stub_enter_unsafe("cuMemAlloc");
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const struct stub_memory *memory = new_memory(STUB_MEMORY, bytes);
  if (memory == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *ret_address = (CUdeviceptr)(uintptr_t)memory->data;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_mem_free(CUdeviceptr address) {
  return release_memory("cuMemFree", STUB_MEMORY, (const void *)(uintptr_t)address);
}

CUresult CUDAAPI stub_mem_host_alloc(void **ret_host, size_t bytes, unsigned flags) {
  const CUresult result = stub_enter_unsafe("cuMemHostAlloc");
  (void)flags;
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const struct stub_memory *memory = new_memory(STUB_HOST_MEMORY, bytes);
  if (memory == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *ret_host = memory->data;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_mem_free_host(void *host) {
  return release_memory("cuMemFreeHost", STUB_HOST_MEMORY, host);
}

static CUresult copy(const char *call, void *to, const void *from, size_t bytes, CUstream stream) {
  CUresult result = stub_enter_context(call);
  struct stub_stream *recorded = NULL;
  if (result == CUDA_SUCCESS && stub_stream_of(call, stream, &recorded) &&
      stub_graph_recorded(recorded) != NULL) {
    const struct stub_launch node = {.to = to, .from = from, .bytes = bytes};
    return stub_graph_append(stub_graph_recorded(recorded), &node, NULL);
  }
  if (result == CUDA_SUCCESS) {
    result = stub_stream_takes_work(call, stream);
  }
  if (result == CUDA_SUCCESS) {
    memcpy(to, from, bytes);
  }
  return result;
}

CUresult CUDAAPI stub_memcpy_htod_async(CUdeviceptr to, const void *from, size_t bytes,
                                        CUstream stream) {
  return copy("cuMemcpyHtoDAsync", (void *)(uintptr_t)to, from, bytes, stream);
}

CUresult CUDAAPI stub_memcpy_dtoh_async(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoHAsync", to, (const void *)(uintptr_t)from, bytes, stream);
}

CUresult CUDAAPI stub_memcpy_dtod_async(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                        CUstream stream) {
  return copy("cuMemcpyDtoDAsync", (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes,
              stream);
}

CUresult CUDAAPI stub_memset_d32_async(CUdeviceptr to, unsigned word, size_t count,
                                       CUstream stream) {
  CUresult result = stub_enter_context("cuMemsetD32Async");
  if (result == CUDA_SUCCESS) {
    result = stub_stream_takes_work("cuMemsetD32Async", stream);
  }
  for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
    ((unsigned *)(uintptr_t)to)[i] = word;
  }
  return result;
}

/* streams */

bool stub_stream_of(const char *call, CUstream handle, struct stub_stream **ret) {
  *ret = NULL;
  if (handle != NULL) {
    *ret = stub_find(call, handle, STUB_STREAM);
  }
  return handle == NULL || *ret != NULL;
}

CUresult stub_stream_takes_work(const char *call, CUstream handle) {
  struct stub_stream *stream = NULL;
  if (!stub_stream_of(call, handle, &stream)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream != NULL && stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE) {
    return stub_misuse(call, "the stream captures", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return CUDA_SUCCESS;
}

CUresult stub_enter_unsafe(const char *call) {
  CUresult result = stub_enter_context(call);
  if (*stub_thread_mode() == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return result;
  }
  for (struct stub_stream *stream = stub_next(STUB_STREAM, NULL); stream != NULL;
       stream = stub_next(STUB_STREAM, stream)) {
    if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
        stream->capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
      stream->capture.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      result = stub_misuse(call, "a stream captures", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
  }
  return result;
}

/* With it goes what it captures. */
static void finish_stream(struct stub_object *object) {
  struct stub_stream *stream = (struct stub_stream *)(void *)object;
  if (stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE) {
    stub_free(stream->capture.graph);
  }
}

CUresult CUDAAPI stub_stream_create(CUstream *ret_stream, unsigned flags) {
  const CUresult result = stub_enter_unsafe("cuStreamCreate");
  (void)flags;
  if (result != CUDA_SUCCESS) {
    return result;
  }
  struct stub_stream *stream = stub_new(STUB_STREAM, sizeof *stream);
  if (stream != NULL) {
    stream->object.finish = finish_stream;
  }
  *ret_stream = (CUstream)(void *)stream;
  return stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI stub_stream_destroy(CUstream stream) {
  const CUresult result = stub_enter_destroy("cuStreamDestroy", stream, STUB_STREAM);
  if (result == CUDA_SUCCESS) {
    stub_free(stream);
  }
  return result;
}

CUresult CUDAAPI stub_stream_synchronize(CUstream stream) {
  const CUresult result = stub_enter_unsafe("cuStreamSynchronize");
  return result == CUDA_SUCCESS ? stub_stream_takes_work("cuStreamSynchronize", stream) : result;
}

/* events */

static CUresult enter_event(const char *call, CUevent event, bool unsafe) {
  const CUresult result = unsafe ? stub_enter_unsafe(call) : stub_enter_context(call);
  if (result == CUDA_SUCCESS && stub_find(call, event, STUB_EVENT) == NULL) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return result;
}

CUresult CUDAAPI stub_event_create(CUevent *ret_event, unsigned flags) {
  const CUresult result = stub_enter_unsafe("cuEventCreate");
  (void)flags;
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_event = stub_new(STUB_EVENT, sizeof(struct stub_object));
  return *ret_event != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI stub_event_destroy(CUevent event) {
  const CUresult result = stub_enter_destroy("cuEventDestroy", event, STUB_EVENT);
  if (result == CUDA_SUCCESS) {
    stub_free(event);
  }
  return result;
}

CUresult CUDAAPI stub_event_record(CUevent event, CUstream stream) {
  const CUresult result = enter_event("cuEventRecord", event, false);
  return result == CUDA_SUCCESS ? stub_stream_takes_work("cuEventRecord", stream) : result;
}

CUresult CUDAAPI stub_stream_wait_event(CUstream stream, CUevent event, unsigned flags) {
  const CUresult result = enter_event("cuStreamWaitEvent", event, false);
  (void)flags;
  return result == CUDA_SUCCESS ? stub_stream_takes_work("cuStreamWaitEvent", stream) : result;
}

CUresult CUDAAPI stub_event_query(CUevent event) {
  return enter_event("cuEventQuery", event, true);
}

CUresult CUDAAPI stub_event_synchronize(CUevent event) {
  return enter_event("cuEventSynchronize", event, true);
}

CUresult CUDAAPI stub_event_elapsed_time(float *ret_ms, CUevent from, CUevent to) {
  CUresult result = enter_event("cuEventElapsedTime", from, true);
  if (result == CUDA_SUCCESS && stub_find("cuEventElapsedTime", to, STUB_EVENT) == NULL) {
    result = CUDA_ERROR_INVALID_HANDLE;
  }
  *ret_ms = 0.001F;
  return result;
}

/*
 * driver.c: the stub of libcuda: its table of entry points, the count of calls and which of them
 * fails, what lives, and the misuses.
 */
#include "tests/stub/cuda/stub.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_VERSION 13000
#define MAX_NAMED 4096

/* All that is here, under one lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stub_object *objects;
static const char *names[MAX_NAMED];
static size_t n_calls, fail_at, n_misuses;
static CUresult fail_with, broken; /* what every call answers, once one has failed for good */
static bool fail_sticky;
static const char *refused; /* name of a call; NULL: none */
static char first_misuse[160];
static _Thread_local bool is_host;

CUresult stub_misuse(const char *call, const char *what, CUresult result) {
  pthread_mutex_lock(&lock);
  if (n_misuses++ == 0) {
    snprintf(first_misuse, sizeof first_misuse, "%s: %s", call, what);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

/* A context that is broken can still be left. */
static bool always_works(const char *call) {
  static const char *const calls[] = {
      "cuCtxPushCurrent", "cuCtxPopCurrent",           "cuCtxGetCurrent",
      "cuCtxGetId",       "cuDevicePrimaryCtxRelease", "cuThreadExchangeStreamCaptureMode"};
  bool works = false;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    works = works || strcmp(call, calls[i]) == 0;
  }
  return works && broken != CUDA_ERROR_DEINITIALIZED;
}

CUresult stub_enter(const char *call) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  if (!is_host) {
    if (n_calls < MAX_NAMED) {
      names[n_calls] = call;
    }
    n_calls++;
    if (n_calls == fail_at) {
      result = fail_with;
      broken = fail_sticky ? fail_with : CUDA_SUCCESS;
    } else if (broken != CUDA_SUCCESS && !always_works(call)) {
      result = broken;
    } else if (refused != NULL && strcmp(call, refused) == 0) {
      result = CUDA_ERROR_INVALID_VALUE;
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult stub_enter_destroy(const char *call, const void *handle, enum stub_kind kind) {
  const CUresult result = stub_enter_unsafe(call);
  struct stub_object *object = stub_find(call, handle, kind);
  if (object == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  object->lost = result != CUDA_SUCCESS;
  return result;
}

void *stub_new(enum stub_kind kind, size_t bytes) {
  struct stub_object *object = calloc(1, bytes);
  if (object != NULL) {
    object->kind = kind;
    pthread_mutex_lock(&lock);
    object->next = objects;
    objects = object;
    pthread_mutex_unlock(&lock);
  }
  return object;
}

static bool is_alive(const void *handle, enum stub_kind kind) {
  bool alive = false;
  pthread_mutex_lock(&lock);
  for (const struct stub_object *object = objects; object != NULL && !alive;
       object = object->next) {
    alive = object == handle && object->kind == kind;
  }
  pthread_mutex_unlock(&lock);
  return alive;
}

void *stub_find(const char *call, const void *handle, enum stub_kind kind) {
  if (!is_alive(handle, kind)) {
    stub_misuse(call, "a handle that does not live", CUDA_ERROR_INVALID_HANDLE);
    return NULL;
  }
  return (void *)(uintptr_t)handle;
}

void *stub_next(enum stub_kind kind, const void *object) {
  pthread_mutex_lock(&lock);
  struct stub_object *next = object == NULL ? objects : ((const struct stub_object *)object)->next;
  while (next != NULL && next->kind != kind) {
    next = next->next;
  }
  pthread_mutex_unlock(&lock);
  return next;
}

void stub_forget(void *object) {
  struct stub_object *forgotten = object;
  pthread_mutex_lock(&lock);
  struct stub_object **link = &objects;
  while (*link != forgotten) {
    link = &(*link)->next;
  }
  *link = forgotten->next;
  pthread_mutex_unlock(&lock);
}

void stub_free(void *object) {
  struct stub_object *freed = object;
  stub_forget(freed);
  if (freed->finish != NULL) {
    freed->finish(freed);
  }
  free(freed);
}

/* what a test says */

void stub_cuda_fail_at(size_t nth, int result, bool sticky) {
  pthread_mutex_lock(&lock);
  n_calls = 0;
  fail_at = nth;
  fail_with = (CUresult)result;
  fail_sticky = sticky;
  pthread_mutex_unlock(&lock);
}

void stub_cuda_refuse(const char *call) {
  pthread_mutex_lock(&lock);
  refused = call;
  pthread_mutex_unlock(&lock);
}

size_t stub_cuda_calls(void) {
  pthread_mutex_lock(&lock);
  const size_t count = n_calls;
  pthread_mutex_unlock(&lock);
  return count;
}

const char *stub_cuda_name(size_t nth) {
  pthread_mutex_lock(&lock);
  const char *name = nth > 0 && nth <= n_calls && nth <= MAX_NAMED ? names[nth - 1] : "";
  pthread_mutex_unlock(&lock);
  return name;
}

size_t stub_cuda_live(void) {
  size_t live = stub_context_references();
  pthread_mutex_lock(&lock);
  for (const struct stub_object *object = objects; object != NULL; object = object->next) {
    live += object->lost ? 0 : 1;
  }
  pthread_mutex_unlock(&lock);
  return live;
}

size_t stub_cuda_misuses(void) {
  pthread_mutex_lock(&lock);
  const size_t count = n_misuses;
  pthread_mutex_unlock(&lock);
  return count;
}

const char *stub_cuda_misuse(void) {
  return first_misuse;
}

void stub_cuda_host(bool on) {
  is_host = on;
}

void stub_cuda_reset(void) {
  static const enum stub_kind in_order[] = {STUB_STREAM, STUB_EXEC,
                                            STUB_GRAPH}; /* which let go of others */
  stub_context_reset();
  for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
    for (void *graph; (graph = stub_next(in_order[i], NULL)) != NULL;) {
      stub_free(graph);
    }
  }
  stub_user_objects_end();
  while (objects != NULL) {
    stub_free(objects);
  }
  broken = CUDA_SUCCESS;
  fail_at = 0;
}

__attribute__((constructor)) static void read_environment(void) {
  const char *text = getenv("STG_STUB_CUDA_FAIL");
  char *rest = NULL;
  if (text != NULL) {
    fail_at = strtoul(text, &rest, 10);
    fail_with = *rest == ':' ? (CUresult)strtol(rest + 1, NULL, 10) : CUDA_ERROR_UNKNOWN;
  }
}

/* the table */

static const struct row {
  const char *symbol;
  int version;
  void (*address)(void);
} rows[] = {
#define STG_DRIVER_FN(need, member, symbol, version, parameters)                                   \
  {#symbol, version, (void (*)(void))stub_##member},
#include "runtime/driver_api.def"
#undef STG_DRIVER_FN
};

/* Exactly what was asked for, by name and version: another one would be of another type. */
STUB_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **ret_address,
                                                 int version, cuuint64_t flags,
                                                 CUdriverProcAddressQueryResult *ret_found) {
  (void)flags;
  *ret_found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].symbol, symbol) == 0 && rows[i].version == version) {
      memcpy(ret_address, &rows[i].address, sizeof *ret_address);
      *ret_found = CU_GET_PROC_ADDRESS_SUCCESS;
    }
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_init(unsigned flags) {
  (void)flags;
  return stub_enter("cuInit");
}

CUresult CUDAAPI stub_driver_get_version(int *ret_version) {
  const CUresult result = stub_enter("cuDriverGetVersion");
  *ret_version = result == CUDA_SUCCESS ? DRIVER_VERSION : 0;
  return result;
}

static const struct error {
  CUresult result;
  const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
};

static const struct error *find_error(CUresult result) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (errors[i].result == result) {
      return &errors[i];
    }
  }
  return NULL;
}

CUresult CUDAAPI stub_get_error_name(CUresult result, const char **ret_text) {
  const struct error *error = find_error(result);
  *ret_text = error != NULL ? error->name : NULL;
  return error != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI stub_get_error_string(CUresult result, const char **ret_text) {
  const struct error *error = find_error(result);
  *ret_text = error != NULL ? error->text : NULL;
  return error != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

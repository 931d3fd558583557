/*
 * alloc.c: the heap, with hooks that make any allocation of the calling thread fail, and say how
 * much it asked for.
 *
 * The hooks are the only thread-locals of the project: a test that walks through every allocation
 * of a call must not disturb tests that run beside it. It knows nothing of who allocates what.
 */
#include "runtime/base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/intmath.h"

#define CACHE_LINE_BYTES 64

/* 0: off. n: the n-th allocation from now fails; stays at 1 so that all later ones fail too. */
static _Thread_local size_t allocations_left;
/* Sum of the sizes asked for; it stays at SIZE_MAX. */
static _Thread_local size_t asked_bytes;

/* True for more bytes than an object can have, and where the test hook says so. */
static bool must_fail(size_t bytes) {
  asked_bytes = bytes > SIZE_MAX - asked_bytes ? SIZE_MAX : asked_bytes + bytes;
  if (bytes > PTRDIFF_MAX) {
    return true;
  }
  if (allocations_left > 1) {
    allocations_left--;
    return false;
  }
  return allocations_left == 1;
}

void *stg_calloc(size_t count, size_t size) {
  size_t bytes;
  if (!stg_mul_size(count, size, &bytes) || must_fail(bytes)) {
    return NULL;
  }
  return calloc(1, bytes != 0 ? bytes : 1);
}

void *stg_malloc(size_t size) {
  return must_fail(size) ? NULL : malloc(size != 0 ? size : 1);
}

void *stg_realloc(void *ptr, size_t size) {
  return must_fail(size) ? NULL : realloc(ptr, size != 0 ? size : 1);
}

char *stg_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = stg_malloc(size);
  if (copy != NULL) {
    memcpy(copy, text, size);
  }
  return copy;
}

void *stg_malloc_aligned(size_t size) {
  void *ptr = NULL;
  if (must_fail(size) || posix_memalign(&ptr, CACHE_LINE_BYTES, size != 0 ? size : 1) != 0) {
    return NULL;
  }
  return ptr;
}

void stg_free(void *ptr) {
  free(ptr);
}

stg_status(stg_error_memory)(stg_error *err, const char *what, size_t size_bytes) {
  return stg_error_set(err, STG_E_NO_MEMORY, "out of memory: %zu bytes for %s", size_bytes, what);
}

void stg_alloc_fail_at(size_t nth) {
  allocations_left = nth;
}

size_t stg_alloc_asked_bytes(bool reset) {
  size_t bytes = asked_bytes;
  if (reset) {
    asked_bytes = 0;
  }
  return bytes;
}

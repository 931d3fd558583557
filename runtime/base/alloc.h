/*
 * alloc.h: the only door to the heap, so that tests can make any allocation fail.
 *
 * Freed with stg_free. Sizes of 0 return a valid pointer. All functions are thread-safe.
 */
#ifndef STG_RUNTIME_BASE_ALLOC_H
#define STG_RUNTIME_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

/** malloc of `count * size` bytes, zeroed; NULL on overflow or exhaustion. */
void *stg_calloc(size_t count, size_t size);
void *stg_malloc(size_t size);
/** Grow or shrink; on failure returns NULL and leaves `ptr` valid. */
void *stg_realloc(void *ptr, size_t size);
char *stg_strdup(const char *text);
/** Aligned to 64 bytes (a cache line, and any SIMD width), uninitialised; freed with stg_free. */
void *stg_malloc_aligned(size_t size);
void stg_free(void *ptr);

/** Fill `err` with STG_E_NO_MEMORY, naming what was being allocated and its size. */
stg_status stg_error_memory(stg_error *err, const char *what, size_t size_bytes);
#define stg_error_memory(err, what, size_bytes)                                                    \
  stg_error_known(STG_E_NO_MEMORY, stg_error_memory((err), (what), (size_bytes)))

/**
 * Test hook: the `nth` allocation of this thread from now on fails (1 = the next one), and so does
 * each later one until the hook is reset with 0. Thread-local, so parallel tests do not mix.
 */
void stg_alloc_fail_at(size_t nth);

/**
 * Test hook: the sum of all sizes that this thread asked for, given or not, freed or not, since it
 * was last called with `reset`. What other libraries allocate by themselves (cJSON) is not in it.
 */
size_t stg_alloc_asked_bytes(bool reset);

#endif

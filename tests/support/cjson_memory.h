/*
 * cjson_memory.h: cJSON runs out of memory at its n-th allocation. It has a heap of its own, which
 * stg_alloc_fail_at does not reach.
 */
#ifndef STG_TESTS_SUPPORT_CJSON_MEMORY_H
#define STG_TESTS_SUPPORT_CJSON_MEMORY_H

#include <cjson/cJSON.h>

#include <stddef.h>
#include <stdlib.h>

static size_t cjson_memory_left;

static void *cjson_memory_take(size_t size) {
  if (cjson_memory_left == 0) {
    return NULL;
  }
  cjson_memory_left--;
  return malloc(size);
}

/** `n` allocations are given, and none after them. */
static inline void cjson_memory_limit(size_t n) {
  cJSON_Hooks hooks = {cjson_memory_take, free};
  cjson_memory_left = n;
  cJSON_InitHooks(&hooks);
}

static inline void cjson_memory_restore(void) {
  cJSON_InitHooks(NULL);
}

#endif

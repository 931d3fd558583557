/*
 * arena.c: blocks in a list, the newest first; an allocation bumps the newest or starts another.
 *
 * Blocks come zeroed from the heap and their bytes are handed out once, so allocations are zeroed
 * for free. It must not know what lives in it.
 */
#include "runtime/base/arena.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

#define ALIGNMENT 16
#define FIRST_BLOCK_BYTES ((size_t)1024)
#define LARGEST_STEP_BYTES ((size_t)256 * 1024)

struct stg_arena_block {
  struct stg_arena_block *next;
  size_t capacity; /* bytes after the header */
  size_t used;
};

#define HEADER_BYTES                                                                               \
  ((sizeof(struct stg_arena_block) + ALIGNMENT - 1) / ALIGNMENT * (size_t)ALIGNMENT)

/* Blocks grow with the arena, so their number is logarithmic; a large request gets its own size. */
static size_t block_capacity(const struct stg_arena *arena, size_t bytes) {
  size_t capacity = arena->total_bytes;
  if (capacity < FIRST_BLOCK_BYTES) {
    capacity = FIRST_BLOCK_BYTES;
  }
  if (capacity > LARGEST_STEP_BYTES) {
    capacity = LARGEST_STEP_BYTES;
  }
  return capacity > bytes ? capacity : bytes;
}

static struct stg_arena_block *add_block(struct stg_arena *arena, size_t bytes) {
  size_t capacity = block_capacity(arena, bytes);
  size_t total;
  if (!stg_add_size(HEADER_BYTES, capacity, &total)) {
    return NULL;
  }
  struct stg_arena_block *block = stg_calloc(1, total);
  if (block == NULL) {
    return NULL;
  }
  block->capacity = capacity;
  block->next = arena->head;
  arena->head = block;
  arena->total_bytes += total;
  return block;
}

void *stg_arena_alloc(struct stg_arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (arena->failed) {
    return NULL;
  }
  if (!stg_mul_size(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT) {
    arena->failed = true;
    return NULL;
  }
  bytes = stg_round_up(bytes != 0 ? bytes : 1, ALIGNMENT);
  struct stg_arena_block *block = arena->head;
  if (block == NULL || block->capacity - block->used < bytes) {
    block = add_block(arena, bytes);
  }
  if (block == NULL) {
    arena->failed = true;
    return NULL;
  }
  void *ptr = (unsigned char *)block + HEADER_BYTES + block->used;
  block->used += bytes;
  return ptr;
}

char *stg_arena_strdup(struct stg_arena *arena, const char *text) {
  return stg_arena_memdup(arena, text, strlen(text) + 1);
}

char *stg_arena_strndup(struct stg_arena *arena, const char *text, size_t len) {
  size_t size;
  if (!stg_add_size(len, 1, &size)) {
    arena->failed = true;
    return NULL;
  }
  char *copy = stg_arena_alloc(arena, size, 1);
  if (copy != NULL && len != 0) {
    memcpy(copy, text, len);
  }
  return copy;
}

void *stg_arena_memdup(struct stg_arena *arena, const void *data, size_t size) {
  void *copy = stg_arena_alloc(arena, size, 1);
  if (copy != NULL && size != 0) {
    memcpy(copy, data, size);
  }
  return copy;
}

stg_status stg_arena_status(const struct stg_arena *arena, stg_error *err) {
  if (!arena->failed) {
    return STG_OK;
  }
  return stg_error_set(err, STG_E_NO_MEMORY, "out of memory: an arena of %zu bytes cannot grow",
                       arena->total_bytes);
}

void stg_arena_finish(struct stg_arena *arena) {
  struct stg_arena_block *block = arena->head;
  while (block != NULL) {
    struct stg_arena_block *next = block->next;
    stg_free(block);
    block = next;
  }
  *arena = (struct stg_arena){0};
}

/*
 * arena.h: a bump allocator. One owner, one destroy, no per-object free.
 *
 * Failure is sticky: after the first failed allocation every later one returns NULL, and the owner
 * may check once at the end with stg_arena_status.
 */
#ifndef STG_RUNTIME_BASE_ARENA_H
#define STG_RUNTIME_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

struct stg_arena_block;

/* {0} is a valid empty arena. Single-threaded. */
struct stg_arena {
  struct stg_arena_block *head;
  size_t total_bytes; /* asked of the heap so far */
  bool failed;
};

/** Zeroed memory aligned to 16 bytes, alive until finish; NULL on overflow or exhaustion. */
void *stg_arena_alloc(struct stg_arena *arena, size_t count, size_t size);
char *stg_arena_strdup(struct stg_arena *arena, const char *text);
char *stg_arena_strndup(struct stg_arena *arena, const char *text, size_t len);
void *stg_arena_memdup(struct stg_arena *arena, const void *data, size_t size);
/** STG_OK, or STG_E_NO_MEMORY when any allocation of this arena failed. */
stg_status stg_arena_status(const struct stg_arena *arena, stg_error *err);
/** Free everything; the arena is empty and usable again. */
void stg_arena_finish(struct stg_arena *arena);

#endif

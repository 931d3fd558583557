/*
 * cache_left_out.c: collect what lies in the folders of a cache and is left out of it. Must not
 * know why.
 */
#include "engine/cache_left_out.h"

#include <string.h>

#define FIRST_CAPACITY 8

stg_status stg_left_outs_add(struct stg_left_outs *list, struct stg_arena *arena,
                             const struct stg_disk_item *item, stg_error *reterr) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity == 0 ? FIRST_CAPACITY : 2 * list->capacity;
    stg_cache_left_out *items = stg_arena_alloc(arena, capacity, sizeof *items);
    if (items == NULL) {
      return stg_arena_status(arena, reterr);
    }
    if (list->count > 0) {
      memcpy(items, list->items, list->count * sizeof *items);
    }
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] =
      (stg_cache_left_out){.path = stg_arena_strdup(arena, item->path),
                           .problem = stg_arena_strdup(arena, item->problem),
                           .is_folder = item->is_folder};
  return stg_arena_status(arena, reterr);
}

/*
 * pool.c: see pool.h. Some hundred spans at most: a linear walk beats a cleverer structure.
 */
#include "engine/pool.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* The first gap of `bytes`: its offset, and the index at which its span belongs. */
static bool find_gap(const struct stg_pool *pool, size_t bytes, size_t *ret_offset,
                     size_t *ret_index) {
  size_t from = STG_POOL_GRANULE;
  for (size_t i = 0; i <= pool->count; i++) {
    size_t until = i < pool->count ? pool->spans[i].offset : pool->bytes;
    if (until >= from && until - from >= bytes) {
      *ret_offset = from;
      *ret_index = i;
      return true;
    }
    if (i < pool->count) {
      from = pool->spans[i].offset + pool->spans[i].bytes;
    }
  }
  return false;
}

stg_status stg_pool_take(struct stg_pool *pool, size_t bytes, size_t *ret_offset,
                         stg_error *reterr) {
  assert(bytes > 0);
  size_t offset, index;
  bytes = stg_round_up(bytes, STG_POOL_GRANULE);
  if (!find_gap(pool, bytes, &offset, &index)) {
    return stg_error_set(reterr, STG_E_CAPACITY, "records: no room for %zu bytes in a pool of %zu",
                         bytes, pool->bytes);
  }
  if (pool->count == pool->capacity) {
    size_t capacity = pool->capacity == 0 ? 64 : 2 * pool->capacity;
    struct stg_pool_span *spans = stg_realloc(pool->spans, capacity * sizeof *spans);
    if (spans == NULL) {
      return stg_error_memory(reterr, "the record pool's spans", capacity * sizeof *spans);
    }
    pool->spans = spans;
    pool->capacity = capacity;
  }
  memmove(pool->spans + index + 1, pool->spans + index,
          (pool->count - index) * sizeof *pool->spans);
  pool->spans[index] = (struct stg_pool_span){offset, bytes};
  pool->count++;
  *ret_offset = offset;
  return STG_OK;
}

void stg_pool_give(struct stg_pool *pool, size_t offset) {
  size_t i = 0;
  while (i < pool->count && pool->spans[i].offset != offset) {
    i++;
  }
  assert(i < pool->count);
  pool->count--;
  memmove(pool->spans + i, pool->spans + i + 1, (pool->count - i) * sizeof *pool->spans);
}

void stg_pool_finish(struct stg_pool *pool) {
  stg_free(pool->spans);
  *pool = (struct stg_pool){0};
}

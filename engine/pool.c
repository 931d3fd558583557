/*
 * pool.c: see pool.h.
 */
#include "engine/pool.h"

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

stg_status stg_pool_init(struct stg_pool *pool, uint32_t capacity, size_t record_bytes,
                         stg_error *reterr) {
  *pool = (struct stg_pool){.record_bytes = stg_round_up(record_bytes, STG_POOL_GRANULE)};
  pool->records = stg_calloc(capacity, sizeof(const struct stg_record *));
  if (pool->records == NULL || !stg_places_init(&pool->places, capacity)) {
    stg_pool_finish(pool);
    return stg_error_memory(reterr, "the record pool", capacity * sizeof(void *));
  }
  return STG_OK;
}

void stg_pool_finish(struct stg_pool *pool) {
  stg_places_finish(&pool->places);
  stg_free(pool->records);
  *pool = (struct stg_pool){0};
}

stg_status stg_pool_take(struct stg_pool *pool, const struct stg_record *record, size_t *ret_offset,
                         stg_error *reterr) {
  uint32_t place;
  if (!stg_places_take(&pool->places, &place)) {
    return stg_error_set(reterr, STG_E_CAPACITY, "records: all %u rooms of the pool are in use",
                         pool->places.capacity);
  }
  pool->records[place] = record;
  *ret_offset = stg_pool_offset(pool, place);
  return STG_OK;
}

void stg_pool_give(struct stg_pool *pool, size_t offset) {
  stg_places_give(&pool->places, (uint32_t)((offset - STG_POOL_GRANULE) / pool->record_bytes));
}

size_t stg_pool_offset(const struct stg_pool *pool, uint32_t place) {
  return STG_POOL_GRANULE + place * pool->record_bytes;
}

/*
 * pool.h: memory of records in one device buffer: equal rooms, each with its record. Hands out
 * offsets; touches no device.
 */
#ifndef STG_ENGINE_POOL_H
#define STG_ENGINE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "engine/places.h"
#include "runtime/base/error.h"

#define STG_POOL_GRANULE 256 /* bytes; a chain starts at a multiple of 16 */

struct stg_record;

/* {0} is a pool without room. Offset 0 is never handed out: tables use it for "none". */
struct stg_pool {
  size_t record_bytes; /* of each room, a multiple of the granule */
  struct stg_places places;
  const struct stg_record **records; /* by place; of those in use */
};

/** Rooms for `capacity` records, at most `record_bytes` each. */
STG_NODISCARD stg_status stg_pool_init(struct stg_pool *pool, uint32_t capacity,
                                       size_t record_bytes, stg_error *reterr);
/** {0} is fine. */
void stg_pool_finish(struct stg_pool *pool);

/** Room for a record, not sent yet. STG_E_CAPACITY when all is taken. */
STG_NODISCARD stg_status stg_pool_take(struct stg_pool *pool, const struct stg_record *record,
                                       size_t *ret_offset, stg_error *reterr);
/** Give room back; `offset` is one that take returned. */
void stg_pool_give(struct stg_pool *pool, size_t offset);
/** Where a place lies in the buffer. */
size_t stg_pool_offset(const struct stg_pool *pool, uint32_t place);

#endif

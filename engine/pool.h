/*
 * pool.h: spans of one device buffer, first fit. Hands out offsets; touches no device.
 */
#ifndef STG_ENGINE_POOL_H
#define STG_ENGINE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define STG_POOL_GRANULE 256 /* bytes; a chain starts at a multiple of 16 */

struct stg_pool_span {
  size_t offset, bytes;
};

/* {0} plus `bytes` is a valid empty pool. Offset 0 is never handed out: tables use it for "none".
 */
struct stg_pool {
  size_t bytes;
  struct stg_pool_span *spans; /* in use, by offset */
  size_t count, capacity;
};

/** STG_E_CAPACITY when no gap is large enough. `bytes` > 0. */
STG_NODISCARD stg_status stg_pool_take(struct stg_pool *pool, size_t bytes, size_t *ret_offset,
                                       stg_error *reterr);
/** Give a span back; `offset` is one that take returned. */
void stg_pool_give(struct stg_pool *pool, size_t offset);
void stg_pool_finish(struct stg_pool *pool);

#endif

/*
 * cpu/decode.h: the decode family on the CPU: attention of new rows over a cache.
 *
 * A row's bits depend on what codegen/decode.h says alone. They are not the GPU's: sums within a
 * chunk have an order of their own. Both are within the oracle's bound.
 */
#ifndef STG_ENGINE_CPU_DECODE_H
#define STG_ENGINE_CPU_DECODE_H

#include <steergraph/status.h>

#include "codegen/decode.h"
#include "codegen/kv.h"

/* One call. All borrowed. Strides of q and out as the geometry's order has them: elements from a
 * row to the next, or from a head to the next. */
struct stg_cpu_attend_batch {
  const struct stg_decode_geometry *geometry;
  struct stg_step_rows rows; /* of positions that the cache has by now */
  const struct stg_kv_view *kv;
  const void *q;
  int64_t q_stride;
  void *out;
  int64_t out_stride;
  float scale;
  int64_t window;          /* positions that a row reads, its own with them; 0: all */
  const uint8_t *key_mask; /* [batch, mask_stride]: positions that are 0 are not read; NULL */
  int64_t mask_stride;
  const int32_t *valid; /* [batch]: rows from this position on give zeros; NULL: none do */
};

/**
 * Attend. The batch has been checked. Positions that a row does not read, and blocks that a table
 * does not have, are never loaded. Padding leaves out as it is; rows without room or place, and
 * rows that read nothing, give zeros. STG_E_NO_MEMORY for buffers of one row, before any write.
 */
STG_NODISCARD stg_status stg_cpu_attend(const struct stg_cpu_attend_batch *batch,
                                        stg_error *reterr);

#endif

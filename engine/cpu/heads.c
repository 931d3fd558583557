/*
 * cpu/heads.c: what the rope family does besides rotating: heads from one order to the other, and
 * the lengths of a cache at the end of a step.
 */
#include <string.h>

#include "engine/cpu/rope.h"
#include "runtime/base/dtype.h"

void stg_cpu_transpose_heads(const struct stg_cpu_transpose *t) {
  const int64_t unit = (int64_t)stg_dtype_bytes(t->dtype);
  const int64_t dim = t->dim;
  const enum stg_heads_order to_order =
      t->from_order == STG_HEADS_ROWS_FIRST ? STG_HEADS_HEADS_FIRST : STG_HEADS_ROWS_FIRST;
  for (int64_t row = 0; row < t->rows; row++) {
    for (int64_t head = 0; head < (int64_t)t->heads; head++) {
      const int64_t from = stg_heads_offset(t->from_order, t->from_stride, row, head, dim);
      const int64_t to = stg_heads_offset(to_order, t->to_stride, row, head, dim);
      memcpy((unsigned char *)t->to + to * unit, (const unsigned char *)t->from + from * unit,
             (size_t)(dim * unit));
    }
  }
}

void stg_cpu_kv_advance(const struct stg_step_rows *rows, const struct stg_kv_view *kv,
                        int32_t *len) {
  for (int64_t row = 0; row < rows->rows; row++) {
    const struct stg_row_place place = stg_row_find(rows, kv, row);
    if (place.fate == STG_FATE_LIVE) {
      /* as a device's atomic adds: a host may append below the length as often as it likes */
      len[place.seq] = (int32_t)((uint32_t)len[place.seq] + 1);
    }
  }
}

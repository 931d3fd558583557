/*
 * attention/bytes.c: see bytes.h. Rows that nothing becomes of count as nothing.
 */
#include "tools/attention/bytes.h"

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

/* Positions [from, to) of a sequence that rows read. */
struct reach {
  int64_t from, to;
};

/* Rows that are live, and how far they read. */
static uint64_t count_live(const struct stg_attention_done *done, const struct stg_kv_view *view,
                           struct reach *reach) {
  const struct stg_step_rows rows = stg_attention_rows(done);
  const int64_t window = done->job->workload.attend.window;
  uint64_t live = 0;
  for (int64_t row = 0; row < rows.rows; row++) {
    const struct stg_oracle_place place = stg_oracle_find_row(&rows, view, row);
    if (place.fate != STG_FATE_LIVE) {
      continue;
    }
    struct reach *of_seq = &reach[place.seq];
    const int64_t to = place.position + 1;
    const int64_t from = window > 0 && to > window ? to - window : 0;
    of_seq->from = of_seq->to == 0 || from < of_seq->from ? from : of_seq->from;
    of_seq->to = to > of_seq->to ? to : of_seq->to;
    live++;
  }
  return live;
}

stg_status stg_attention_bytes(const struct stg_attention_done *done, uint64_t *ret_bytes,
                               stg_error *reterr) {
  const struct stg_attention_workload *w = &done->job->workload;
  const uint64_t head = (uint64_t)w->dim * stg_dtype_bytes(w->dtype);
  const size_t batch = w->batch > 0 ? w->batch : 1;
  struct reach *reach = stg_calloc(batch, sizeof *reach);
  if (reach == NULL) {
    return stg_error_memory(reterr, "the reach of sequences", batch * sizeof *reach);
  }
  struct stg_kv_view view;
  const bool has_view = stg_attention_view(done, &view);
  const uint64_t live = count_live(done, has_view ? &view : NULL, reach);
  uint64_t bytes = 0;
  if (done->job->has_rope) {
    bytes += 2 * live * (uint64_t)stg_attention_row_elems(w) * stg_dtype_bytes(w->dtype);
  }
  if (done->job->has_attend) {
    bytes += 2 * live * w->heads * head;
    for (size_t seq = 0; seq < batch; seq++) {
      bytes += 2 * (uint64_t)(reach[seq].to - reach[seq].from) * w->kv_heads * head;
    }
  }
  stg_free(reach);
  *ret_bytes = bytes;
  return STG_OK;
}

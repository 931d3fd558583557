/*
 * attention/output.c: see output.h.
 */
#include "tools/attention/output.h"

#include "runtime/base/dtype.h"
#include "runtime/base/strbuf.h"
#include "tools/run_files.h"

#define MAX_OUTPUTS 5

/* A tensor that the work gives. */
struct output {
  const char *name;
  enum stg_attention_tensor_name of;
  stg_order order;
  uint32_t heads;
};

/* Those of rows; returns how many. */
static size_t list_rows(const struct stg_attention_job *job, struct output *ret) {
  const struct stg_attention_workload *w = &job->workload;
  size_t count = 0;
  if (job->has_rope && !w->rope.backward) {
    ret[count++] = (struct output){"q", STG_ATTENTION_Q, job->rope.order, w->heads};
  }
  if (w->kind == STG_SPEC_ROPE && !w->rope.backward && !job->has_kv) {
    ret[count++] = (struct output){"k", STG_ATTENTION_K, job->rope.order, w->kv_heads};
    ret[count++] = (struct output){"v", STG_ATTENTION_V, job->rope.order, w->kv_heads};
  }
  if (job->has_attend) {
    ret[count++] = (struct output){"out", STG_ATTENTION_OUT, job->attend.order, w->heads};
  }
  return count;
}

static void append(struct stg_strbuf *all, const struct stg_attention_tensor *t) {
  stg_strbuf_mem(all, (const char *)t->after, t->bytes);
}

/* What each live row has in the cache now: its heads of K, then of V. */
static void append_appended(const struct stg_attention_done *done, struct stg_strbuf *all) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_step_rows rows = stg_attention_rows(done);
  const size_t element = stg_dtype_bytes(w->dtype);
  struct stg_kv_view view;
  if (!done->job->has_rope || !stg_attention_view(done, &view)) {
    return;
  }
  const char *const tensors[] = {view.k, view.v};
  for (int64_t row = 0; row < rows.rows; row++) {
    const struct stg_oracle_place place = stg_oracle_find_row(&rows, &view, row);
    const int64_t at = place.unit * view.seq_stride + place.within * view.pos_stride;
    for (size_t i = 0; place.fate == STG_FATE_LIVE && i < 2; i++) {
      for (int64_t head = 0; head < (int64_t)w->kv_heads; head++) {
        stg_strbuf_mem(all, tensors[i] + (size_t)(at + head * view.head_stride) * element,
                       w->dim * element);
      }
    }
  }
}

stg_status stg_attention_output_key(const struct stg_attention_done *done, struct stg_key *ret_key,
                                    stg_error *reterr) {
  struct stg_strbuf all = {0};
  struct output outputs[MAX_OUTPUTS];
  const size_t count = list_rows(done->job, outputs);
  for (size_t i = 0; i < count; i++) {
    append(&all, &done->tensors->of[outputs[i].of]);
  }
  if (done->job->workload.rope.backward) {
    append(&all, &done->tensors->of[STG_ATTENTION_QKV]);
  }
  append_appended(done, &all);
  if (done->job->has_kv) {
    append(&all, &done->tensors->of[STG_ATTENTION_LENGTHS]);
  }
  stg_status status = stg_strbuf_status(&all, reterr);
  if (status == STG_OK) {
    *ret_key = stg_key_of(stg_strbuf_text(&all), all.len);
  }
  stg_strbuf_finish(&all);
  return status;
}

static struct stg_tensor_out tensor_out(const struct stg_attention_done *done,
                                        const struct output *output) {
  const struct stg_attention_workload *w = &done->job->workload;
  struct stg_tensor_out out = {output->name,
                               w->dtype,
                               3,
                               {w->rows, (int64_t)output->heads, (int64_t)w->dim},
                               done->tensors->of[output->of].after};
  if (output->order == STG_ORDER_HEADS_FIRST) {
    out.shape[0] = (int64_t)output->heads;
    out.shape[1] = w->rows;
  }
  return out;
}

/* The layer's K and V: [batch, heads, capacity, dim], or [blocks, heads, block, dim]. */
static size_t list_cache(const struct stg_attention_done *done, struct stg_tensor_out *ret) {
  const struct stg_attention_workload *w = &done->job->workload;
  const struct stg_spec_cache *cache = &w->cache;
  const bool paged = cache->block > 0;
  struct stg_kv_view view;
  if (!done->job->has_kv || !done->job->has_rope || !stg_attention_view(done, &view)) {
    return 0;
  }
  const void *const tensors[] = {view.k, view.v};
  for (size_t i = 0; i < 2; i++) {
    ret[i] = (struct stg_tensor_out){
        i == 0 ? "cache_k" : "cache_v",
        w->dtype,
        4,
        {paged ? (int64_t)cache->n_blocks : (int64_t)cache->batch, (int64_t)w->kv_heads,
         paged ? (int64_t)cache->block : cache->capacity, (int64_t)w->dim},
        tensors[i]};
  }
  return 2;
}

stg_status stg_attention_output_write(const struct stg_attention_done *done, const char *path,
                                      const char *signature, stg_error *reterr) {
  const struct stg_attention_workload *w = &done->job->workload;
  struct output outputs[MAX_OUTPUTS];
  struct stg_tensor_out tensors[MAX_OUTPUTS + 2];
  size_t count = list_rows(done->job, outputs);
  for (size_t i = 0; i < count; i++) {
    tensors[i] = tensor_out(done, &outputs[i]);
  }
  if (w->rope.backward) {
    tensors[count++] = (struct stg_tensor_out){"qkv",
                                               w->dtype,
                                               2,
                                               {w->rows, stg_attention_row_elems(w)},
                                               done->tensors->of[STG_ATTENTION_QKV].after};
  }
  count += list_cache(done, &tensors[count]);
  return stg_run_write_tensors(path, tensors, count, signature, reterr);
}

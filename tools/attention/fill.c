/*
 * attention/fill.c: what tensors have before the launch: the workload's numbers, and where there
 * are none what no result can be mistaken for.
 */
#include <string.h>

#include "runtime/base/dtype.h"
#include "tools/attention/tensors.h"

/* Every byte all ones is NaN in each type. */
#define NAN_BYTE 0xff

/* One array of the workload, whole. */
static stg_status read_whole(const struct stg_attention_job *job,
                             const struct stg_spec_array *array, struct stg_attention_tensor *t,
                             stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  return stg_attention_read(w, array, 0, (size_t)array->elems, w->dtype, t->before, reterr);
}

/* K or V of a cache's layer or of tokens: where positions stand in it, in elements. */
struct filling {
  const struct stg_spec_array *array;
  unsigned char *to;
  int64_t unit_stride, head_stride;
  int64_t unit_positions; /* of a sequence, or of a block */
  const int32_t *table;   /* NULL: the units are sequences */
  int64_t table_row;
};

/* Positions [from, to) of a sequence, which lie in one unit. */
static stg_status fill_piece(const struct stg_attention_workload *w, const struct filling *f,
                             uint32_t seq, int64_t from, int64_t to, stg_error *reterr) {
  const int64_t dim = (int64_t)w->dim, element = (int64_t)stg_dtype_bytes(w->dtype);
  const int64_t unit =
      f->table != NULL ? f->table[seq * f->table_row + from / f->unit_positions] : (int64_t)seq;
  stg_status status = STG_OK;
  for (int64_t head = 0; head < (int64_t)w->kv_heads && status == STG_OK; head++) {
    const int64_t at = (seq * (int64_t)w->kv_heads + head) * w->cache.capacity + from;
    const int64_t place =
        unit * f->unit_stride + head * f->head_stride + from % f->unit_positions * dim;
    status = stg_attention_read(w, f->array, at * dim, (size_t)((to - from) * dim), w->dtype,
                                f->to + place * element, reterr);
  }
  return status;
}

/* The positions that are there. */
static stg_status fill_positions(const struct stg_attention_workload *w, const struct filling *f,
                                 stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t seq = 0; seq < w->cache.batch; seq++) {
    const int64_t end = w->cache.filled[seq];
    for (int64_t from = 0, to; from < end && status == STG_OK; from = to) {
      to = from + f->unit_positions < end ? from + f->unit_positions : end;
      status = fill_piece(w, f, seq, from, to, reterr);
    }
  }
  return status;
}

static stg_status fill_tokens(const struct stg_attention_job *job,
                              struct stg_attention_tensors *tensors, stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  const int64_t head = w->cache.capacity * (int64_t)w->dim;
  struct filling filling = {
      .unit_stride = head * (int64_t)w->kv_heads,
      .head_stride = head,
      .unit_positions = w->cache.capacity,
  };
  const struct stg_spec_array *const arrays[] = {&w->k, &w->v};
  stg_status status = STG_OK;
  for (size_t i = 0; i < 2 && status == STG_OK; i++) {
    filling.array = arrays[i];
    filling.to = tensors->of[STG_ATTENTION_K + i].before;
    status = fill_positions(w, &filling, reterr);
  }
  unsigned char *mask = tensors->of[STG_ATTENTION_MASK].before;
  const size_t row = (size_t)w->cache.capacity;
  for (size_t seq = 0; w->cache.key_mask != NULL && seq < w->cache.batch; seq++) {
    memcpy(mask + seq * row, w->cache.key_mask + (w->cache.one_mask ? 0 : seq * row), row);
  }
  return status;
}

static stg_status fill_cache(const struct stg_attention_job *job, const stg_kv_tensors *cache,
                             struct stg_attention_tensors *tensors, stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  const int64_t layer = (int64_t)w->layer * cache->layer_stride;
  int32_t *table = (int32_t *)(void *)tensors->of[STG_ATTENTION_TABLE].before;
  struct filling filling = {
      .unit_stride = cache->seq_stride,
      .head_stride = cache->head_stride,
      .unit_positions = w->cache.block > 0 ? (int64_t)w->cache.block : w->cache.capacity,
      .table = table,
      .table_row = cache->blocks,
  };
  if (table != NULL) {
    stg_attention_fill_table(w, table);
  }
  const struct stg_spec_array *const arrays[] = {&w->k, &w->v};
  stg_status status = STG_OK;
  for (size_t i = 0; i < 2 && (w->has_k || w->has_v) && status == STG_OK; i++) {
    filling.array = arrays[i];
    filling.to =
        tensors->of[STG_ATTENTION_CACHE_K + i].before + layer * (int64_t)stg_dtype_bytes(w->dtype);
    status = fill_positions(w, &filling, reterr);
  }
  return status;
}

/* What a launch reads of rows. */
static stg_status fill_rows(const struct stg_attention_job *job,
                            struct stg_attention_tensors *tensors, stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  const struct {
    bool is_given;
    const struct stg_spec_array *array;
    enum stg_attention_tensor_name name;
  } inputs[] = {
      {w->has_qkv, &w->qkv, STG_ATTENTION_QKV},
      {w->has_q, &w->q, STG_ATTENTION_Q},
      {w->rope.backward, &w->k, STG_ATTENTION_K},
      {w->rope.backward, &w->v, STG_ATTENTION_V},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && status == STG_OK; i++) {
    if (inputs[i].is_given) {
      status = read_whole(job, inputs[i].array, &tensors->of[inputs[i].name], reterr);
    }
  }
  stg_attention_fill_seq(w, tensors->seq);
  if (tensors->pos != NULL) {
    stg_attention_fill_positions(w, tensors->pos);
  }
  return status;
}

stg_status stg_attention_tensors_fill(const struct stg_attention_job *job,
                                      const stg_kv_tensors *cache,
                                      struct stg_attention_tensors *tensors, stg_error *reterr) {
  const struct stg_attention_workload *w = &job->workload;
  const int tail = w->cache.exists && w->cache.tail == STG_SPEC_TAIL_ZEROS ? 0 : NAN_BYTE;
  for (size_t i = 0; i < STG_ATTENTION_TENSORS; i++) {
    struct stg_attention_tensor *t = &tensors->of[i];
    const bool holds_positions =
        i == STG_ATTENTION_CACHE_K || i == STG_ATTENTION_CACHE_V ||
        (w->cache.tokens && (i == STG_ATTENTION_K || i == STG_ATTENTION_V));
    if (t->bytes > 0) {
      memset(t->before, holds_positions ? tail : NAN_BYTE, t->bytes);
    }
  }
  if (w->cache.exists) {
    memcpy(tensors->of[STG_ATTENTION_LENGTHS].before, w->cache.lengths,
           tensors->of[STG_ATTENTION_LENGTHS].bytes);
  }
  stg_status status = fill_rows(job, tensors, reterr);
  if (status == STG_OK && w->cache.tokens) {
    status = fill_tokens(job, tensors, reterr);
  } else if (status == STG_OK && job->has_kv) {
    status = fill_cache(job, cache, tensors, reterr);
  }
  return status;
}

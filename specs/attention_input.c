/*
 * attention_input.c: the member "input": which arrays a workload has, and their shapes.
 */
#include "specs/attention_reader.h"

static stg_status read_array(struct stg_attention_reader *reader, const struct stg_json *input,
                             const char *key, bool *ret_has, struct stg_spec_array *array) {
  struct stg_json member;
  stg_status status = stg_json_get(input, key, &member, reader->spec.err);
  *ret_has = status == STG_OK;
  return status == STG_OK ? stg_spec_read_array(&reader->spec, &member, false, array) : status;
}

/* Rows of heads, in either order. */
static struct stg_spec_array heads_array(const struct stg_attention_workload *w,
                                         enum stg_spec_order order, uint32_t heads,
                                         uint64_t stream) {
  const bool rows_first = order == STG_SPEC_ORDER_ROWS;
  return (struct stg_spec_array){
      .shape = {rows_first ? w->rows : heads, rows_first ? heads : w->rows, w->dim},
      .n_dims = 3,
      .stream = stream};
}

static struct stg_spec_array cache_array(const struct stg_attention_workload *w, uint64_t stream) {
  return (struct stg_spec_array){.shape = {w->cache.batch, w->kv_heads, w->cache.capacity, w->dim},
                                 .n_dims = 4,
                                 .stream = stream};
}

static stg_status read_qkv(struct stg_attention_reader *reader, const struct stg_json *input) {
  struct stg_attention_workload *w = reader->workload;
  w->qkv = (struct stg_spec_array){
      .shape = {w->rows, ((int64_t)w->heads + 2 * (int64_t)w->kv_heads) * w->dim},
      .n_dims = 2,
      .stream = STG_ATTENTION_STREAM_QKV};
  return read_array(reader, input, "qkv", &w->has_qkv, &w->qkv);
}

static stg_status read_k_and_v(struct stg_attention_reader *reader, const struct stg_json *input) {
  struct stg_attention_workload *w = reader->workload;
  stg_status status = read_array(reader, input, "k", &w->has_k, &w->k);
  return status == STG_OK ? read_array(reader, input, "v", &w->has_v, &w->v) : status;
}

/* Whether the launch reads anything that is in the cache before it. */
static bool needs_cache(const struct stg_attention_workload *w, const struct stg_json *input) {
  struct stg_json member;
  bool needs = stg_json_find(input, "k", &member) || stg_json_find(input, "v", &member);
  for (uint32_t i = 0; i < w->cache.batch && !needs; i++) {
    needs = w->cache.filled[i] > 0;
  }
  return needs;
}

static stg_status read_rope_input(struct stg_attention_reader *reader,
                                  const struct stg_json *input) {
  static const char *const forward[] = {"qkv", NULL};
  static const char *const backward[] = {"q", "k", "v", NULL};
  struct stg_attention_workload *w = reader->workload;
  const struct stg_spec_rope *rope = &w->rope;
  stg_status status =
      stg_json_check_keys(input, rope->backward ? backward : forward, reader->spec.err);
  if (status != STG_OK || !rope->backward) {
    return status == STG_OK ? read_qkv(reader, input) : status;
  }
  w->q = heads_array(w, rope->order, w->heads, STG_ATTENTION_STREAM_Q);
  w->k = heads_array(w, rope->order, w->kv_heads, STG_ATTENTION_STREAM_K);
  w->v = heads_array(w, rope->order, w->kv_heads, STG_ATTENTION_STREAM_V);
  status = read_array(reader, input, "q", &w->has_q, &w->q);
  return status == STG_OK ? read_k_and_v(reader, input) : status;
}

/* Queries, or packed rows of a step; and what the cache holds. */
static stg_status read_attend_input(struct stg_attention_reader *reader,
                                    const struct stg_json *input) {
  static const char *const decode[] = {"q", "k", "v", NULL};
  static const char *const step[] = {"qkv", "k", "v", NULL};
  struct stg_attention_workload *w = reader->workload;
  const bool is_step = w->kind == STG_SPEC_STEP;
  stg_status status = stg_json_check_keys(input, is_step ? step : decode, reader->spec.err);
  w->k = cache_array(w, STG_ATTENTION_STREAM_K);
  w->v = cache_array(w, STG_ATTENTION_STREAM_V);
  if (status == STG_OK && is_step) {
    status = read_qkv(reader, input);
  } else if (status == STG_OK) {
    w->q = heads_array(w, w->attend.order, w->heads, STG_ATTENTION_STREAM_Q);
    status = read_array(reader, input, "q", &w->has_q, &w->q);
  }
  return status == STG_OK && (!is_step || needs_cache(w, input)) ? read_k_and_v(reader, input)
                                                                 : status;
}

stg_status stg_attention_read_input(struct stg_attention_reader *reader,
                                    const struct stg_json *root) {
  struct stg_json input;
  stg_status status = stg_json_get(root, "input", &input, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  return reader->workload->kind == STG_SPEC_ROPE ? read_rope_input(reader, &input)
                                                 : read_attend_input(reader, &input);
}

/*
 * rope_check.c: what a rope may be given: layers, rows, tensors and strides.
 */
#include "engine/attn.h"
#include "engine/attn_check.h"

static stg_status check_rows(const stg_rope *rope, const stg_rows *rows,
                             const stg_rope_tensors *tensors, stg_error *reterr) {
  if (rows != NULL) {
    return stg_rows_check(rows, rope->kv, rows->batch, "stg_rope_apply", reterr);
  }
  if (rope->kv != NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rope_apply: rows is NULL; with a cache they say where K and V go");
  }
  const size_t element = tensors->pos_is_64 ? sizeof(int64_t) : sizeof(int32_t);
  if (tensors->rows < 0 || tensors->rows > INT32_MAX ||
      (tensors->rows > 0 && tensors->pos == NULL) || (uintptr_t)tensors->pos % element != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rope_apply: %lld rows with positions of %zu bytes at %p",
                         (long long)tensors->rows, element, tensors->pos);
  }
  return STG_OK;
}

stg_status stg_rope_check(const stg_rope *rope, const stg_rows *rows,
                          const stg_rope_tensors *tensors, uint32_t layer, bool backward,
                          stg_rope_tensors *ret, stg_error *reterr) {
  stg_status status = check_rows(rope, rows, tensors, reterr);
  if (status == STG_OK) {
    status = stg_attn_check_layer(rope->kv, layer, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const struct stg_rope_geometry *g = &rope->geometry;
  const bool cached = rope->kv != NULL && !backward;
  const int64_t count = rows != NULL ? rows->rows : tensors->rows;
  stg_rope_tensors whole = *tensors;
  const struct stg_attn_heads q = {"q", whole.q, &whole.q_stride, g->heads};
  const struct stg_attn_heads k = {"k", whole.k, &whole.k_stride, g->kv_heads};
  const struct stg_attn_heads v = {"v", whole.v, &whole.v_stride, g->kv_heads};
  if (cached && (whole.k != NULL || whole.v != NULL)) {
    return stg_error_set(reterr, STG_E_INVALID, "k: %p, v: %p; K and V go to the cache of the rope",
                         whole.k, whole.v);
  }
  status = stg_attn_check_row(g->dtype, "qkv", whole.qkv, stg_rope_row_elems(g), count,
                              &whole.qkv_stride, reterr);
  if (status == STG_OK) {
    status = stg_attn_check_heads(g, &q, count, reterr);
  }
  if (status == STG_OK && !cached) {
    status = stg_attn_check_heads(g, &k, count, reterr);
  }
  if (whole.v == NULL) {
    whole.v_stride = 0; /* V stays where it is, or goes to the cache */
  } else if (status == STG_OK) {
    status = stg_attn_check_heads(g, &v, count, reterr);
  }
  if (status == STG_OK) {
    *ret = whole;
  }
  return status;
}

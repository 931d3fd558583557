/*
 * attend_check.c: what an attend may be given: layers, rows, tensors and strides.
 */
#include "engine/attn.h"
#include "engine/attn_check.h"
#include "runtime/base/intmath.h"

/* `stride` to the last of `count` more elements; false where no number has it. None is negative. */
static bool step_to_last(int64_t stride, int64_t count, size_t *at) {
  size_t bytes;
  return stg_mul_size((size_t)stride, (size_t)(count - 1), &bytes) &&
         stg_add_size(*at, bytes, at) && *at <= INT64_MAX;
}

/* Whether the last element of the last position is within int64, in bytes. */
static bool are_in_reach(const stg_attend *attend, const stg_attend_tensors *t) {
  const struct stg_decode_geometry *g = &attend->geometry;
  size_t at = g->dim;
  return step_to_last(t->seq_stride, attend->batch, &at) &&
         step_to_last(t->head_stride, g->kv_heads, &at) &&
         step_to_last(t->pos_stride, attend->capacity, &at) &&
         at <= INT64_MAX / stg_dtype_bytes(g->dtype);
}

/* K and V that are no cache's: packed where no stride is given. */
static stg_status check_keys(const stg_attend *attend, stg_attend_tensors *t, stg_error *reterr) {
  const struct stg_decode_geometry *g = &attend->geometry;
  const size_t element = stg_dtype_bytes(g->dtype);
  if (attend->kv != NULL) {
    return t->k == NULL && t->v == NULL && t->len == NULL
               ? STG_OK
               : stg_error_set(reterr, STG_E_INVALID,
                               "k: %p, v: %p, len: %p; the attend reads those of its cache", t->k,
                               t->v, (const void *)t->len);
  }
  if (t->k == NULL || t->v == NULL || (uintptr_t)t->k % element != 0 ||
      (uintptr_t)t->v % element != 0 || (uintptr_t)t->len % sizeof *t->len != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "k: %p, v: %p, len: %p; one is no address of its elements", t->k, t->v,
                         (const void *)t->len);
  }
  if (t->seq_stride == 0 && t->head_stride == 0 && t->pos_stride == 0) {
    t->pos_stride = (int64_t)g->dim;
    t->head_stride = attend->capacity * t->pos_stride;
    t->seq_stride = t->head_stride * (int64_t)g->kv_heads;
  }
  if (t->seq_stride < 0 || t->head_stride < 0 || t->pos_stride < 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "seq_stride: %lld, head_stride: %lld, pos_stride: %lld; one is below 0",
                         (long long)t->seq_stride, (long long)t->head_stride,
                         (long long)t->pos_stride);
  }
  return are_in_reach(attend, t)
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID,
                             "seq_stride: %lld, head_stride: %lld, pos_stride: %lld; %u sequences, "
                             "%u heads and %lld positions leave all memory; give smaller ones",
                             (long long)t->seq_stride, (long long)t->head_stride,
                             (long long)t->pos_stride, attend->batch, g->kv_heads,
                             (long long)attend->capacity);
}

static stg_status check_mask(const stg_attend *attend, stg_attend_tensors *t, stg_error *reterr) {
  if (attend->geometry.masked != (t->key_mask != NULL)) {
    return stg_error_set(reterr, STG_E_INVALID, "key_mask: %p; the attend declares %s",
                         (const void *)t->key_mask, attend->geometry.masked ? "one" : "none");
  }
  t->mask_stride = t->mask_stride != 0 ? t->mask_stride : attend->capacity;
  if (attend->geometry.masked && t->mask_stride < attend->capacity) {
    return stg_error_set(reterr, STG_E_INVALID, "mask_stride: %lld; a sequence has %lld positions",
                         (long long)t->mask_stride, (long long)attend->capacity);
  }
  size_t at = (size_t)attend->capacity;
  return !attend->geometry.masked || step_to_last(t->mask_stride, attend->batch, &at)
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID,
                             "mask_stride: %lld; %u sequences leave all memory; give a smaller one",
                             (long long)t->mask_stride, attend->batch);
}

stg_status stg_attend_check(const stg_attend *attend, const stg_rows *rows,
                            const stg_attend_tensors *tensors, uint32_t layer,
                            stg_attend_tensors *ret, stg_error *reterr) {
  const struct stg_decode_geometry *g = &attend->geometry;
  stg_attend_tensors whole = *tensors;
  if (rows == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_attend_apply: rows is NULL");
  }
  stg_status status = stg_rows_check(rows, attend->kv, attend->batch, "stg_attend_apply", reterr);
  if (status == STG_OK) {
    status = stg_attn_check_layer(attend->kv, layer, reterr);
  }
  const struct stg_attn_heads q = {"q", whole.q, &whole.q_stride, g->heads};
  const struct stg_attn_heads out = {"out", whole.out, &whole.out_stride, g->heads};
  if (status == STG_OK) {
    status = stg_attn_check_heads_of(g->dtype, g->order, g->dim, &q, rows->rows, reterr);
  }
  if (status == STG_OK) {
    status = stg_attn_check_heads_of(g->dtype, g->order, g->dim, &out, rows->rows, reterr);
  }
  if (status == STG_OK) {
    status = check_keys(attend, &whole, reterr);
  }
  if (status == STG_OK) {
    status = check_mask(attend, &whole, reterr);
  }
  if (status == STG_OK) {
    *ret = whole;
  }
  return status;
}

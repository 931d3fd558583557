/*
 * attn_check.h: checks that ropes and attends share: layers, pointers, strides; and alignment.
 */
#ifndef STG_ENGINE_ATTN_CHECK_H
#define STG_ENGINE_ATTN_CHECK_H

#include "codegen/rope.h"
#include "engine/attn.h"
#include "runtime/base/dtype.h"

/** STG_E_INVALID for a layer that the cache does not have; without a cache there is layer 0. */
static inline stg_status stg_attn_check_layer(const stg_kv *kv, uint32_t layer, stg_error *reterr) {
  const uint32_t layers = kv != NULL ? kv->form.layers : 1;
  return layer < layers
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID, "layer: %u is not below %u", layer, layers);
}

/** STG_E_INVALID unless a tensor has `count` slices of `elems` elements each; its stride is filled
 * in where it is 0. Without elements there may be no memory. */
static inline stg_status stg_attn_check_row(stg_dtype dtype, const char *name, const void *data,
                                            int64_t elems, int64_t count, int64_t *stride,
                                            stg_error *reterr) {
  if ((data == NULL && count > 0 && elems > 0) || (uintptr_t)data % stg_dtype_bytes(dtype) != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: %p is no address of %s elements", name, data,
                         stg_dtype_name(dtype));
  }
  *stride = *stride != 0 ? *stride : elems;
  if (*stride < elems) {
    return stg_error_set(reterr, STG_E_INVALID, "%s_stride: %lld; what it steps over has %lld",
                         name, (long long)*stride, (long long)elems);
  }
  return *stride <= INT64_MAX / 2 / (count + 1) / 4
             ? STG_OK
             : stg_error_set(
                   reterr, STG_E_INVALID,
                   "%s_stride: %lld; %lld such steps leave all memory; give a smaller one", name,
                   (long long)*stride, (long long)count);
}

/* A tensor of single heads in a rope's or an attend's order. */
struct stg_attn_heads {
  const char *name;
  const void *data;
  int64_t *stride;
  uint32_t heads;
};

/** The same of `count` rows of heads. */
static inline stg_status stg_attn_check_heads_of(stg_dtype dtype, enum stg_heads_order order,
                                                 uint32_t dim, const struct stg_attn_heads *heads,
                                                 int64_t count, stg_error *reterr) {
  const bool by_rows = order == STG_HEADS_ROWS_FIRST;
  const int64_t slice = (by_rows ? (int64_t)heads->heads : count) * (int64_t)dim;
  return stg_attn_check_row(dtype, heads->name, heads->data, slice,
                            by_rows ? count : (int64_t)heads->heads, heads->stride, reterr);
}

static inline stg_status stg_attn_check_heads(const struct stg_rope_geometry *g,
                                              const struct stg_attn_heads *heads, int64_t count,
                                              stg_error *reterr) {
  return stg_attn_check_heads_of(g->dtype, g->order, g->dim, heads, count, reterr);
}

/** Whether an address and a stride of elements are of 16 bytes in whole. */
static inline bool stg_attn_is_aligned(stg_dtype dtype, const void *data, int64_t stride) {
  return (uintptr_t)data % 16 == 0 && stride * (int64_t)stg_dtype_bytes(dtype) % 16 == 0;
}

#endif

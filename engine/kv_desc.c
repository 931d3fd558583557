/*
 * kv_desc.c: what a cache is declared as: checked, with the strides and sizes that follow.
 */
#include "codegen/decode_kernel.h"
#include "engine/attn.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"

#define MIN_BLOCK (1U << STG_DECODE_MIN_BLOCK_SHIFT)
#define MAX_BLOCK 1024U
/* A full sequence is at a position that there is: its next row has no room, and is no bad row. */
#define MAX_CAPACITY STG_MAX_POSITION

static stg_status check_extents(const stg_kv_desc *desc, stg_error *reterr) {
  if (desc->layers > INT32_MAX || desc->batch < 1 || desc->batch > INT32_MAX) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "layers: %u, batch: %u; both are up to 2^31 - 1, "
                         "and there is a sequence at least",
                         desc->layers, desc->batch);
  }
  if (desc->kv_heads < 1 || desc->kv_heads > STG_ROPE_MAX_HEADS) {
    return stg_error_set(reterr, STG_E_INVALID, "kv_heads: %u is not in 1..%u", desc->kv_heads,
                         STG_ROPE_MAX_HEADS);
  }
  if (desc->dim < 2 || desc->dim > STG_ROPE_MAX_DIM || desc->dim % 2 != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dim: %u is not even and in 2..%u", desc->dim,
                         STG_ROPE_MAX_DIM);
  }
  if (desc->capacity < 1 || desc->capacity > MAX_CAPACITY) {
    return stg_error_set(reterr, STG_E_INVALID, "capacity: %lld is not in 1..%lld",
                         (long long)desc->capacity, (long long)MAX_CAPACITY);
  }
  if (stg_dtype_bytes(desc->dtype) == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "dtype: %d is none of bf16 (1), f16 (2), f32 (3)",
                         (int)desc->dtype);
  }
  return STG_OK;
}

static stg_status check_blocks(const stg_kv_desc *desc, stg_error *reterr) {
  if (desc->block == 0 && (desc->n_blocks != 0 || desc->block_table != NULL)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "n_blocks: %u and a block table at %p need a block of so many positions",
                         desc->n_blocks, (const void *)desc->block_table);
  }
  if (desc->block != 0 &&
      (desc->block < MIN_BLOCK || desc->block > MAX_BLOCK || !stg_is_pow2(desc->block))) {
    return stg_error_set(reterr, STG_E_INVALID, "block: %u is no power of two from %u to %u",
                         desc->block, MIN_BLOCK, MAX_BLOCK);
  }
  if (desc->block != 0 && (desc->n_blocks < 1 || desc->n_blocks > INT32_MAX)) {
    return stg_error_set(reterr, STG_E_INVALID, "n_blocks: %u is not in 1..2^31 - 1",
                         desc->n_blocks);
  }
  if ((desc->k == NULL) != (desc->v == NULL)) {
    return stg_error_set(reterr, STG_E_INVALID, "k: %p, v: %p; both are given, or neither", desc->k,
                         desc->v);
  }
  const size_t element = stg_dtype_bytes(desc->dtype);
  if ((uintptr_t)desc->k % element != 0 || (uintptr_t)desc->v % element != 0 ||
      (uintptr_t)desc->len % sizeof(int32_t) != 0 ||
      (uintptr_t)desc->block_table % sizeof(int32_t) != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "k: %p, v: %p, len: %p, block_table: %p; one lies between its elements",
                         desc->k, desc->v, (const void *)desc->len,
                         (const void *)desc->block_table);
  }
  return STG_OK;
}

/* Sizes of what the desc asks for; false: no machine has as much. */
static bool measure(struct stg_kv_form *form) {
  size_t elems = form->dim;
  const size_t factors[] = {
      form->block != 0 ? form->block : (size_t)form->capacity,
      form->kv_heads,
      form->block != 0 ? form->n_blocks : form->batch,
      form->layers,
  };
  int64_t *const strides[] = {&form->head_stride, &form->seq_stride, &form->layer_stride, NULL};
  form->pos_stride = (int64_t)form->dim;
  for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
    if (!stg_mul_size(elems, factors[i], &elems) || elems > SIZE_MAX / 16) {
      return false;
    }
    if (strides[i] != NULL) {
      *strides[i] = (int64_t)elems;
    }
  }
  size_t entries = 0;
  form->tensor_bytes = elems * stg_dtype_bytes(form->dtype);
  return stg_mul_size((size_t)form->table_row, form->batch, &entries) &&
         entries <= SIZE_MAX / sizeof(int32_t) / 2;
}

stg_status stg_kv_form_init(const stg_kv_desc *desc, struct stg_kv_form *ret, stg_error *reterr) {
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID, "desc is NULL, or struct_size is not %zu",
                         sizeof *desc);
  }
  stg_status status = check_extents(desc, reterr);
  if (status == STG_OK) {
    status = check_blocks(desc, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_kv_form form = {
      .layers = desc->layers != 0 ? desc->layers : 1,
      .batch = desc->batch,
      .kv_heads = desc->kv_heads,
      .dim = desc->dim,
      .capacity = desc->capacity,
      .dtype = desc->dtype,
      .block = desc->block,
      .block_shift = stg_kv_block_shift(desc->block),
      .n_blocks = desc->n_blocks,
      .table_row = desc->block != 0 ? (desc->capacity + desc->block - 1) / desc->block : 0,
  };
  if (!measure(&form)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "a cache of %u layers, %u sequences and %lld positions is larger than any "
                         "memory",
                         form.layers, form.batch, (long long)form.capacity);
  }
  *ret = form;
  return STG_OK;
}

/*
 * kv.c: a cache: what it allocates and borrows, how it ends, where its parts are.
 */
#include <string.h>

#include "engine/attn.h"
#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* What is the cache's own: K, V, lengths, table; 0: borrowed, or not there. */
struct own_bytes {
  size_t of[4];
};

static struct own_bytes own_bytes_of(const stg_kv_desc *desc, const struct stg_kv_form *form) {
  const size_t entries = (size_t)form->table_row * form->batch;
  return (struct own_bytes){{
      desc->k == NULL ? form->tensor_bytes : 0,
      desc->v == NULL ? form->tensor_bytes : 0,
      desc->len == NULL ? form->batch * sizeof(int32_t) : 0,
      desc->block_table == NULL ? entries * sizeof(int32_t) : 0,
  }};
}

static size_t sum_of(const struct own_bytes *own) {
  size_t sum = sizeof(struct stg_kv_words);
  for (size_t i = 0; i < sizeof own->of / sizeof own->of[0]; i++) {
    sum += own->of[i];
  }
  return sum;
}

stg_status stg_kv_bytes(const stg_engine *engine, const stg_kv_desc *desc, size_t *ret_bytes,
                        stg_error *reterr) {
  struct stg_kv_form form;
  if (engine == NULL || ret_bytes == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_kv_bytes: engine or ret_bytes is NULL");
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = stg_kv_form_init(desc, &form, reterr);
  }
  if (status == STG_OK) {
    const struct own_bytes own = own_bytes_of(desc, &form);
    *ret_bytes = sum_of(&own);
  }
  return status;
}

/* Words on the engine's side, each the same; `memory` may be NULL. */
static stg_status fill(struct stg_engine *engine, void *memory, uint32_t word, size_t bytes,
                       stg_error *reterr) {
  if (memory == NULL) {
    return STG_OK;
  }
  if (stg_engine_is_cuda(engine)) {
    return stg_fill_u32(engine->device, stg_attn_address(memory), word, bytes / sizeof word,
                        engine->stream, reterr);
  }
  memset(memory, (int)(word & 0xff), bytes); /* all words here have equal bytes */
  return STG_OK;
}

static stg_status allocate(stg_kv *kv, const struct own_bytes *own, stg_error *reterr) {
  struct stg_engine *engine = kv->object.engine;
  stg_status status = STG_OK;
  for (size_t i = 0; i < sizeof own->of / sizeof own->of[0] && status == STG_OK; i++) {
    if (own->of[i] > 0) {
      status = stg_mem_alloc(engine, own->of[i], &kv->own[i], reterr);
    }
  }
  void *words = NULL;
  if (status == STG_OK) {
    status = stg_mem_alloc(engine, sizeof *kv->words, &words, reterr);
  }
  kv->words = words;
  if (status == STG_OK) {
    status = fill(engine, kv->own[2], 0, own->of[2], reterr);
  }
  if (status == STG_OK) {
    status = fill(engine, kv->own[3], UINT32_MAX, own->of[3], reterr);
  }
  if (status == STG_OK) {
    status = fill(engine, words, 0, sizeof *kv->words, reterr);
  }
  if (status == STG_OK) {
    status = fill(engine, words, UINT32_MAX, offsetof(struct stg_kv_words, full_rows), reterr);
  }
  return status;
}

/* The largest of what one call of set_len or set_blocks may bring. */
static size_t staged_bytes(const struct stg_kv_form *form) {
  const size_t row = (size_t)form->table_row;
  return (row > form->batch ? row : form->batch) * sizeof(int32_t);
}

static stg_status create_device_side(stg_kv *kv, stg_error *reterr) {
  struct stg_device *device = kv->object.engine->device;
  stg_status status = stg_staging_init(&kv->staging, device, staged_bytes(&kv->form), 1, reterr);
  if (status == STG_OK) {
    status = stg_pinned_alloc(device, sizeof *kv->words, &kv->pinned_words, reterr);
  }
  return status == STG_OK ? stg_stream_synchronize(device, kv->object.engine->stream, reterr)
                          : status;
}

static stg_status open_advance(stg_kv *kv, stg_error *reterr) {
  const struct stg_rope_kernel kernel = {.work = STG_ROPE_ADVANCE};
  struct stg_rope_decl decl;
  stg_status status = stg_rope_decl_init(&kernel, &decl, reterr);
  return status == STG_OK ? stg_kernels_open(kv->object.engine, &decl.base, &kv->advance, reterr)
                          : status;
}

static void release(stg_kv *kv) {
  struct stg_engine *engine = kv->object.engine;
  stg_usage_let_go(&engine->usage, &kv->held);
  stg_kernels_close(kv->advance);
  stg_staging_finish(&kv->staging, NULL);
  if (engine->device != NULL && kv->pinned_words != NULL) {
    stg_pinned_free(engine->device, kv->pinned_words);
  }
  for (size_t i = 0; i < sizeof kv->own / sizeof kv->own[0]; i++) {
    stg_mem_free(engine, kv->own[i]);
  }
  stg_mem_free(engine, kv->words);
  pthread_mutex_destroy(&kv->lock);
  stg_attn_object_finish(&kv->object);
  stg_free(kv);
}

static void place(stg_kv *kv, const stg_kv_desc *desc) {
  kv->k = desc->k != NULL ? desc->k : kv->own[0];
  kv->v = desc->v != NULL ? desc->v : kv->own[1];
  kv->len = desc->len != NULL ? desc->len : kv->own[2];
  kv->block_table = desc->block_table != NULL ? desc->block_table : kv->own[3];
}

stg_status stg_kv_create(stg_engine *engine, const stg_kv_desc *desc, stg_kv **ret_kv,
                         stg_error *reterr) {
  if (engine == NULL || ret_kv == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_kv_create: engine or ret_kv is NULL");
  }
  struct stg_kv_form form;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = stg_kv_form_init(desc, &form, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_kv *kv = stg_calloc(1, sizeof *kv);
  if (kv == NULL) {
    return stg_error_memory(reterr, "a KV cache", sizeof *kv);
  }
  stg_attn_object_init(&kv->object, engine, STG_OBJECT_KV, "KV cache");
  pthread_mutex_init(&kv->lock, NULL);
  kv->form = form;
  const struct own_bytes own = own_bytes_of(desc, &form);
  status = allocate(kv, &own, reterr);
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = create_device_side(kv, reterr);
  }
  if (status == STG_OK) {
    status = open_advance(kv, reterr);
  }
  if (status != STG_OK) {
    release(kv);
    return status;
  }
  place(kv, desc);
  if (stg_engine_is_cuda(engine)) {
    kv->held = (struct stg_held_bytes){
        .kv = sum_of(&own), .pinned = stg_staging_bytes(&kv->staging) + sizeof *kv->words};
    stg_usage_hold(&engine->usage, &kv->held);
  }
  *ret_kv = kv;
  return STG_OK;
}

stg_status stg_kv_destroy(stg_kv *kv, stg_error *reterr) {
  if (kv == NULL || stg_engine_check_process(kv->object.engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  stg_status status = stg_attn_object_check_unused(&kv->object, "stg_kv_destroy", reterr);
  if (status == STG_OK) {
    release(kv);
  }
  return status;
}

void stg_kv_get_tensors(const stg_kv *kv, stg_kv_tensors *tensors) {
  if (kv == NULL || tensors == NULL || tensors->struct_size != sizeof *tensors) {
    return;
  }
  *tensors = (stg_kv_tensors){
      .struct_size = sizeof *tensors,
      .k = kv->k,
      .v = kv->v,
      .len = kv->len,
      .block_table = kv->block_table,
      .blocks = kv->form.table_row,
      .layer_stride = kv->form.layer_stride,
      .seq_stride = kv->form.seq_stride,
      .head_stride = kv->form.head_stride,
  };
}

static void *layer_of(const stg_kv *kv, void *tensor, uint32_t layer) {
  const size_t layer_bytes = kv->form.tensor_bytes / kv->form.layers;
  return (void *)((uintptr_t)tensor + layer * layer_bytes);
}

struct stg_kv_view stg_kv_view_of(const stg_kv *kv, uint32_t layer) {
  const struct stg_kv_form *form = &kv->form;
  return (struct stg_kv_view){
      .dtype = form->dtype,
      .batch = form->batch,
      .kv_heads = form->kv_heads,
      .dim = form->dim,
      .capacity = form->capacity,
      .k = layer_of(kv, kv->k, layer),
      .v = layer_of(kv, kv->v, layer),
      .seq_stride = form->seq_stride,
      .head_stride = form->head_stride,
      .pos_stride = form->pos_stride,
      .block_table = kv->block_table,
      .table_row = form->table_row,
      .block_shift = form->block_shift,
      .n_blocks = form->n_blocks,
  };
}

struct stg_kv_args stg_kv_args_of(const struct stg_kv_view *view) {
  return (struct stg_kv_args){
      .k = stg_attn_address(view->k),
      .v = stg_attn_address(view->v),
      .block_table = stg_attn_address(view->block_table),
      .seq_stride = view->seq_stride,
      .head_stride = view->head_stride,
      .pos_stride = view->pos_stride,
      .capacity = (int32_t)view->capacity,
      .table_row = (int32_t)view->table_row,
      .block_shift = view->block_shift,
      .n_blocks = (int32_t)view->n_blocks,
  };
}

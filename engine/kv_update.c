/*
 * kv_update.c: lengths and blocks of a cache, set from the host in the order of a stream.
 */
#include <string.h>

#include "engine/attn.h"
#include "runtime/base/alloc.h"

/* `count` words of the host's for words on the engine's side; neighbours in one copy. */
static stg_status copy_run(const stg_kv *kv, int32_t *to, const int32_t *from, size_t count,
                           stg_stream stream, stg_error *reterr) {
  return stg_copy_to_device(kv->object.engine->device, stg_attn_address(to), from,
                            count * sizeof *from, stream, reterr);
}

/* A set_len or set_blocks: where each of `count` values goes. */
struct update {
  int32_t *to;
  const uint32_t *places; /* [count]; NULL: from `to` on */
  const int32_t *values;
  size_t count;
};

/* Runs of neighbouring places, each by one copy. */
static stg_status send(const stg_kv *kv, const struct update *update, const int32_t *staged,
                       stg_stream stream, stg_error *reterr) {
  stg_status status = STG_OK;
  if (update->places == NULL) {
    return copy_run(kv, update->to, staged, update->count, stream, reterr);
  }
  for (size_t from = 0, to; from < update->count && status == STG_OK; from = to) {
    for (to = from + 1; to < update->count && update->places[to] == update->places[to - 1] + 1;) {
      to++;
    }
    status =
        copy_run(kv, update->to + update->places[from], staged + from, to - from, stream, reterr);
  }
  return status;
}

static stg_status update_cuda(stg_kv *kv, const struct update *update, stg_stream stream,
                              stg_error *reterr) {
  struct stg_staging_buffer *buffer = NULL;
  pthread_mutex_lock(&kv->lock);
  stg_status status = stg_staging_acquire(&kv->staging, NULL, &buffer, reterr);
  if (status == STG_OK) {
    memcpy(buffer->host, update->values, update->count * sizeof *update->values);
    status = send(kv, update, buffer->host, stream, reterr);
    stg_status committed =
        stg_staging_commit(&kv->staging, buffer, stream, status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? committed : status;
    atomic_fetch_add(&kv->changes, 1);
  }
  pthread_mutex_unlock(&kv->lock);
  return status;
}

static stg_status apply(stg_kv *kv, const struct update *update, const char *call,
                        stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = kv->object.engine;
  if (!stg_engine_is_cuda(engine)) {
    for (size_t i = 0; i < update->count; i++) {
      update->to[update->places != NULL ? update->places[i] : i] = update->values[i];
    }
    return STG_OK;
  }
  bool capturing = false;
  stg_status status = stg_stream_is_capturing(engine->device, stream, &capturing, reterr);
  if (status == STG_OK && capturing) {
    status = stg_error_set(reterr, STG_E_CAPTURING,
                           "%s: the stream is capturing; call before the capture begins", call);
  }
  return status == STG_OK && update->count > 0 ? update_cuda(kv, update, stream, reterr) : status;
}

static stg_status check_lens(const stg_kv *kv, const uint32_t *seqs, const int32_t *lens,
                             size_t count, stg_error *reterr) {
  const struct stg_kv_form *form = &kv->form;
  if (count > form->batch) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_kv_set_len: %zu lengths of %u sequences",
                         count, form->batch);
  }
  for (size_t i = 0; i < count; i++) {
    if (seqs[i] >= form->batch) {
      return stg_error_set(reterr, STG_E_INVALID, "seqs[%zu]: %u is no sequence below %u", i,
                           seqs[i], form->batch);
    }
    if (lens[i] < 0 || lens[i] > form->capacity) {
      return stg_error_set(reterr, STG_E_INVALID, "lens[%zu]: %d is not in 0..%lld", i, lens[i],
                           (long long)form->capacity);
    }
  }
  return STG_OK;
}

/* By marks where there are many. */
static stg_status check_once(const stg_kv *kv, const uint32_t *seqs, size_t count,
                             stg_error *reterr) {
  unsigned char *seen = stg_calloc(kv->form.batch, 1);
  if (seen == NULL) {
    return stg_error_memory(reterr, "marks of sequences", kv->form.batch);
  }
  stg_status status = STG_OK;
  for (size_t i = 0; i < count && status == STG_OK; i++) {
    if (seen[seqs[i]]++ != 0) {
      status = stg_error_set(reterr, STG_E_INVALID, "seqs[%zu]: %u comes twice", i, seqs[i]);
    }
  }
  stg_free(seen);
  return status;
}

stg_status stg_kv_set_len(stg_kv *kv, const uint32_t *seqs, const int32_t *lens, size_t count,
                          stg_stream stream, stg_error *reterr) {
  if (kv == NULL || (count > 0 && (seqs == NULL || lens == NULL))) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_kv_set_len: kv, seqs or lens is NULL");
  }
  stg_status status = stg_engine_check_process(kv->object.engine, reterr);
  if (status == STG_OK) {
    status = check_lens(kv, seqs, lens, count, reterr);
  }
  if (status == STG_OK && count > 1) {
    status = check_once(kv, seqs, count, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const struct update update = {kv->len, seqs, lens, count};
  return apply(kv, &update, "stg_kv_set_len", stream, reterr);
}

static stg_status check_blocks(const stg_kv *kv, uint32_t seq, int64_t first, const int32_t *blocks,
                               size_t count, stg_error *reterr) {
  const struct stg_kv_form *form = &kv->form;
  if (form->block == 0) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED,
                         "stg_kv_set_blocks: the cache is dense; declare block and n_blocks");
  }
  if (seq >= form->batch) {
    return stg_error_set(reterr, STG_E_INVALID, "seq: %u is no sequence below %u", seq,
                         form->batch);
  }
  if (first < 0 || first > form->table_row || (int64_t)count > form->table_row - first) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "first: %lld with %zu blocks; a sequence has %lld of %u positions",
                         (long long)first, count, (long long)form->table_row, form->block);
  }
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] < -1 || blocks[i] >= (int64_t)form->n_blocks) {
      return stg_error_set(reterr, STG_E_INVALID, "blocks[%zu]: %d is no block below %u, nor -1", i,
                           blocks[i], form->n_blocks);
    }
  }
  return STG_OK;
}

stg_status stg_kv_set_blocks(stg_kv *kv, uint32_t seq, int64_t first, const int32_t *blocks,
                             size_t count, stg_stream stream, stg_error *reterr) {
  if (kv == NULL || (count > 0 && blocks == NULL)) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_kv_set_blocks: kv or blocks is NULL");
  }
  stg_status status = stg_engine_check_process(kv->object.engine, reterr);
  if (status == STG_OK) {
    status = check_blocks(kv, seq, first, blocks, count, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const struct update update = {kv->block_table + seq * kv->form.table_row + first, NULL, blocks,
                                count};
  return apply(kv, &update, "stg_kv_set_blocks", stream, reterr);
}

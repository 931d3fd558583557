/*
 * rows.c: the rows of a step: room for them at fixed addresses, and how launches are told of them.
 */
#include "engine/attn.h"
#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

#define DEFAULT_MAX_ROWS 2048
#define MAX_ROWS (1U << 24)
#define WORDS_OF_POS 2 /* int64 */

/* Positions begin at a multiple of 8 bytes. */
static size_t map_words(int64_t rows) {
  return stg_round_up(STG_ROWS_HEADER_WORDS + (size_t)rows, WORDS_OF_POS) +
         WORDS_OF_POS * (size_t)rows;
}

static stg_status create_device_side(stg_rows *rows, stg_error *reterr) {
  struct stg_engine *engine = rows->object.engine;
  const size_t words = map_words(rows->capacity);
  stg_status status = stg_device_alloc(engine->device, words * sizeof(int32_t), &rows->map, reterr);
  if (status == STG_OK) {
    status = stg_staging_init(&rows->staging, engine->device, words * sizeof(int32_t), 1, reterr);
  }
  if (status == STG_OK) {
    /* a block asks for an entry before it knows that there is none */
    status = stg_fill_u32(engine->device, rows->map, 0, words, engine->stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_pins_refill(&rows->object.pins, reterr);
  }
  return status == STG_OK ? stg_stream_synchronize(engine->device, engine->stream, reterr) : status;
}

static stg_status create_host_side(stg_rows *rows, stg_error *reterr) {
  const size_t capacity = (size_t)rows->capacity;
  rows->seq = stg_calloc(capacity, sizeof *rows->seq);
  rows->pos = stg_calloc(capacity, sizeof *rows->pos);
  return rows->seq != NULL && rows->pos != NULL
             ? STG_OK
             : stg_error_memory(reterr, "the rows of a step",
                                capacity * (sizeof *rows->seq + sizeof *rows->pos));
}

static void release(stg_rows *rows) {
  struct stg_engine *engine = rows->object.engine;
  stg_usage_let_go(&engine->usage, &rows->held);
  stg_workspaces_free(engine, rows->workspace);
  stg_staging_finish(&rows->staging, NULL);
  if (engine->device != NULL && rows->map != 0) {
    stg_device_free(engine->device, rows->map);
  }
  stg_free(rows->counts);
  stg_free(rows->seq);
  stg_free(rows->pos);
  stg_attn_object_finish(&rows->object);
  stg_free(rows);
}

static stg_status check_desc(const stg_engine *engine, const stg_rows_desc *desc,
                             stg_error *reterr) {
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rows_create: desc is NULL, or struct_size is not %zu", sizeof *desc);
  }
  if (desc->max_rows > MAX_ROWS) {
    return stg_error_set(reterr, STG_E_INVALID, "max_rows: %u is more than %u", desc->max_rows,
                         MAX_ROWS);
  }
  if ((desc->kv == NULL) == (desc->batch == 0) || desc->batch > INT32_MAX) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "batch: %u %s; it is the cache's, or without one from 1 to 2^31 - 1",
                         desc->batch, desc->kv != NULL ? "with a cache" : "without a cache");
  }
  if (desc->kv != NULL && desc->kv->object.engine != engine) {
    return stg_error_set(reterr, STG_E_INVALID, "kv: the cache is of another engine");
  }
  return STG_OK;
}

stg_status stg_rows_create(stg_engine *engine, const stg_rows_desc *desc, stg_rows **ret_rows,
                           stg_error *reterr) {
  if (engine == NULL || ret_rows == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_rows_create: engine or ret_rows is NULL");
  }
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = check_desc(engine, desc, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_rows *rows = stg_calloc(1, sizeof *rows);
  if (rows == NULL) {
    return stg_error_memory(reterr, "the rows of a step", sizeof *rows);
  }
  stg_attn_object_init(&rows->object, engine, STG_OBJECT_ROWS, "rows");
  rows->batch = desc->kv != NULL ? desc->kv->form.batch : desc->batch;
  rows->max_rows = desc->max_rows != 0 ? desc->max_rows : DEFAULT_MAX_ROWS;
  struct stg_graph_shape largest = {0};
  status = stg_attn_shape(rows->max_rows, 1, 1, &largest, reterr);
  rows->capacity = largest.rows;
  if (status == STG_OK) {
    rows->counts = stg_calloc(rows->batch, sizeof *rows->counts);
    status = rows->counts != NULL ? STG_OK
                                  : stg_error_memory(reterr, "the rows of a step",
                                                     rows->batch * sizeof *rows->counts);
  }
  if (status == STG_OK) {
    status = stg_engine_is_cuda(engine) ? create_device_side(rows, reterr)
                                        : create_host_side(rows, reterr);
  }
  if (status != STG_OK) {
    release(rows);
    return status;
  }
  rows->kv = desc->kv;
  stg_attn_object_use(rows->kv != NULL ? &rows->kv->object : NULL);
  if (stg_engine_is_cuda(engine)) {
    rows->held = (struct stg_held_bytes){.frame = map_words(rows->capacity) * sizeof(int32_t),
                                         .pinned = stg_staging_bytes(&rows->staging)};
    stg_usage_hold(&engine->usage, &rows->held);
  }
  *ret_rows = rows;
  return STG_OK;
}

stg_status stg_rows_destroy(stg_rows *rows, stg_error *reterr) {
  if (rows == NULL || stg_engine_check_process(rows->object.engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  stg_status status = stg_attn_object_check_unused(&rows->object, "stg_rows_destroy", reterr);
  if (status != STG_OK) {
    return status;
  }
  if (rows->stepped && stg_engine_is_cuda(rows->object.engine)) {
    stg_status waited = stg_stream_synchronize(rows->object.engine->device, rows->stream, NULL);
    (void)waited; /* a lost device has no work in flight; the rows go either way */
  }
  stg_kv *kv = rows->kv;
  release(rows);
  stg_attn_object_let_go(kv != NULL ? &kv->object : NULL);
  return STG_OK;
}

stg_status stg_rows_check(const stg_rows *rows, const stg_kv *kv, uint32_t batch, const char *what,
                          stg_error *reterr) {
  if (kv != NULL ? rows->kv != kv : rows->batch != batch) {
    return kv != NULL
               ? stg_error_set(reterr, STG_E_INVALID, "%s: the rows are of another cache", what)
               : stg_error_set(reterr, STG_E_INVALID,
                               "%s: the rows are of %u sequences, the tensors of %u", what,
                               rows->batch, batch);
  }
  return rows->stepped
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID, "%s: the rows have had no step", what);
}

struct stg_step_rows stg_rows_host(const stg_rows *rows) {
  return (struct stg_step_rows){
      .rows = rows->rows,
      .batch = rows->batch,
      .seq = rows->seq,
      .pos = rows->has_pos ? rows->pos : NULL,
      .pos_is_64 = true,
      .len = rows->kv != NULL ? rows->kv->len : NULL,
  };
}

struct stg_rows_args stg_rows_args_of(const stg_rows *rows, int64_t count) {
  return (struct stg_rows_args){
      .map = rows->map,
      .len = rows->kv != NULL ? stg_attn_address(rows->kv->len) : 0,
      .rows = (int32_t)count,
      .batch = rows->batch,
  };
}

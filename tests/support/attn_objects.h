/*
 * attn_objects.h: a small cache with all that goes with it, float32, for tests of calls and not of
 * numbers; and what a call must say. For cmocka.
 */
#ifndef STG_TESTS_SUPPORT_ATTN_OBJECTS_H
#define STG_TESTS_SUPPORT_ATTN_OBJECTS_H

#include <string.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"

#define OBJ_LAYERS 2
#define OBJ_BATCH 3
#define OBJ_HEADS 4
#define OBJ_KV_HEADS 2
#define OBJ_DIM 8
#define OBJ_CAPACITY 16
#define OBJ_MAX_ROWS 12
#define OBJ_ROW ((size_t)OBJ_HEADS * OBJ_DIM)
#define OBJ_PACKED ((size_t)(OBJ_HEADS + 2 * OBJ_KV_HEADS) * OBJ_DIM)

struct objects {
  stg_engine *engine;
  stg_kv *kv;
  stg_rows *rows;
  stg_rope *rope;
  stg_attend *attend;
  stg_block *block;
  float *qkv, *q, *out; /* of OBJ_MAX_ROWS */
};

static inline void must(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

/* Fail unless a call gave this status and exactly this message. */
static inline void must_say(stg_status wanted, const char *message, stg_status status,
                            const stg_error *error) {
  if (status != wanted || strcmp(message, error->message) != 0) {
    fail_msg("%s: '%s', not %s: '%s'", stg_status_name(status), error->message,
             stg_status_name(wanted), message);
  }
}

/* Make a copy of `base`, change it, and see what is said of it. */
#define REFUSED(base, change, status, message, call)                                               \
  do {                                                                                             \
    stg_error error = STG_ERROR_INIT;                                                              \
    desc = (base);                                                                                 \
    change;                                                                                        \
    must_say(status, message, call, &error);                                                       \
  } while (0)

static inline stg_kv_desc obj_kv_desc(void) {
  return (stg_kv_desc){.struct_size = sizeof(stg_kv_desc),
                       .layers = OBJ_LAYERS,
                       .batch = OBJ_BATCH,
                       .kv_heads = OBJ_KV_HEADS,
                       .dim = OBJ_DIM,
                       .capacity = OBJ_CAPACITY,
                       .dtype = STG_F32};
}

static inline stg_rope_desc obj_rope_desc(stg_kv *kv) {
  return (stg_rope_desc){.struct_size = sizeof(stg_rope_desc), .heads = OBJ_HEADS, .kv = kv};
}

static inline stg_attend_desc obj_attend_desc(stg_kv *kv) {
  return (stg_attend_desc){.struct_size = sizeof(stg_attend_desc), .heads = OBJ_HEADS, .kv = kv};
}

static inline stg_rows_desc obj_rows_desc(stg_kv *kv) {
  return (stg_rows_desc){.struct_size = sizeof(stg_rows_desc), .kv = kv, .max_rows = OBJ_MAX_ROWS};
}

static inline float *obj_floats(const struct objects *all, size_t count) {
  static const float zeros[OBJ_MAX_ROWS * OBJ_PACKED];
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  must(stg_mem_alloc(all->engine, count * sizeof(float), &memory, &error), &error);
  must(stg_mem_upload(all->engine, memory, zeros, count * sizeof(float), &error), &error);
  return memory;
}

static inline stg_engine *obj_engine(stg_backend backend, stg_launch_mode launch) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_engine *engine = NULL;
  stg_options_init(&options);
  options.backend = backend;
  options.compile = STG_COMPILE_BLOCK;
  options.cache_mode = STG_CACHE_OFF;
  options.launch = launch;
  must(stg_engine_create(&options, &engine, &error), &error);
  return engine;
}

/* All but the block, on an engine that there is, of a cache as described. */
static inline void obj_open_of(struct objects *all, stg_engine *engine, const stg_kv_desc *kv) {
  stg_error error = STG_ERROR_INIT;
  *all = (struct objects){.engine = engine};
  must(stg_kv_create(engine, kv, &all->kv, &error), &error);
  const stg_rope_desc rope = obj_rope_desc(all->kv);
  const stg_attend_desc attend = obj_attend_desc(all->kv);
  const stg_rows_desc rows = obj_rows_desc(all->kv);
  must(stg_rope_create(engine, &rope, &all->rope, &error), &error);
  must(stg_attend_create(engine, &attend, &all->attend, &error), &error);
  must(stg_rows_create(engine, &rows, &all->rows, &error), &error);
  all->qkv = obj_floats(all, OBJ_MAX_ROWS * OBJ_PACKED);
  all->q = obj_floats(all, OBJ_MAX_ROWS * OBJ_ROW);
  all->out = obj_floats(all, OBJ_MAX_ROWS * OBJ_ROW);
}

static inline void obj_open_on(struct objects *all, stg_engine *engine) {
  const stg_kv_desc kv = obj_kv_desc();
  obj_open_of(all, engine, &kv);
}

static inline void obj_open_block(struct objects *all) {
  const stg_block_desc desc = {
      .struct_size = sizeof desc, .rope = all->rope, .attend = all->attend, .advance = true};
  stg_error error = STG_ERROR_INIT;
  must(stg_block_create(all->engine, &desc, &all->block, &error), &error);
}

static inline void obj_open(struct objects *all, stg_backend backend) {
  obj_open_on(all, obj_engine(backend, STG_LAUNCH_DEFAULT));
}

/* All but the engine. */
static inline void obj_close_on(struct objects *all) {
  stg_error error = STG_ERROR_INIT;
  stg_block_destroy(all->block);
  must(stg_rows_destroy(all->rows, &error), &error);
  must(stg_attend_destroy(all->attend, &error), &error);
  must(stg_rope_destroy(all->rope, &error), &error);
  must(stg_kv_destroy(all->kv, &error), &error);
  stg_mem_free(all->engine, all->qkv);
  stg_mem_free(all->engine, all->q);
  stg_mem_free(all->engine, all->out);
}

static inline void obj_close(struct objects *all) {
  stg_error error = STG_ERROR_INIT;
  obj_close_on(all);
  must(stg_engine_destroy(all->engine, &error), &error);
}

static inline stg_rope_tensors obj_rope_tensors(const struct objects *all, uint32_t layer) {
  return (stg_rope_tensors){
      .struct_size = sizeof(stg_rope_tensors), .layer = layer, .qkv = all->qkv, .q = all->q};
}

static inline stg_attend_tensors obj_attend_tensors(const struct objects *all, uint32_t layer) {
  return (stg_attend_tensors){
      .struct_size = sizeof(stg_attend_tensors), .layer = layer, .q = all->q, .out = all->out};
}

/* Rows in the decode form. */
static inline stg_status obj_try_rows(const struct objects *all, const int32_t *seq, int64_t rows,
                                      stg_error *reterr) {
  const stg_rows_step step = {.struct_size = sizeof step, .rows = rows, .seq = seq};
  return stg_rows_step_set(all->rows, &step, NULL, reterr);
}

static inline void obj_set_rows(const struct objects *all, const int32_t *seq, int64_t rows) {
  stg_error error = STG_ERROR_INIT;
  must(obj_try_rows(all, seq, rows, &error), &error);
}

static inline stg_status obj_try_layer(const struct objects *all, uint32_t layer,
                                       stg_error *reterr) {
  const stg_rope_tensors rope = obj_rope_tensors(all, layer);
  const stg_attend_tensors attend = obj_attend_tensors(all, layer);
  const stg_block_tensors both = {
      .struct_size = sizeof both, .layer = layer, .rope = &rope, .attend = &attend};
  return stg_block_apply(all->block, &both, NULL, reterr);
}

/* A whole step of a block: rows, plan, layers. */
static inline void obj_step(const struct objects *all, const int32_t *seq, int64_t rows) {
  stg_error error = STG_ERROR_INIT;
  obj_set_rows(all, seq, rows);
  must(stg_block_step(all->block, all->rows, NULL, NULL, &error), &error);
  for (uint32_t layer = 0; layer < OBJ_LAYERS; layer++) {
    must(obj_try_layer(all, layer, &error), &error);
  }
}

static inline stg_stats obj_stats(const struct objects *all) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(all->engine, &stats);
  return stats;
}

#endif

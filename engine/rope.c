/*
 * rope.c: a rope: its table of frequencies, its kernels. What it is declared as is rope_desc.c's.
 */
#include <string.h>

#include "engine/attn.h"
#include "engine/hostmem.h"
#include "runtime/base/alloc.h"

#define DEFAULT_XPOS_BASE 512.0F

static stg_status check_desc(struct stg_engine *engine, const stg_rope_desc *desc,
                             struct stg_rope_geometry *ret_geometry, stg_error *reterr) {
  if (desc == NULL || desc->struct_size != sizeof *desc) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_rope_create: desc is NULL, or struct_size is not %zu", sizeof *desc);
  }
  if (desc->kv != NULL && desc->kv->object.engine != engine) {
    return stg_error_set(reterr, STG_E_INVALID, "kv: the cache is of another engine");
  }
  return stg_rope_describe(desc, desc->kv != NULL ? &desc->kv->form : NULL, ret_geometry, reterr);
}

static stg_status open_kernels(stg_rope *rope, const struct stg_rope_kernel *kernel,
                               struct stg_kernel_set **ret_set, stg_error *reterr) {
  struct stg_rope_decl decl;
  stg_status status = stg_rope_decl_init(kernel, &decl, reterr);
  return status == STG_OK ? stg_kernels_open(rope->object.engine, &decl.base, ret_set, reterr)
                          : status;
}

static stg_status open_declared(stg_rope *rope, const stg_rope_desc *desc, stg_error *reterr) {
  const struct stg_rope_works works =
      stg_rope_works_of(desc, desc->kv != NULL ? &desc->kv->form : NULL, &rope->geometry);
  stg_status status = open_kernels(rope, &works.forward, &rope->forward, reterr);
  if (status == STG_OK && desc->backward) {
    status = open_kernels(rope, &works.backward, &rope->backward, reterr);
  }
  if (status == STG_OK && desc->transpose) {
    status = open_kernels(rope, &works.transpose, &rope->transpose, reterr);
  }
  return status;
}

/* Where the parts of the tables begin, in floats. */
struct tables {
  size_t log_scale, table, count;
};

/* Not more floats than 2^40: dim and positions are bounded. */
static struct tables measure(const stg_rope *rope, const stg_rope_desc *desc) {
  const size_t half = rope->geometry.rot / 2;
  return (struct tables){.log_scale = half,
                         .table = 2 * half,
                         .count = 2 * half * (1 + (size_t)desc->table_positions)};
}

static void write_tables(const stg_rope *rope, const stg_rope_desc *desc,
                         const struct tables *tables, float *to) {
  const struct stg_rope_freq freq = stg_rope_freq_of(desc);
  stg_rope_inv_freq(&freq, rope->geometry.rot, to);
  stg_rope_log_scale(rope->geometry.rot, to + tables->log_scale);
  if (desc->table != NULL) {
    memcpy(to + tables->table, desc->table, (tables->count - tables->table) * sizeof *to);
  }
}

static stg_status make_tables(stg_rope *rope, const stg_rope_desc *desc, stg_error *reterr) {
  struct stg_engine *engine = rope->object.engine;
  const struct tables tables = measure(rope, desc);
  const size_t bytes = tables.count * sizeof(float);
  float *host = stg_malloc(bytes);
  if (host == NULL) {
    return stg_error_memory(reterr, "the tables of a rope", bytes);
  }
  write_tables(rope, desc, &tables, host);
  stg_status status = stg_mem_alloc(engine, bytes, &rope->tables, reterr);
  if (status == STG_OK) {
    status = stg_mem_upload(engine, rope->tables, host, bytes, reterr);
  }
  stg_free(host);
  if (status != STG_OK) {
    return status;
  }
  const float *at = rope->tables;
  rope->angles = (struct stg_rope_angles){
      .inv_freq = at,
      .log_scale = at + tables.log_scale,
      .xpos_base = desc->xpos_base != 0 ? desc->xpos_base : DEFAULT_XPOS_BASE,
      .table = desc->table != NULL ? at + tables.table : NULL,
      .table_positions = desc->table_positions,
  };
  if (stg_engine_is_cuda(engine)) {
    rope->held = (struct stg_held_bytes){.kv = bytes};
  }
  return STG_OK;
}

static void release(stg_rope *rope) {
  struct stg_engine *engine = rope->object.engine;
  stg_usage_let_go(&engine->usage, &rope->held);
  stg_kernels_close(rope->forward);
  stg_kernels_close(rope->backward);
  stg_kernels_close(rope->transpose);
  stg_mem_free(engine, rope->tables);
  stg_attn_object_finish(&rope->object);
  stg_free(rope);
}

stg_status stg_rope_create(stg_engine *engine, const stg_rope_desc *desc, stg_rope **ret_rope,
                           stg_error *reterr) {
  if (engine == NULL || ret_rope == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_rope_create: engine or ret_rope is NULL");
  }
  struct stg_rope_geometry geometry;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = check_desc(engine, desc, &geometry, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  stg_rope *rope = stg_calloc(1, sizeof *rope);
  if (rope == NULL) {
    return stg_error_memory(reterr, "a rope", sizeof *rope);
  }
  stg_attn_object_init(&rope->object, engine, STG_OBJECT_ROPE, "rope");
  rope->geometry = geometry;
  status = open_declared(rope, desc, reterr);
  if (status == STG_OK) {
    status = make_tables(rope, desc, reterr);
  }
  if (status == STG_OK && stg_engine_is_cuda(engine)) {
    status = stg_pins_refill(&rope->object.pins, reterr);
  }
  stg_usage_hold(&engine->usage, &rope->held);
  if (status != STG_OK) {
    release(rope);
    return status;
  }
  rope->kv = desc->kv;
  stg_attn_object_use(rope->kv != NULL ? &rope->kv->object : NULL);
  *ret_rope = rope;
  return STG_OK;
}

stg_status stg_rope_destroy(stg_rope *rope, stg_error *reterr) {
  if (rope == NULL || stg_engine_check_process(rope->object.engine, NULL) != STG_OK) {
    return STG_OK; /* in a child nothing is touched */
  }
  stg_status status = stg_attn_object_check_unused(&rope->object, "stg_rope_destroy", reterr);
  if (status == STG_OK) {
    stg_kv *kv = rope->kv;
    release(rope);
    stg_attn_object_let_go(kv != NULL ? &kv->object : NULL);
  }
  return status;
}

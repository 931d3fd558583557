/*
 * rope_stage.c: see rope_stage.h.
 */
#include "tests/gpu/rope_stage.h"

#include "runtime/base/dtype.h"

#define SEED 11

void stage_open(const struct scene *scene, struct stage *ret) {
  const bool cached = scene->cache.batch != 0;
  attn_open(&ret->bed, SEED);
  if (cached) {
    ret->kv = attn_kv_open(&ret->bed, scene->cache);
    if (scene->lens != NULL) {
      attn_kv_fill(&ret->bed, &ret->kv, scene->lens);
    }
    if (scene->missing > 0) {
      ((int32_t *)(uintptr_t)ret->kv.view.block_table)[scene->missing - 1] = -1;
    }
  }
  attn_rope_open(&ret->bed, &scene->geometry, &scene->freq, &scene->rows, cached ? &ret->kv : NULL,
                 &ret->rope);
  ret->rope.v = scene->v_stays ? NULL : ret->rope.v;
  ret->rope.angles.table = scene->table;
  ret->rope.angles.table_positions = scene->table_positions;
  if (scene->rows.pos == NULL && cached) {
    ret->rope.rows.len = ret->kv.len;
  }
}

void same_bytes(stg_dtype dtype, const void *a, const void *b, int64_t elems) {
  assert_memory_equal(a, b, (size_t)elems * stg_dtype_bytes(dtype));
}

void same_results(const struct stage *a, const struct stage *b) {
  const struct stg_rope_geometry *g = &a->rope.geometry;
  const int64_t rows = a->rope.rows.rows;
  same_bytes(g->dtype, a->rope.q, b->rope.q, rows * g->heads * g->dim);
  same_bytes(g->dtype, a->rope.k, b->rope.k, rows * g->kv_heads * g->dim);
  if (a->rope.v != NULL) {
    same_bytes(g->dtype, a->rope.v, b->rope.v, rows * g->kv_heads * g->dim);
  }
  if (a->rope.kv != NULL) {
    same_bytes(g->dtype, a->kv.view.k, b->kv.view.k, a->kv.elems);
    same_bytes(g->dtype, a->kv.view.v, b->kv.view.v, a->kv.elems);
  }
  assert_memory_equal(&a->rope.words, &b->rope.words, sizeof a->rope.words);
}

struct stg_oracle_heads_report run_scene(struct rope_device *device, const struct scene *scene,
                                         struct rope_how how) {
  struct stage on_device;
  struct stage on_cpu;
  stage_open(scene, &on_device);
  stage_open(scene, &on_cpu);
  device->how = how;
  const struct stg_oracle_heads_report report =
      attn_rope_run_by(&on_device.rope, rope_device_rotate, device);
  attn_rope_run(&on_cpu.rope);
  same_results(&on_device, &on_cpu);
  attn_close(&on_device.bed);
  attn_close(&on_cpu.bed);
  return report;
}

void run_all_ways(struct rope_device *device, const struct scene *scene) {
  run_scene(device, scene, (struct rope_how){0});
  run_scene(device, scene, (struct rope_how){.spread = true});
  run_scene(device, scene, (struct rope_how){.misaligned = true});
  run_scene(device, scene, (struct rope_how){.room = scene->rows.rows + 5, .early = true});
}

struct stg_rope_geometry geometry_of(uint32_t heads, uint32_t kv_heads, uint32_t dim,
                                     uint32_t rot) {
  struct stg_rope_geometry g = attn_rope_geometry();
  g.heads = heads;
  g.kv_heads = kv_heads;
  g.dim = dim;
  g.rot = rot;
  return g;
}

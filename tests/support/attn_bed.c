/*
 * attn_bed.c: see attn_bed.h.
 */
#include "tests/support/attn_bed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

#define GUARD_BYTES 256
#define GUARD 0x5a

struct attn_memory {
  struct attn_memory *next;
  size_t bytes;
  unsigned char *data; /* guard, bytes, guard */
};

void attn_open(struct attn_bed *bed, uint64_t seed) {
  *bed = (struct attn_bed){.random = seed};
}

void attn_check_guards(const struct attn_bed *bed) {
  for (const struct attn_memory *m = bed->memory; m != NULL; m = m->next) {
    for (size_t k = 0; k < GUARD_BYTES; k++) {
      assert_int_equal(GUARD, m->data[k]);
      assert_int_equal(GUARD, m->data[GUARD_BYTES + m->bytes + k]);
    }
  }
}

void attn_close(struct attn_bed *bed) {
  attn_check_guards(bed);
  while (bed->memory != NULL) {
    struct attn_memory *memory = bed->memory;
    bed->memory = memory->next;
    stg_free(memory->data);
    stg_free(memory);
  }
}

void *attn_filled(struct attn_bed *bed, size_t bytes, int fill) {
  struct attn_memory *memory = stg_calloc(1, sizeof *memory);
  assert_non_null(memory);
  memory->bytes = bytes;
  memory->data = stg_malloc_aligned(bytes + 2 * (size_t)GUARD_BYTES);
  assert_non_null(memory->data);
  memset(memory->data, GUARD, bytes + 2 * (size_t)GUARD_BYTES);
  memset(memory->data + GUARD_BYTES, fill, bytes);
  memory->next = bed->memory;
  bed->memory = memory;
  return memory->data + GUARD_BYTES;
}

/* splitmix64 */
static uint64_t next_random(struct attn_bed *bed) {
  uint64_t z = bed->random += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

uint32_t attn_below(struct attn_bed *bed, uint32_t limit) {
  return (uint32_t)(next_random(bed) >> 32) % limit;
}

static void fill_random(struct attn_bed *bed, stg_dtype dtype, void *tensor, int64_t elems) {
  for (int64_t j = 0; j < elems; j++) {
    const float value = (float)(next_random(bed) >> 40) * 0x1p-22F - 2;
    stg_store_f32(dtype, tensor, (size_t)j, value);
  }
}

void *attn_random(struct attn_bed *bed, stg_dtype dtype, int64_t elems) {
  void *tensor = attn_filled(bed, (size_t)elems * stg_dtype_bytes(dtype), 0);
  fill_random(bed, dtype, tensor, elems);
  return tensor;
}

void attn_spread(stg_dtype dtype, int64_t elems, void *tensor) {
  for (int64_t j = 0; j < elems; j++) {
    const int power = dtype == STG_F16 ? (int)(j / 2 % 5) * 6 - 14 : (int)(j / 2 % 13) * 22 - 138;
    const float value = stg_load_f32(dtype, tensor, (size_t)j);
    stg_store_f32(dtype, tensor, (size_t)j, ldexpf(value, power));
  }
}

void *attn_copy(struct attn_bed *bed, stg_dtype dtype, const void *tensor, int64_t elems) {
  const size_t bytes = (size_t)elems * stg_dtype_bytes(dtype);
  return memcpy(attn_filled(bed, bytes, 0), tensor, bytes);
}

void *attn_nans(struct attn_bed *bed, stg_dtype dtype, int64_t elems) {
  void *tensor = attn_filled(bed, (size_t)elems * stg_dtype_bytes(dtype), 0);
  for (int64_t j = 0; j < elems; j++) {
    stg_store_f32(dtype, tensor, (size_t)j, NAN);
  }
  return tensor;
}

/* Every stretch of every sequence gets a block of its own, in shuffled order. */
static void deal_blocks(struct attn_bed *bed, struct stg_kv_view *view, uint32_t block) {
  const int64_t row = (view->capacity + block - 1) / block;
  const uint32_t n = view->batch * (uint32_t)row;
  int32_t *table = attn_filled(bed, n * sizeof *table, 0);
  for (uint32_t k = 0; k < n; k++) {
    const uint32_t other = attn_below(bed, k + 1);
    table[k] = table[other];
    table[other] = (int32_t)k;
  }
  view->block_table = table;
  view->table_row = row;
  view->block_shift = stg_kv_block_shift(block);
  view->n_blocks = n;
}

struct attn_kv attn_kv_open(struct attn_bed *bed, struct attn_kv_shape shape) {
  struct attn_kv kv = {.view = {.dtype = shape.dtype,
                                .batch = shape.batch,
                                .kv_heads = shape.kv_heads,
                                .dim = shape.dim,
                                .capacity = shape.capacity}};
  struct stg_kv_view *view = &kv.view;
  int64_t units = shape.batch;
  int64_t positions = shape.capacity;
  if (shape.block != 0) {
    deal_blocks(bed, view, shape.block);
    units = view->n_blocks;
    positions = shape.block;
  }
  view->pos_stride = shape.dim;
  view->head_stride = positions * view->pos_stride;
  view->seq_stride = (int64_t)shape.kv_heads * view->head_stride;
  kv.elems = units * view->seq_stride;
  view->k = attn_nans(bed, shape.dtype, kv.elems);
  view->v = attn_nans(bed, shape.dtype, kv.elems);
  kv.len = attn_filled(bed, shape.batch * sizeof *kv.len, 0);
  return kv;
}

void *attn_kv_at(const struct attn_kv *kv, const void *tensor, int32_t seq, int64_t position,
                 uint32_t head) {
  const struct stg_kv_view *view = &kv->view;
  int64_t unit;
  int64_t within;
  assert_true(stg_oracle_find_position(view, seq, position, &unit, &within));
  const int64_t offset =
      unit * view->seq_stride + head * view->head_stride + within * view->pos_stride;
  unsigned char *base = tensor == view->k ? view->k : view->v;
  return base + offset * (int64_t)stg_dtype_bytes(view->dtype);
}

void attn_kv_fill(struct attn_bed *bed, struct attn_kv *kv, const int32_t *lens) {
  const struct stg_kv_view *view = &kv->view;
  for (uint32_t seq = 0; seq < view->batch; seq++) {
    for (int64_t position = 0; position < lens[seq]; position++) {
      for (uint32_t head = 0; head < view->kv_heads; head++) {
        fill_random(bed, view->dtype, attn_kv_at(kv, view->k, (int32_t)seq, position, head),
                    view->dim);
        fill_random(bed, view->dtype, attn_kv_at(kv, view->v, (int32_t)seq, position, head),
                    view->dim);
      }
    }
    kv->len[seq] = lens[seq];
  }
}

struct stg_rope_geometry attn_rope_geometry(void) {
  return (struct stg_rope_geometry){
      .heads = 8, .kv_heads = 2, .dim = 64, .rot = 64, .dtype = STG_F32};
}

void attn_rope_set_rounding(struct stg_rope_geometry *geometry, int k) {
  static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};
  geometry->dtype = dtypes[k % 3];
  geometry->round = (enum stg_rope_round)(k / 3 % 2);
  geometry->trig = (enum stg_rope_trig)(k / 6 % 3);
}

int64_t attn_stride(enum stg_heads_order order, int64_t rows, int64_t heads, int64_t dim) {
  return order == STG_HEADS_ROWS_FIRST ? heads * dim : rows * dim;
}

void attn_rope_open(struct attn_bed *bed, const struct stg_rope_geometry *geometry,
                    const struct stg_rope_freq *freq, const struct stg_step_rows *rows,
                    struct attn_kv *kv, struct attn_rope *ret) {
  *ret = (struct attn_rope){.bed = bed,
                            .geometry = *geometry,
                            .freq = *freq,
                            .rows = *rows,
                            .kv = kv,
                            .words = STG_KV_WORDS_INIT};
  stg_rope_inv_freq(freq, geometry->rot, ret->inv_freq);
  stg_rope_log_scale(geometry->rot, ret->log_scale);
  ret->angles = (struct stg_rope_angles){
      .inv_freq = ret->inv_freq, .log_scale = ret->log_scale, .xpos_base = 512};
  const int64_t q_elems = rows->rows * geometry->heads * geometry->dim;
  const int64_t kv_elems = rows->rows * geometry->kv_heads * geometry->dim;
  ret->qkv = attn_random(bed, geometry->dtype, rows->rows * stg_rope_row_elems(geometry));
  ret->q = attn_nans(bed, geometry->dtype, q_elems);
  ret->k = attn_nans(bed, geometry->dtype, kv_elems);
  ret->v = attn_nans(bed, geometry->dtype, kv_elems);
}

static struct stg_cpu_heads heads_of(const struct attn_rope *rope, void *data, uint32_t heads) {
  return (struct stg_cpu_heads){
      data, attn_stride(rope->geometry.order, rope->rows.rows, heads, rope->geometry.dim)};
}

struct stg_cpu_rope_batch attn_rope_batch(struct attn_rope *rope) {
  const struct stg_rope_geometry *g = &rope->geometry;
  return (struct stg_cpu_rope_batch){
      .geometry = g,
      .angles = &rope->angles,
      .rows = rope->rows,
      .qkv = rope->qkv,
      .qkv_stride = stg_rope_row_elems(g),
      .q = heads_of(rope, rope->q, g->heads),
      .k = heads_of(rope, rope->k, g->kv_heads),
      .v = heads_of(rope, rope->v, g->kv_heads),
      .kv = rope->kv == NULL ? NULL : &rope->kv->view,
      .words = &rope->words,
  };
}

void attn_expect_ok(const struct stg_oracle_heads_report *report) {
  if (!report->ok) {
    fail_msg("%llu violations, worst ratio %g, the first in %s at %lld, %lld, %lld",
             (unsigned long long)report->violations, report->worst_ratio, report->first_in,
             (long long)report->first_row, (long long)report->first_head,
             (long long)report->first_element);
  }
}

static void run_on_cpu(void *user, const struct stg_cpu_rope_batch *batch) {
  (void)user;
  assert_int_equal(STG_OK, stg_cpu_rope(batch, NULL));
}

struct stg_oracle_heads_report attn_rope_run(struct attn_rope *rope) {
  return attn_rope_run_by(rope, run_on_cpu, NULL);
}

struct stg_oracle_heads_report
attn_rope_run_by(struct attn_rope *rope,
                 void (*run)(void *user, const struct stg_cpu_rope_batch *batch), void *user) {
  const struct stg_rope_geometry *g = &rope->geometry;
  const struct stg_cpu_rope_batch batch = attn_rope_batch(rope);
  const int64_t q_elems = rope->rows.rows * g->heads * g->dim;
  const int64_t kv_elems = rope->rows.rows * g->kv_heads * g->dim;
  const int64_t packed = rope->rows.rows * batch.qkv_stride;
  const void *qkv_before = attn_copy(rope->bed, g->dtype, rope->qkv, packed);
  struct stg_oracle_rope_batch check = {
      .geometry = g,
      .angles = {&rope->freq, (double)rope->angles.xpos_base, rope->angles.table,
                 rope->angles.table_positions},
      .rows = rope->rows,
      .qkv = rope->qkv,
      .qkv_stride = batch.qkv_stride,
      .q = {attn_copy(rope->bed, g->dtype, rope->q, q_elems), rope->q, batch.q.stride},
      .k = {attn_copy(rope->bed, g->dtype, rope->k, kv_elems), rope->k, batch.k.stride},
      .v = {rope->v != NULL ? attn_copy(rope->bed, g->dtype, rope->v, kv_elems) : NULL, rope->v,
            batch.v.stride},
      .kv = batch.kv,
      .words = &rope->words,
  };
  if (rope->kv != NULL) {
    check.k_before = attn_copy(rope->bed, g->dtype, rope->kv->view.k, rope->kv->elems);
    check.v_before = attn_copy(rope->bed, g->dtype, rope->kv->view.v, rope->kv->elems);
  }
  struct stg_oracle_heads_report report;
  stg_error error = STG_ERROR_INIT;
  rope->words = (struct stg_kv_words)STG_KV_WORDS_INIT;
  run(user, &batch);
  assert_memory_equal(qkv_before, rope->qkv, (size_t)packed * stg_dtype_bytes(g->dtype));
  assert_int_equal(STG_OK, stg_oracle_rope_check(&check, &report, &error));
  attn_expect_ok(&report);
  return report;
}

struct stg_oracle_heads_report attn_attend_run(struct attn_bed *bed,
                                               const struct stg_cpu_attend_batch *batch) {
  const struct stg_decode_geometry *g = batch->geometry;
  const int64_t elems = batch->rows.rows * g->heads * g->dim;
  const void *before = attn_nans(bed, g->dtype, elems);
  memcpy(batch->out, before, (size_t)elems * stg_dtype_bytes(g->dtype));
  const struct stg_oracle_attend_batch check = {
      .geometry = g,
      .rows = batch->rows,
      .kv = batch->kv,
      .q = batch->q,
      .q_stride = batch->q_stride,
      .out = {before, batch->out, batch->out_stride},
      .scale = (double)batch->scale,
      .window = batch->window,
      .key_mask = batch->key_mask,
      .mask_stride = batch->mask_stride,
      .valid = batch->valid,
  };
  struct stg_oracle_heads_report report;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_cpu_attend(batch, &error));
  assert_int_equal(STG_OK, stg_oracle_attend_check(&check, &report, &error));
  attn_expect_ok(&report);
  return report;
}

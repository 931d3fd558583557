/*
 * attn_growing.c: see attn_growing.h. The growing side is the oracle's functions over lists that
 * become longer; the fixed side is a host's step.
 */
#include "tests/support/attn_growing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/hostmem.h"
#include "engine/oracle/decode.h"
#include "engine/oracle/turn.h"
#include "runtime/base/alloc.h"

#define LAYERS 2 /* of which the first is looked at; the other must not show in it */
#define BATCH 2
#define HEADS 4
#define KV_HEADS 2
#define DIM 64
#define ROW ((size_t)HEADS * DIM)
#define PACKED ((size_t)(HEADS + 2 * KV_HEADS) * DIM)
#define MAX_MAE 1e-6

static const struct stg_rope_freq plain = {.base = 10000};
static const struct stg_rope_geometry turned = {
    .heads = HEADS, .kv_heads = KV_HEADS, .dim = DIM, .rot = DIM, .dtype = STG_F32};
static const struct stg_decode_geometry attended = {
    .heads = HEADS, .kv_heads = KV_HEADS, .dim = DIM, .dtype = STG_F32, .chunk = 256};
static const int32_t both[BATCH] = {1, 0};

struct growing {
  stg_engine *engine;
  int64_t capacity;
  stg_kv *kv;
  stg_rows *rows;
  stg_rope *rope;
  stg_attend *attend;
  stg_block *block;
  void *qkv, *q, *out;               /* on the engine's side */
  void *other_qkv, *other_q, *other; /* of the other layer */
  uint64_t random;
  float packed[BATCH * PACKED];
  double *k[BATCH][KV_HEADS], *v[BATCH][KV_HEADS]; /* [capacity, dim] */
  double *scores;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void *room(const struct growing *g, size_t floats) {
  void *memory = NULL;
  stg_error error = STG_ERROR_INIT;
  ok(stg_mem_alloc(g->engine, floats * sizeof(float), &memory, &error), &error);
  return memory;
}

static double *doubles(int64_t count) {
  double *memory = stg_calloc((size_t)count, sizeof *memory);
  assert_non_null(memory);
  return memory;
}

/* NaN wherever nothing is written, and blocks from the last to the first. */
static void open_cache(struct growing *g, uint32_t block) {
  const int64_t blocks = block != 0 ? (g->capacity + block - 1) / block : 0;
  const stg_kv_desc desc = {.struct_size = sizeof desc,
                            .layers = LAYERS,
                            .batch = BATCH,
                            .kv_heads = KV_HEADS,
                            .dim = DIM,
                            .capacity = g->capacity,
                            .dtype = STG_F32,
                            .block = block,
                            .n_blocks = BATCH * (uint32_t)blocks};
  stg_kv_tensors tensors = {.struct_size = sizeof tensors};
  stg_error error = STG_ERROR_INIT;
  ok(stg_kv_create(g->engine, &desc, &g->kv, &error), &error);
  stg_kv_get_tensors(g->kv, &tensors);
  const size_t bytes = (size_t)LAYERS * (size_t)tensors.layer_stride * sizeof(float);
  void *nans = stg_malloc(bytes);
  assert_non_null(nans);
  memset(nans, 0xff, bytes);
  ok(stg_mem_upload(g->engine, tensors.k, nans, bytes, &error), &error);
  ok(stg_mem_upload(g->engine, tensors.v, nans, bytes, &error), &error);
  stg_free(nans);
  for (int32_t b = 0; b < (int32_t)(BATCH * blocks); b++) {
    const int32_t name = (int32_t)(BATCH * blocks) - 1 - b;
    ok(stg_kv_set_blocks(g->kv, (uint32_t)(b % BATCH), b / BATCH, &name, 1,
                         stg_mem_stream(g->engine), &error),
       &error);
  }
}

static void open_growing(struct growing *g, uint32_t block) {
  stg_error error = STG_ERROR_INIT;
  open_cache(g, block);
  const stg_rope_desc rope = {.struct_size = sizeof rope, .heads = HEADS, .kv = g->kv};
  const stg_attend_desc attend = {.struct_size = sizeof attend, .heads = HEADS, .kv = g->kv};
  const stg_rows_desc rows = {.struct_size = sizeof rows, .kv = g->kv, .max_rows = BATCH};
  ok(stg_rope_create(g->engine, &rope, &g->rope, &error), &error);
  ok(stg_attend_create(g->engine, &attend, &g->attend, &error), &error);
  ok(stg_rows_create(g->engine, &rows, &g->rows, &error), &error);
  const stg_block_desc desc = {
      .struct_size = sizeof desc, .rope = g->rope, .attend = g->attend, .advance = true};
  ok(stg_block_create(g->engine, &desc, &g->block, &error), &error);
  g->qkv = room(g, BATCH * PACKED);
  g->q = room(g, BATCH * ROW);
  g->out = room(g, BATCH * ROW);
  g->other_qkv = room(g, BATCH * PACKED);
  g->other_q = room(g, BATCH * ROW);
  g->other = room(g, BATCH * ROW);
  ok(stg_mem_upload(g->engine, g->other_qkv, g->packed, sizeof g->packed, &error), &error);
  for (int i = 0; i < BATCH * KV_HEADS; i++) {
    g->k[i / KV_HEADS][i % KV_HEADS] = doubles(g->capacity * DIM);
    g->v[i / KV_HEADS][i % KV_HEADS] = doubles(g->capacity * DIM);
  }
  g->scores = doubles(g->capacity);
}

static void close_growing(struct growing *g) {
  stg_error error = STG_ERROR_INIT;
  stg_block_destroy(g->block);
  ok(stg_rows_destroy(g->rows, &error), &error);
  ok(stg_attend_destroy(g->attend, &error), &error);
  ok(stg_rope_destroy(g->rope, &error), &error);
  ok(stg_kv_destroy(g->kv, &error), &error);
  stg_mem_free(g->engine, g->qkv);
  stg_mem_free(g->engine, g->q);
  stg_mem_free(g->engine, g->out);
  stg_mem_free(g->engine, g->other_qkv);
  stg_mem_free(g->engine, g->other_q);
  stg_mem_free(g->engine, g->other);
  for (int i = 0; i < BATCH * KV_HEADS; i++) {
    stg_free(g->k[i / KV_HEADS][i % KV_HEADS]);
    stg_free(g->v[i / KV_HEADS][i % KV_HEADS]);
  }
  stg_free(g->scores);
}

static void draw(struct growing *g) {
  for (size_t i = 0; i < BATCH * PACKED; i++) {
    g->random = g->random * 6364136223846793005U + 1442695040888963407U;
    g->packed[i] = (float)(g->random >> 42) * 0x1p-21F - 1;
  }
}

/* The other layer has other rows: those of the step before, in float32 as they are. */
static void apply_other(const struct growing *g, stg_stream stream) {
  const stg_rope_tensors rope = {.struct_size = sizeof rope, .qkv = g->other_qkv, .q = g->other_q};
  const stg_attend_tensors attend = {
      .struct_size = sizeof attend, .q = g->other_q, .out = g->other};
  const stg_block_tensors tensors = {
      .struct_size = sizeof tensors, .layer = 1, .rope = &rope, .attend = &attend};
  stg_error error = STG_ERROR_INIT;
  ok(stg_block_apply(g->block, &tensors, stream, &error), &error);
}

/* What a host does with a token. */
static void step_fixed(struct growing *g, float out[BATCH * ROW]) {
  const stg_rows_step rows = {.struct_size = sizeof rows, .rows = BATCH, .seq = both};
  const stg_rope_tensors rope = {.struct_size = sizeof rope, .qkv = g->qkv, .q = g->q};
  const stg_attend_tensors attend = {.struct_size = sizeof attend, .q = g->q, .out = g->out};
  const stg_block_tensors tensors = {
      .struct_size = sizeof tensors, .rope = &rope, .attend = &attend};
  stg_stream stream = stg_mem_stream(g->engine);
  stg_error error = STG_ERROR_INIT;
  ok(stg_mem_upload(g->engine, g->qkv, g->packed, sizeof g->packed, &error), &error);
  ok(stg_rows_step_set(g->rows, &rows, stream, &error), &error);
  ok(stg_block_step(g->block, g->rows, NULL, stream, &error), &error);
  ok(stg_block_apply(g->block, &tensors, stream, &error), &error);
  apply_other(g, stream);
  ok(stg_mem_upload(g->engine, g->other_qkv, g->packed, sizeof g->packed, &error), &error);
  ok(stg_mem_download(g->engine, out, g->out, BATCH * ROW * sizeof(float), &error), &error);
}

/* A head of a packed row in float64, turned. */
static void turn_head(const struct growing *g, const struct stg_oracle_turn *turn, int64_t row,
                      enum stg_rope_part part, uint32_t head, double *ret) {
  const struct stg_rope_head at = stg_rope_find_head(&turned, part, head);
  struct stg_oracle_reference turned_to;
  double values[DIM];
  for (int64_t d = 0; d < DIM; d++) {
    values[d] = ret[d] = (double)g->packed[row * (int64_t)PACKED + at.first + d * at.step];
  }
  if (part != STG_ROPE_V) {
    stg_oracle_turn_head(turn, part, false, values, &turned_to);
    memcpy(ret, turned_to.ref, turned.rot * sizeof *ret);
  }
}

/* Mean of |fixed - growing| over a row, after growing the lists by it. */
static double step_growing(struct growing *g, const float *out, int64_t row, int64_t position) {
  const struct stg_oracle_angles angles = {.freq = &plain};
  const int32_t seq = both[row];
  struct stg_oracle_turn turn;
  double sum = 0;
  stg_oracle_turn_init(&turned, &angles, position, 0, &turn);
  for (uint32_t head = 0; head < KV_HEADS; head++) {
    turn_head(g, &turn, row, STG_ROPE_K, head, g->k[seq][head] + position * DIM);
    turn_head(g, &turn, row, STG_ROPE_V, head, g->v[seq][head] + position * DIM);
  }
  for (uint32_t head = 0; head < HEADS; head++) {
    const uint32_t of = head / (HEADS / KV_HEADS);
    const struct stg_oracle_keys keys = {
        .k = g->k[seq][of], .v = g->v[seq][of], .n = position + 1, .chunks = 1};
    double q[DIM];
    struct stg_oracle_reference grown;
    turn_head(g, &turn, row, STG_ROPE_Q, head, q);
    stg_oracle_attend_head(&attended, 0.125, q, &keys, g->scores, &grown);
    for (size_t d = 0; d < DIM; d++) {
      sum += fabs((double)out[(size_t)row * ROW + (size_t)head * DIM + d] - grown.ref[d]);
    }
  }
  return isfinite(sum) ? sum / ROW : HUGE_VAL;
}

static stg_stats stats_of(const struct growing *g) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(g->engine, &stats);
  return stats;
}

static void expect_refusal(struct growing *g) {
  float out[BATCH * ROW];
  stg_kv_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  draw(g);
  step_fixed(g, out);
  for (size_t i = 0; i < BATCH * ROW; i++) {
    assert_float_equal(0, out[i], 0);
  }
  assert_int_equal(STG_E_KV_FULL, stg_kv_status(g->kv, stg_mem_stream(g->engine), &report, &error));
  assert_int_equal(LAYERS * BATCH, report.full_rows);
  assert_int_equal(0, report.full_row);
  assert_int_equal(both[0], report.full_seq);
}

void attn_growing_run(stg_engine *engine, int64_t capacity, uint32_t block) {
  struct growing g = {.engine = engine, .capacity = capacity};
  stg_stats first = {.struct_size = sizeof first};
  float out[BATCH * ROW];
  double worst = 0;
  open_growing(&g, block);
  for (int64_t position = 0; position < capacity; position++) {
    draw(&g);
    step_fixed(&g, out);
    for (int64_t row = 0; row < BATCH; row++) {
      worst = fmax(worst, step_growing(&g, out, row, position));
    }
    first = position == 0 ? stats_of(&g) : first;
  }
  if (!(worst < MAX_MAE)) {
    fail_msg("the mean error of a row is up to %g", worst);
  }
  expect_refusal(&g);
  const stg_stats last = stats_of(&g);
  assert_int_equal(first.kernel_compiles, last.kernel_compiles);
  assert_int_equal(first.graphs_created, last.graphs_created);
  assert_int_equal(first.plans_live, last.plans_live);
  close_growing(&g);
}

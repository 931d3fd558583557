/*
 * attn_run.c: what a script runs on: a cache, kernels, tensors; and how it ends.
 */
#include "tests/support/attn_run.h"

#include <math.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/device.h"

uint32_t attn_run_below(struct attn_run *run, uint32_t limit) {
  run->random = run->random * 6364136223846793005U + 1442695040888963407U;
  return (uint32_t)(run->random >> 33) % limit;
}

static void *room(const struct attn_run *run, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  ok(stg_mem_alloc(run->engine, bytes, &memory, &error), &error);
  return memory;
}

static void upload(const struct attn_run *run, void *to, const void *from, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_mem_upload(run->engine, to, from, bytes, &error), &error);
}

/* `bytes` of the engine's, each `fill`. */
static void *filled(const struct attn_run *run, size_t bytes, int fill) {
  void *memory = room(run, bytes), *host = stg_malloc(bytes);
  assert_non_null(host);
  memset(host, fill, bytes);
  upload(run, memory, host, bytes);
  stg_free(host);
  return memory;
}

/* Numbers in [-2, 2), of the host's. */
static void *random_numbers(struct attn_run *run, size_t count) {
  void *host = stg_malloc(count * stg_dtype_bytes(run->script->dtype));
  assert_non_null(host);
  for (size_t i = 0; i < count; i++) {
    stg_store_f32(run->script->dtype, host, i, (float)attn_run_below(run, 1U << 20) * 0x1p-18F - 2);
  }
  return host;
}

static void *numbers(struct attn_run *run, size_t count) {
  const size_t bytes = count * stg_dtype_bytes(run->script->dtype);
  void *memory = room(run, bytes), *host = random_numbers(run, count);
  upload(run, memory, host, bytes);
  stg_free(host);
  return memory;
}

size_t attn_packed_elems(const struct attn_script *s) {
  return (s->heads + 2 * s->kv_heads) * (size_t)s->dim;
}

int64_t attn_blocks_of(const struct attn_script *s) {
  return s->block != 0 ? (s->capacity + s->block - 1) / s->block : 0;
}

size_t attn_kv_bytes(const struct attn_script *s) {
  const size_t positions =
      s->batch * (s->block != 0 ? (size_t)attn_blocks_of(s) * s->block : (size_t)s->capacity);
  return s->layers * positions * s->kv_heads * s->dim * stg_dtype_bytes(s->dtype);
}

/* Numbers everywhere, and lengths of which some reach into several chunks. */
static void fill_cache(struct attn_run *run, size_t bytes) {
  const struct attn_script *s = run->script;
  const size_t elems = bytes / stg_dtype_bytes(s->dtype);
  void *const tensors[] = {run->k, run->v};
  uint32_t seqs[MAX_BATCH];
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < 2; i++) {
    void *host = random_numbers(run, elems);
    upload(run, tensors[i], host, bytes);
    stg_free(host);
  }
  for (uint32_t seq = 0; seq < s->batch; seq++) {
    seqs[seq] = seq;
    run->len[seq] = s->begin * (int32_t)(seq + 1);
  }
  ok(stg_kv_set_len(run->kv, seqs, run->len, s->batch, run->stream, &error), &error);
}

/* A cache full of NaN, unless it begins with something. */
static void open_cache(struct attn_run *run) {
  const struct attn_script *s = run->script;
  const int64_t n_blocks = s->batch * attn_blocks_of(s);
  const size_t bytes = attn_kv_bytes(s);
  stg_error error = STG_ERROR_INIT;
  stg_kv_desc desc = {.struct_size = sizeof desc,
                      .layers = s->layers,
                      .batch = s->batch,
                      .kv_heads = s->kv_heads,
                      .dim = s->dim,
                      .capacity = s->capacity,
                      .dtype = s->dtype,
                      .block = s->block,
                      .n_blocks = (uint32_t)n_blocks};
  if (s->borrowed) {
    desc.k = run->k = filled(run, bytes, 0xff);
    desc.v = run->v = filled(run, bytes, 0xff);
  }
  ok(stg_kv_create(run->engine, &desc, &run->kv, &error), &error);
  stg_kv_tensors tensors = {.struct_size = sizeof tensors};
  stg_kv_get_tensors(run->kv, &tensors);
  run->k = s->borrowed ? run->k : tensors.k;
  run->v = s->borrowed ? run->v : tensors.v;
  if (s->begin > 0) {
    fill_cache(run, bytes);
  } else if (!s->borrowed) {
    void *host = stg_malloc(bytes);
    assert_non_null(host);
    memset(host, 0xff, bytes);
    upload(run, run->k, host, bytes);
    upload(run, run->v, host, bytes);
    stg_free(host);
  }
  assert_ptr_equal(run->k, tensors.k);
  assert_ptr_equal(run->v, tensors.v);
  assert_int_equal(attn_blocks_of(s), tensors.blocks);
  assert_int_equal(attn_kv_bytes(s) / s->layers / stg_dtype_bytes(s->dtype), tensors.layer_stride);
}

static float *make_table(const struct attn_script *s) {
  float *table = stg_malloc((size_t)s->capacity * s->dim * sizeof *table);
  assert_non_null(table);
  for (int64_t p = 0; p < s->capacity; p++) {
    for (uint32_t i = 0; i < s->dim / 2; i++) {
      const double angle = (double)p / (1 + (double)i);
      table[(p * 2) * (s->dim / 2) + i] = (float)cos(angle);
      table[(p * 2 + 1) * (s->dim / 2) + i] = (float)sin(angle);
    }
  }
  return table;
}

static void open_kernels(struct attn_run *run) {
  const struct attn_script *s = run->script;
  stg_error error = STG_ERROR_INIT;
  float *table = s->table ? make_table(s) : NULL;
  const stg_rope_desc rope = {.struct_size = sizeof rope,
                              .heads = s->heads,
                              .layout = s->layout,
                              .pairs = s->pairs,
                              .xpos = s->xpos,
                              .table = table,
                              .table_positions = s->table ? s->capacity : 0,
                              .order = s->order,
                              .kv = run->kv};
  const stg_attend_desc attend = {.struct_size = sizeof attend,
                                  .heads = s->heads,
                                  .window = s->window,
                                  .key_mask = s->key_mask,
                                  .order = s->order,
                                  .kv = run->kv};
  const stg_rows_desc rows = {.struct_size = sizeof rows, .kv = run->kv, .max_rows = MAX_ROWS};
  ok(stg_rope_create(run->engine, &rope, &run->rope, &error), &error);
  ok(stg_attend_create(run->engine, &attend, &run->attend, &error), &error);
  ok(stg_rows_create(run->engine, &rows, &run->rows, &error), &error);
  stg_free(table);
}

static void open_steering(struct attn_run *run) {
  static const char *const ops[] = {"add"};
  const struct attn_script *s = run->script;
  const size_t width = s->heads * (size_t)s->dim;
  stg_error error = STG_ERROR_INIT;
  float ones[256];
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = (int64_t)width,
                               .layers = s->layers,
                               .dtype = s->dtype,
                               .max_rows = MAX_ROWS,
                               .ops = ops,
                               .n_ops = 1};
  assert_true(width <= 256);
  for (size_t i = 0; i < width; i++) {
    ones[i] = 1;
  }
  ok(stg_vector_intern(run->engine, STG_F32, ones, width, &run->ones, &error), &error);
  ok(stg_steer_create(run->engine, &desc, &run->steer, &error), &error);
  const stg_op_call call = {.op = "add", .vectors = {run->ones}};
  const stg_chain chains[] = {{.layer = 0, .ops = &call, .n_ops = 1}};
  ok(stg_steer_slot_set(run->steer, SLOT_STEERED, chains, 1, &error), &error);
  ok(stg_frame_create(run->steer, &run->frame, &error), &error);
}

static void open_block(struct attn_run *run) {
  const stg_block_desc desc = {.struct_size = sizeof desc,
                               .rope = run->rope,
                               .attend = run->attend,
                               .steer = run->steer,
                               .advance = true};
  stg_error error = STG_ERROR_INIT;
  ok(stg_block_create(run->engine, &desc, &run->block, &error), &error);
}

void attn_run_open(struct attn_run *run) {
  const struct attn_script *s = run->script;
  struct stg_device *device = stg_mem_device(run->engine);
  stg_error error = STG_ERROR_INIT;
  if (device != NULL) {
    ok(stg_stream_create(device, &run->stream, &error), &error);
  }
  open_cache(run);
  open_kernels(run);
  if (s->steer) {
    open_steering(run);
  }
  if (run->way == ATTN_BLOCK) {
    open_block(run);
  }
  run->row_bytes = s->heads * (size_t)s->dim * stg_dtype_bytes(s->dtype);
  run->step_bytes = run->row_bytes * MAX_ROWS;
  run->q = filled(run, run->step_bytes * s->steps * s->layers, 0xcc);
  run->out = filled(run, run->step_bytes * s->steps * s->layers, 0xcc);
  run->inputs = numbers(run, attn_packed_elems(s) * MAX_ROWS * s->layers);
  if (s->key_mask) {
    const size_t bytes = s->batch * (size_t)s->capacity;
    uint8_t *mask = stg_malloc(bytes);
    assert_non_null(mask);
    for (size_t i = 0; i < bytes; i++) {
      mask[i] = attn_run_below(run, 4) != 0;
    }
    run->mask = room(run, bytes);
    upload(run, run->mask, mask, bytes);
    stg_free(mask);
  }
}

void attn_run_close(struct attn_run *run) {
  stg_error error = STG_ERROR_INIT;
  stg_block_destroy(run->block);
  stg_frame_destroy(run->frame);
  ok(stg_steer_destroy(run->steer, &error), &error);
  if (run->steer != NULL) {
    ok(stg_vector_release(run->engine, run->ones, &error), &error);
  }
  ok(stg_rows_destroy(run->rows, &error), &error);
  ok(stg_attend_destroy(run->attend, &error), &error);
  ok(stg_rope_destroy(run->rope, &error), &error);
  ok(stg_kv_destroy(run->kv, &error), &error);
  void *const memory[] = {run->inputs,
                          run->q,
                          run->out,
                          run->mask,
                          run->script->borrowed ? run->k : NULL,
                          run->script->borrowed ? run->v : NULL};
  for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
    stg_mem_free(run->engine, memory[i]);
  }
  if (run->stream != NULL) {
    stg_stream_destroy(stg_mem_device(run->engine), run->stream);
  }
}

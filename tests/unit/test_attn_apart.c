/*
 * test_attn_apart.c: rope, its way back, the transpose and attention of tensors that no cache has:
 * on the CPU what must come back comes back, and a device of the host is told the same.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/device.h"
#include "tests/support/attn_objects.h"
#include "tests/support/host_device.h"

#define ROWS 7
#define TOKENS 9
#define BATCH 2
#define PACKED_FLOATS (ROWS * OBJ_PACKED)
#define ROW_FLOATS (ROWS * OBJ_ROW)
#define TOKEN_FLOATS ((size_t)BATCH * TOKENS * OBJ_ROW)
#define MASK_STRIDE (TOKENS + 3)
#define MASK_BYTES ((size_t)BATCH * MASK_STRIDE)
#define HEADS_STRIDE ((int64_t)ROWS * OBJ_DIM + 2)

/* Tensors of an engine; memory of a device of the host is heap, as the CPU's. */
struct tensors {
  stg_engine *engine;
  stg_rope *rope;
  stg_attend *attend;
  stg_rows *rows;
  float *qkv, *q, *k, *v, *back, *heads, *out;
  float *keys, *values;
  uint8_t *mask;
  int32_t *len;
};

static const int32_t places[ROWS] = {0, 3, 5, 100, 7, 2, 131071};
static const int64_t wide[ROWS] = {0, 3, 5, 100, 7, 2, 131071};

static void *room(struct tensors *t, size_t bytes) {
  stg_error error = STG_ERROR_INIT;
  void *memory = NULL;
  must(stg_mem_alloc(t->engine, bytes, &memory, &error), &error);
  memset(memory, 0xff, bytes);
  return memory;
}

static float *numbers(struct tensors *t, size_t count) {
  float *floats = room(t, count * sizeof *floats);
  for (size_t i = 0; i < count; i++) {
    floats[i] = (float)((i * 7919 + 13) % 1009) / 504 - 1;
  }
  return floats;
}

static void open_tensors(struct tensors *t, stg_backend backend) {
  stg_error error = STG_ERROR_INIT;
  *t = (struct tensors){.engine = obj_engine(backend, STG_LAUNCH_DEFAULT)};
  const stg_rope_desc rope = {.struct_size = sizeof rope,
                              .heads = OBJ_HEADS,
                              .kv_heads = OBJ_KV_HEADS,
                              .dim = OBJ_DIM,
                              .rot = 6,
                              .dtype = STG_F32,
                              .layout = STG_QKV_GROUPED,
                              .scaling = STG_SCALING_LLAMA3,
                              .factor = 8,
                              .low_freq = 1,
                              .high_freq = 4,
                              .original = 8192,
                              .backward = true,
                              .transpose = true};
  const stg_attend_desc attend = {.struct_size = sizeof attend,
                                  .heads = OBJ_HEADS,
                                  .scale = 0.5F,
                                  .window = 4,
                                  .key_mask = true,
                                  .batch = BATCH,
                                  .kv_heads = OBJ_KV_HEADS,
                                  .dim = OBJ_DIM,
                                  .tokens = TOKENS,
                                  .dtype = STG_F32};
  const stg_rows_desc rows = {.struct_size = sizeof rows, .batch = BATCH, .max_rows = 32};
  must(stg_rope_create(t->engine, &rope, &t->rope, &error), &error);
  must(stg_attend_create(t->engine, &attend, &t->attend, &error), &error);
  must(stg_rows_create(t->engine, &rows, &t->rows, &error), &error);
  t->qkv = numbers(t, PACKED_FLOATS);
  t->back = room(t, PACKED_FLOATS * sizeof(float));
  t->q = room(t, ROW_FLOATS * sizeof(float));
  t->k = room(t, ROW_FLOATS * sizeof(float));
  t->v = room(t, ROW_FLOATS * sizeof(float));
  t->heads = room(t, ROW_FLOATS * sizeof(float));
  t->out = room(t, TOKEN_FLOATS * sizeof(float));
  t->keys = numbers(t, TOKEN_FLOATS);
  t->values = numbers(t, TOKEN_FLOATS);
  t->mask = room(t, MASK_BYTES);
  t->len = room(t, BATCH * sizeof *t->len);
}

static void close_tensors(struct tensors *t) {
  stg_error error = STG_ERROR_INIT;
  void *const memory[] = {t->qkv, t->q,    t->k,      t->v,    t->back, t->heads,
                          t->out, t->keys, t->values, t->mask, t->len};
  must(stg_rows_destroy(t->rows, &error), &error);
  must(stg_attend_destroy(t->attend, &error), &error);
  must(stg_rope_destroy(t->rope, &error), &error);
  for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
    stg_mem_free(t->engine, memory[i]);
  }
  must(stg_engine_destroy(t->engine, &error), &error);
}

static void synchronize(const struct tensors *t) {
  stg_error error = STG_ERROR_INIT;
  if (stg_mem_device(t->engine) != NULL) {
    must(stg_stream_synchronize(stg_mem_device(t->engine), NULL, &error), &error);
  }
}

static stg_rope_tensors rope_tensors(const struct tensors *t, bool is_wide) {
  return (stg_rope_tensors){.struct_size = sizeof(stg_rope_tensors),
                            .qkv = t->qkv,
                            .q = t->q,
                            .k = t->k,
                            .v = t->v,
                            .k_stride = OBJ_ROW, /* with a gap */
                            .pos = is_wide ? (const void *)wide : places,
                            .pos_is_64 = is_wide,
                            .rows = ROWS};
}

static void turn(struct tensors *t, bool is_wide) {
  const stg_rope_tensors tensors = rope_tensors(t, is_wide);
  stg_error error = STG_ERROR_INIT;
  must(stg_rope_apply(t->rope, NULL, &tensors, NULL, &error), &error);
  synchronize(t);
}

static void turn_back(struct tensors *t) {
  stg_rope_tensors tensors = rope_tensors(t, false);
  stg_error error = STG_ERROR_INIT;
  tensors.qkv = t->back;
  must(stg_rope_backward(t->rope, NULL, &tensors, NULL, &error), &error);
  synchronize(t);
}

static void positions_of_both_widths_give_the_same_bits(void **state) {
  struct tensors t;
  float q[ROWS * OBJ_ROW];
  (void)state;
  open_tensors(&t, STG_BACKEND_CPU);
  turn(&t, false);
  memcpy(q, t.q, sizeof q);
  memset(t.q, 0, sizeof q);
  turn(&t, true);
  assert_memory_equal(q, t.q, sizeof q);
  assert_true(isnan(t.k[(size_t)OBJ_KV_HEADS * OBJ_DIM])); /* the gap */
  close_tensors(&t);
}

static void backward_takes_forward_back(void **state) {
  struct tensors t;
  (void)state;
  open_tensors(&t, STG_BACKEND_CPU);
  turn(&t, false);
  turn_back(&t);
  bool changed = false;
  for (size_t i = 0; i < ROW_FLOATS; i++) {
    changed = changed || t.q[i] != t.qkv[i];
  }
  assert_true(changed);
  for (size_t i = 0; i < PACKED_FLOATS; i++) {
    assert_float_equal(t.qkv[i], t.back[i], 1e-6F);
  }
  close_tensors(&t);
}

/* Rows of 4 heads to heads of 7 rows, whose stride has a gap, and back. */
static void transpose_there(struct tensors *t) {
  const stg_heads_tensors tensors = {.struct_size = sizeof tensors,
                                     .heads = OBJ_HEADS - 1,
                                     .rows = ROWS,
                                     .from = t->qkv,
                                     .from_stride = OBJ_PACKED,
                                     .to = t->heads,
                                     .to_stride = HEADS_STRIDE};
  stg_error error = STG_ERROR_INIT;
  must(stg_heads_transpose(t->rope, &tensors, NULL, &error), &error);
  synchronize(t);
}

static void heads_go_there_and_back(void **state) {
  const int64_t stride = HEADS_STRIDE;
  struct tensors t;
  stg_error error = STG_ERROR_INIT;
  (void)state;
  open_tensors(&t, STG_BACKEND_CPU);
  transpose_there(&t);
  for (int64_t row = 0; row < ROWS; row++) {
    for (int64_t i = 0; i < (int64_t)(OBJ_HEADS - 1) * OBJ_DIM; i++) {
      assert_memory_equal(&t.qkv[row * OBJ_PACKED + i],
                          &t.heads[i / OBJ_DIM * stride + row * OBJ_DIM + i % OBJ_DIM],
                          sizeof(float));
    }
  }
  const stg_heads_tensors back = {.struct_size = sizeof back,
                                  .from_order = STG_ORDER_HEADS_FIRST,
                                  .heads = OBJ_HEADS - 1,
                                  .rows = ROWS,
                                  .from = t.heads,
                                  .from_stride = stride,
                                  .to = t.back,
                                  .to_stride = OBJ_PACKED};
  must(stg_heads_transpose(t.rope, &back, NULL, &error), &error);
  for (int64_t row = 0; row < ROWS; row++) {
    assert_memory_equal(&t.qkv[row * OBJ_PACKED], &t.back[row * OBJ_PACKED],
                        (size_t)(OBJ_HEADS - 1) * OBJ_DIM * sizeof(float));
  }
  close_tensors(&t);
}

/* All tokens of two sequences at once, the second shorter, a key of each left out. */
static void attend_tokens(struct tensors *t) {
  static int32_t seq[BATCH * TOKENS], pos[BATCH * TOKENS];
  const stg_attend_tensors tensors = {.struct_size = sizeof tensors,
                                      .q = t->keys,
                                      .out = t->out,
                                      .k = t->keys,
                                      .v = t->values,
                                      .seq_stride = (int64_t)(TOKENS * OBJ_ROW),
                                      .head_stride = OBJ_DIM,
                                      .pos_stride = OBJ_ROW,
                                      .len = t->len,
                                      .key_mask = t->mask,
                                      .mask_stride = MASK_STRIDE};
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; i < BATCH * TOKENS; i++) {
    seq[i] = i / TOKENS;
    pos[i] = i % TOKENS;
  }
  memset(t->mask, 1, MASK_BYTES);
  t->mask[2] = t->mask[TOKENS + 3] = 0; /* key 2 of the first, key 0 of the second */
  t->len[0] = TOKENS;
  t->len[1] = 5;
  const stg_rows_step step = {
      .struct_size = sizeof step, .rows = (int64_t)BATCH * TOKENS, .seq = seq, .pos = pos};
  must(stg_rows_step_set(t->rows, &step, NULL, &error), &error);
  must(stg_attend_apply(t->attend, t->rows, &tensors, NULL, &error), &error);
  synchronize(t);
}

/* One head of one row, in float64. */
static void expect_head(const struct tensors *t, int64_t seq, int64_t p, int64_t head) {
  double ref[OBJ_DIM] = {0}, sum = 0;
  const float *q = t->keys + (seq * TOKENS + p) * OBJ_ROW + head * OBJ_DIM;
  for (int64_t j = p > 3 ? p - 3 : 0; j <= p && p < t->len[seq]; j++) {
    const int64_t at = (seq * TOKENS + j) * (int64_t)OBJ_ROW + head / 2 * OBJ_DIM;
    double score = 0;
    if (t->mask[seq * MASK_STRIDE + j] == 0) {
      continue;
    }
    for (int64_t d = 0; d < OBJ_DIM; d++) {
      score += (double)q[d] * (double)t->keys[at + d];
    }
    sum += exp(score / 2);
    for (int64_t d = 0; d < OBJ_DIM; d++) {
      ref[d] += exp(score / 2) * (double)t->values[at + d];
    }
  }
  for (int64_t d = 0; d < OBJ_DIM; d++) {
    const float wanted = sum > 0 ? (float)(ref[d] / sum) : 0;
    assert_float_equal(wanted, t->out[(seq * TOKENS + p) * OBJ_ROW + head * OBJ_DIM + d], 1e-5F);
  }
}

static void a_window_of_tokens_is_attended(void **state) {
  struct tensors t;
  (void)state;
  open_tensors(&t, STG_BACKEND_CPU);
  attend_tokens(&t);
  for (int64_t i = 0; i < (int64_t)BATCH * TOKENS * OBJ_HEADS; i++) {
    expect_head(&t, i / OBJ_HEADS / TOKENS, i / OBJ_HEADS % TOKENS, i % OBJ_HEADS);
  }
  close_tensors(&t);
}

/* Whether element i of packed rows, which stand in groups, is one of V. */
static bool is_v(size_t i) {
  const size_t of_group = OBJ_HEADS / OBJ_KV_HEADS + 2;
  return i / OBJ_DIM % of_group == of_group - 1;
}

/* There and back without tensors of V; `back` keeps what it had for it. */
static void turn_q_and_k(struct tensors *t) {
  stg_rope_tensors tensors = rope_tensors(t, false);
  stg_error error = STG_ERROR_INIT;
  tensors.v = NULL;
  tensors.v_stride = 1;
  must(stg_rope_apply(t->rope, NULL, &tensors, NULL, &error), &error);
  synchronize(t);
  tensors.qkv = t->back;
  must(stg_rope_backward(t->rope, NULL, &tensors, NULL, &error), &error);
  synchronize(t);
}

static void without_its_tensor_v_stays_in_the_packed_rows(void **state) {
  const stg_backend backends[] = {STG_BACKEND_CPU, STG_BACKEND_CUDA};
  float q[ROW_FLOATS], k[ROW_FLOATS], qkv[PACKED_FLOATS];
  (void)state;
  for (size_t b = 0; b < 2; b++) {
    struct tensors t;
    open_tensors(&t, backends[b]);
    turn(&t, false);
    memcpy(q, t.q, sizeof q);
    memcpy(k, t.k, sizeof k);
    memcpy(qkv, t.qkv, sizeof qkv);
    memset(t.q, 0, sizeof q);
    memset(t.v, 0x77, ROW_FLOATS * sizeof(float));
    turn_q_and_k(&t);
    assert_memory_equal(q, t.q, sizeof q);
    assert_memory_equal(k, t.k, sizeof k);
    assert_memory_equal(qkv, t.qkv, sizeof qkv);
    for (size_t i = 0; i < PACKED_FLOATS; i++) {
      assert_true(is_v(i) ? isnan(t.back[i]) : fabsf(t.qkv[i] - t.back[i]) <= 1e-6F);
    }
    for (size_t i = 0; i < ROW_FLOATS * sizeof(float); i++) {
      assert_int_equal(0x77, ((unsigned char *)t.v)[i]);
    }
    close_tensors(&t);
  }
}

static void a_device_is_told_the_same(void **state) {
  struct tensors cpu, device;
  (void)state;
  open_tensors(&cpu, STG_BACKEND_CPU);
  open_tensors(&device, STG_BACKEND_CUDA);
  for (int k = 0; k < 2; k++) {
    struct tensors *t = k == 0 ? &cpu : &device;
    turn(t, k == 1);
    turn_back(t);
    transpose_there(t);
    attend_tokens(t);
  }
  assert_memory_equal(cpu.q, device.q, ROW_FLOATS * sizeof(float));
  assert_memory_equal(cpu.k, device.k, ROW_FLOATS * sizeof(float));
  assert_memory_equal(cpu.v, device.v, ROW_FLOATS * sizeof(float));
  assert_memory_equal(cpu.back, device.back, PACKED_FLOATS * sizeof(float));
  assert_memory_equal(cpu.heads, device.heads, ROW_FLOATS * sizeof(float));
  assert_memory_equal(cpu.out, device.out, TOKEN_FLOATS * sizeof(float));
  close_tensors(&device);
  close_tensors(&cpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(positions_of_both_widths_give_the_same_bits),
      cmocka_unit_test(backward_takes_forward_back),
      cmocka_unit_test(heads_go_there_and_back),
      cmocka_unit_test(a_window_of_tokens_is_attended),
      cmocka_unit_test(without_its_tensor_v_stays_in_the_packed_rows),
      cmocka_unit_test(a_device_is_told_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

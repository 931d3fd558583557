/*
 * test_attn_traffic.c: what a manifest knows of ropes, attends and advances that no block launches.
 */
#include "engine/traffic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <steergraph/attention.h>

#include "engine/attn.h"

#define BATCH 2
#define DIM 2
#define N_ATTENDS (STG_ROWS_MAX_COUNTED + 1)

struct bed {
  stg_engine *engine;
  stg_kv *kv;
  stg_rows *rows;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void open_bed(struct bed *bed) {
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  *bed = (struct bed){.engine = NULL};
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  options.cache_mode = STG_CACHE_OFF;
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  const stg_kv_desc kv = {.struct_size = sizeof kv,
                          .batch = BATCH,
                          .kv_heads = 1,
                          .dim = DIM,
                          .capacity = 8,
                          .dtype = STG_F32};
  ok(stg_kv_create(bed->engine, &kv, &bed->kv, &error), &error);
  const stg_rows_desc rows = {.struct_size = sizeof rows, .kv = bed->kv, .max_rows = 4};
  ok(stg_rows_create(bed->engine, &rows, &bed->rows, &error), &error);
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_rows_destroy(bed->rows, &error), &error);
  ok(stg_kv_destroy(bed->kv, &error), &error);
  ok(stg_engine_destroy(bed->engine, &error), &error);
}

/* A decode step of both sequences. */
static void step(struct bed *bed) {
  static const int32_t seq[BATCH] = {0, 1};
  const stg_rows_step of_rows = {.struct_size = sizeof of_rows, .rows = BATCH, .seq = seq};
  stg_error error = STG_ERROR_INIT;
  ok(stg_rows_step_set(bed->rows, &of_rows, NULL, &error), &error);
}

/* Steps of the signatures that have `piece`; their number in `ret_shapes`. */
static uint64_t steps_of(struct bed *bed, const char *piece, size_t *ret_shapes) {
  struct stg_arena arena = {0};
  struct stg_traffic_count **counts = NULL;
  size_t n = 0;
  uint64_t steps = 0;
  stg_error error = STG_ERROR_INIT;
  ok(stg_traffic_list(bed->engine->traffic, &arena, &counts, &n, &error), &error);
  *ret_shapes = 0;
  for (size_t i = 0; i < n; i++) {
    if (strstr(counts[i]->kernel, piece) != NULL) {
      assert_null(strstr(counts[i]->kernel, "cpu"));
      steps += atomic_load(&counts[i]->steps);
      ++*ret_shapes;
    }
  }
  stg_arena_finish(&arena);
  return steps;
}

static void expect_steps(struct bed *bed, const char *piece, uint64_t steps, size_t shapes) {
  size_t n = 0;
  assert_int_equal(steps, steps_of(bed, piece, &n));
  assert_int_equal(shapes, n);
}

static void layers_of_a_step_count_once(void **state) {
  float qkv[BATCH * 3 * DIM] = {0}, q[BATCH * DIM], out[BATCH * DIM];
  (void)state;
  struct bed bed;
  stg_rope *rope = NULL;
  stg_attend *attend = NULL;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  const stg_rope_desc of_rope = {.struct_size = sizeof of_rope, .heads = 1, .kv = bed.kv};
  const stg_attend_desc of_attend = {.struct_size = sizeof of_attend, .heads = 1, .kv = bed.kv};
  ok(stg_rope_create(bed.engine, &of_rope, &rope, &error), &error);
  ok(stg_attend_create(bed.engine, &of_attend, &attend, &error), &error);
  const stg_rope_tensors to_rope = {.struct_size = sizeof to_rope, .qkv = qkv, .q = q};
  const stg_attend_tensors to_attend = {.struct_size = sizeof to_attend, .q = q, .out = out};
  for (uint64_t steps = 1; steps <= 2; steps++) {
    step(&bed);
    for (int layer = 0; layer < 3; layer++) {
      ok(stg_rope_apply(rope, bed.rows, &to_rope, NULL, &error), &error);
      ok(stg_attend_apply(attend, bed.rows, &to_attend, NULL, &error), &error);
    }
    ok(stg_kv_advance(bed.kv, bed.rows, NULL, &error), &error);
    expect_steps(&bed, "work=rotate", steps, 1);
    expect_steps(&bed, "decode v1 |", steps, 1);
    expect_steps(&bed, "work=advance", steps, 1);
  }
  ok(stg_attend_destroy(attend, &error), &error);
  ok(stg_rope_destroy(rope, &error), &error);
  close_bed(&bed);
}

static void without_rows_each_apply_counts(void **state) {
  enum { MANY = 40 };
  (void)state;
  struct bed bed;
  stg_rope *rope = NULL;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  const stg_rope_desc desc = {.struct_size = sizeof desc,
                              .heads = 1,
                              .kv_heads = 1,
                              .dim = DIM,
                              .dtype = STG_F32,
                              .backward = true};
  ok(stg_rope_create(bed.engine, &desc, &rope, &error), &error);
  float qkv[MANY * 3 * DIM] = {0}, q[MANY * DIM] = {0}, k[MANY * DIM] = {0}, v[MANY * DIM] = {0};
  const int32_t pos[MANY] = {0};
  stg_rope_tensors tensors = {
      .struct_size = sizeof tensors, .qkv = qkv, .q = q, .k = k, .v = v, .pos = pos};
  static const int64_t rows[] = {3, 4, 4, MANY};
  for (size_t i = 0; i < 4; i++) {
    tensors.rows = rows[i];
    ok(stg_rope_apply(rope, NULL, &tensors, NULL, &error), &error);
  }
  ok(stg_rope_backward(rope, NULL, &tensors, NULL, &error), &error);
  expect_steps(&bed, "dir=forward", 4, 2);
  expect_steps(&bed, "dir=backward", 1, 1);
  ok(stg_rope_destroy(rope, &error), &error);
  close_bed(&bed);
}

static void a_refused_apply_does_not_count(void **state) {
  (void)state;
  struct bed bed;
  stg_attend *attend = NULL;
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  const stg_attend_desc desc = {.struct_size = sizeof desc, .heads = 1, .kv = bed.kv};
  ok(stg_attend_create(bed.engine, &desc, &attend, &error), &error);
  step(&bed);
  const stg_attend_tensors nowhere = {.struct_size = sizeof nowhere};
  assert_int_equal(STG_E_INVALID, stg_attend_apply(attend, bed.rows, &nowhere, NULL, &error));
  expect_steps(&bed, "v1", 0, 0);
  ok(stg_attend_destroy(attend, &error), &error);
  close_bed(&bed);
}

static void of_a_step_eight_kernels_are_told_apart(void **state) {
  float q[BATCH * N_ATTENDS * DIM] = {0}, out[BATCH * N_ATTENDS * DIM];
  (void)state;
  struct bed bed;
  stg_attend *attends[N_ATTENDS];
  stg_error error = STG_ERROR_INIT;
  open_bed(&bed);
  step(&bed);
  for (uint32_t i = 0; i < N_ATTENDS; i++) {
    const stg_attend_desc desc = {.struct_size = sizeof desc, .heads = i + 1, .kv = bed.kv};
    ok(stg_attend_create(bed.engine, &desc, &attends[i], &error), &error);
  }
  for (size_t i = 0; i < 2 * (size_t)N_ATTENDS; i++) {
    const stg_attend_tensors tensors = {.struct_size = sizeof tensors, .q = q, .out = out};
    ok(stg_attend_apply(attends[i % N_ATTENDS], bed.rows, &tensors, NULL, &error), &error);
  }
  expect_steps(&bed, "decode v1 |", STG_ROWS_MAX_COUNTED, STG_ROWS_MAX_COUNTED);
  for (size_t i = 0; i < N_ATTENDS; i++) {
    ok(stg_attend_destroy(attends[i], &error), &error);
  }
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_of_a_step_count_once),
      cmocka_unit_test(without_rows_each_apply_counts),
      cmocka_unit_test(a_refused_apply_does_not_count),
      cmocka_unit_test(of_a_step_eight_kernels_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_bench_bed.c: what a bed's table declares besides is used by every row, and leaves the rows
 * as they are without it. On the CPU backend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <steergraph/steergraph.h>

#include "runtime/base/dtype.h"
#include "tools/bench/agree.h"
#include "tools/bench/bed.h"

#define HIDDEN 64
#define REQUESTS 3

static const uint32_t lengths[REQUESTS] = {2, 1, 3};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s", error->message);
  }
}

/* One apply of a bed to the batch's rows. */
struct applied {
  struct stg_bench_mix mix;
  struct stg_bench_batch batch;
  struct stg_bench_bed bed;
  stg_engine *engine;
  uint16_t *rows;
};

static void apply_with(enum stg_bench_declared extra, struct applied *ret) {
  stg_error error = STG_ERROR_INIT;
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CPU;
  *ret = (struct applied){.mix = {.name = "bed",
                                  .hidden_size = HIDDEN,
                                  .n_requests = REQUESTS,
                                  .lengths = lengths,
                                  .n_ops = 1,
                                  .n_distinct = REQUESTS,
                                  .kind = STG_BENCH_MIXED,
                                  .extra = extra}};
  ok(stg_engine_create(&options, &ret->engine, &error), &error);
  ok(stg_bench_batch_init(&ret->mix, &ret->batch, &error), &error);
  ok(stg_bench_bed_init(ret->engine, &ret->batch, false, &ret->bed, &error), &error);
  const size_t bytes = stg_bench_batch_bytes(&ret->batch);
  ret->rows = malloc(bytes);
  assert_non_null(ret->rows);
  memcpy(ret->rows, ret->batch.hidden, bytes);
  void *memory[] = {ret->rows}, *residual[] = {NULL};
  const struct stg_bench_buffers buffers = {
      .count = 1, .bytes = bytes, .memory = memory, .residual = residual};
  ok(stg_bench_bed_launch(&ret->bed, &buffers, 0, NULL, &error), &error);
}

static void finish(struct applied *applied) {
  stg_error error = STG_ERROR_INIT;
  stg_bench_bed_finish(&applied->bed);
  stg_bench_batch_finish(&applied->batch);
  ok(stg_engine_destroy(applied->engine, &error), &error);
  free(applied->rows);
}

static void the_rows_have_the_same_bytes_with_each_extra(void **state) {
  (void)state;
  static const enum stg_bench_declared extras[] = {STG_BENCH_WINDOWS, STG_BENCH_COUNTERS,
                                                   STG_BENCH_PROBE};
  struct applied without;
  apply_with(STG_BENCH_NO_EXTRA, &without);
  assert_int_equal(stg_bench_rows_changed(&without.batch, without.rows), without.batch.rows);
  for (size_t i = 0; i < sizeof extras / sizeof extras[0]; i++) {
    struct applied with;
    apply_with(extras[i], &with);
    assert_memory_equal(without.rows, with.rows, stg_bench_batch_bytes(&with.batch));
    finish(&with);
  }
  finish(&without);
}

static void the_signature_has_what_is_declared(void **state) {
  (void)state;
  static const struct {
    enum stg_bench_declared extra;
    const char *piece;
  } cases[] = {{STG_BENCH_NO_EXTRA, "ops=ablation,add,projection_cap chain"},
               {STG_BENCH_NO_EXTRA, " windows=0 counters=0 probes=0 "},
               {STG_BENCH_WINDOWS, " windows=1 counters=0 probes=0 "},
               {STG_BENCH_COUNTERS, " windows=0 counters=1 probes=0 "},
               {STG_BENCH_PROBE, " windows=0 counters=0 probes=1 "},
               {STG_BENCH_PROBE, "ops=ablation,add,probe,projection_cap chain"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct applied applied;
    stg_plan_info plan = {.struct_size = sizeof plan};
    apply_with(cases[i].extra, &applied);
    assert_int_equal(STG_OK, stg_frame_plan(applied.bed.frame, &plan, NULL));
    if (strstr(plan.signature, cases[i].piece) == NULL) {
      fail_msg("no '%s' in '%s'", cases[i].piece, plan.signature);
    }
    finish(&applied);
  }
}

static void every_row_is_counted(void **state) {
  (void)state;
  struct applied applied;
  apply_with(STG_BENCH_COUNTERS, &applied);
  for (uint32_t r = 0; r < REQUESTS; r++) {
    stg_slot_counters counters = {.struct_size = sizeof counters};
    assert_int_equal(STG_OK, stg_steer_counters(applied.bed.steer, r, 0, NULL, &counters, NULL));
    assert_int_equal(counters.rows_touched, lengths[r]);
  }
  finish(&applied);
}

static double dot(const uint16_t *a, const uint16_t *b) {
  double sum = 0;
  for (size_t j = 0; j < HIDDEN; j++) {
    sum += (double)stg_bf16_to_f32(a[j]) * (double)stg_bf16_to_f32(b[j]);
  }
  return sum;
}

/* The projection that the row's op leaves, of rows of deviation 8 on unit vectors. */
static double projection_after(const struct stg_bench_batch *batch, uint32_t row) {
  const struct stg_bench_op *op = stg_bench_batch_chain(batch, (uint32_t)batch->row_map[row]);
  const uint16_t *vector = batch->vectors + (size_t)op->vector * HIDDEN;
  const double p = dot(batch->hidden + (size_t)row * HIDDEN, vector), vv = dot(vector, vector);
  if (op->kind == STG_BENCH_CAP) {
    const double capped = p < (double)op->a ? (double)op->a : p > (double)op->b ? (double)op->b : p;
    return p + (capped - p) * vv;
  }
  return op->kind == STG_BENCH_ADD ? p + (double)op->a * vv : p - p * vv;
}

static void every_row_gives_out_its_probe_behind_the_op(void **state) {
  (void)state;
  struct applied applied;
  apply_with(STG_BENCH_PROBE, &applied);
  const float *probes = applied.bed.probes;
  for (uint32_t row = 0; row < applied.batch.rows; row++) {
    assert_true(fabs((double)probes[row] - projection_after(&applied.batch, row)) < 1e-3);
  }
  finish(&applied);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_rows_have_the_same_bytes_with_each_extra),
      cmocka_unit_test(the_signature_has_what_is_declared),
      cmocka_unit_test(every_row_is_counted),
      cmocka_unit_test(every_row_gives_out_its_probe_behind_the_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

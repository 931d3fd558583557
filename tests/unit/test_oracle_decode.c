/*
 * test_oracle_decode.c: that the reference of attention refuses what is wrong: a result of the CPU
 * backend passes, and does not once one thing about its call was changed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/attn_bed.h"

#define BATCH 4
#define CAPACITY 64
#define HEADS 4
#define KV_HEADS 2
#define DIM 64
#define ELEMS ((int64_t)BATCH * HEADS * DIM)

/* A call as it should be, and its cache; K and V are there for one position more than it reads. */
struct bench {
  struct attn_bed bed;
  struct stg_decode_geometry geometry;
  struct attn_kv kv;
  struct stg_cpu_attend_batch right;
};

static void open_bench(struct bench *bench, stg_dtype dtype) {
  static const int32_t seq[BATCH] = {0, 1, -1, 3};
  static const int32_t filled[BATCH] = {41, 8, 20, 64};
  static const int32_t len[BATCH] = {39, 6, 18, CAPACITY};
  attn_open(&bench->bed, 41);
  bench->geometry = (struct stg_decode_geometry){
      .heads = HEADS, .kv_heads = KV_HEADS, .dim = DIM, .dtype = dtype, .chunk = 16};
  bench->kv =
      attn_kv_open(&bench->bed, (struct attn_kv_shape){BATCH, KV_HEADS, DIM, CAPACITY, dtype, 0});
  attn_kv_fill(&bench->bed, &bench->kv, filled);
  memcpy(bench->kv.len, len, sizeof len);
  bench->right = (struct stg_cpu_attend_batch){
      .geometry = &bench->geometry,
      .rows = {.rows = BATCH, .batch = BATCH, .seq = seq, .len = bench->kv.len},
      .kv = &bench->kv.view,
      .q = attn_random(&bench->bed, dtype, ELEMS),
      .q_stride = (int64_t)HEADS * DIM,
      .out = attn_nans(&bench->bed, dtype, ELEMS),
      .out_stride = (int64_t)HEADS * DIM,
      .scale = 0.125F,
  };
}

static struct stg_oracle_heads_report check(struct bench *bench) {
  const struct stg_cpu_attend_batch *right = &bench->right;
  const struct stg_oracle_attend_batch batch = {
      .geometry = right->geometry,
      .rows = right->rows,
      .kv = right->kv,
      .q = right->q,
      .q_stride = right->q_stride,
      .out = {attn_nans(&bench->bed, bench->geometry.dtype, ELEMS), right->out, right->out_stride},
      .scale = (double)right->scale,
      .window = right->window,
      .key_mask = right->key_mask,
      .mask_stride = right->mask_stride,
      .valid = right->valid,
  };
  struct stg_oracle_heads_report report;
  assert_int_equal(STG_OK, stg_oracle_attend_check(&batch, &report, NULL));
  return report;
}

/* What a wrong call left, against the right one. */
static struct stg_oracle_heads_report check_wrong(struct bench *bench,
                                                  const struct stg_cpu_attend_batch *wrong) {
  assert_int_equal(STG_OK, stg_cpu_attend(wrong, NULL));
  const struct stg_oracle_heads_report report = check(bench);
  assert_false(report.ok);
  assert_true(report.violations != 0 && report.worst_ratio > 1);
  assert_string_equal("out", report.first_in);
  return report;
}

static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};
#define FOR_EACH_DTYPE(k) for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++)

static void what_the_cpu_leaves_passes_and_is_counted(void **state) {
  FOR_EACH_DTYPE(k) {
    struct bench bench;
    open_bench(&bench, dtypes[k]);
    assert_int_equal(STG_OK, stg_cpu_attend(&bench.right, NULL));
    const struct stg_oracle_heads_report report = check(&bench);
    attn_expect_ok(&report);
    assert_int_equal(BATCH, report.rows);
    assert_int_equal(1, report.rows_padding);
    assert_int_equal(1, report.rows_refused);
    assert_int_equal(2 * HEADS * DIM, report.elements);
    assert_true(report.worst_ratio > 0 && report.worst_ratio <= 1);
    assert_true(report.mae > 0 && report.mae <= report.max_abs_err);
    assert_null(report.first_in);
    attn_close(&bench.bed);
  }
  (void)state;
}

static void a_scale_that_is_off_by_a_tenth_fails(void **state) {
  FOR_EACH_DTYPE(k) {
    struct bench bench;
    open_bench(&bench, dtypes[k]);
    struct stg_cpu_attend_batch wrong = bench.right;
    wrong.scale *= 1.1F;
    check_wrong(&bench, &wrong);
    attn_close(&bench.bed);
  }
  (void)state;
}

static void half_a_dot_fails(void **state) {
  FOR_EACH_DTYPE(k) {
    struct bench bench;
    open_bench(&bench, dtypes[k]);
    struct stg_cpu_attend_batch wrong = bench.right;
    void *halves = attn_copy(&bench.bed, dtypes[k], wrong.q, ELEMS);
    for (size_t j = 0; j < ELEMS; j++) {
      if (j % DIM >= DIM / 2) {
        stg_store_f32(dtypes[k], halves, j, 0);
      }
    }
    wrong.q = halves;
    check_wrong(&bench, &wrong);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* One position too many, and one too few. */
static void reading_past_the_position_fails(void **state) {
  FOR_EACH_DTYPE(k) {
    for (int32_t by = -1; by <= 1; by += 2) {
      struct bench bench;
      open_bench(&bench, dtypes[k]);
      struct stg_cpu_attend_batch wrong = bench.right;
      int32_t len[BATCH];
      for (size_t seq = 0; seq < BATCH; seq++) {
        len[seq] = bench.kv.len[seq] == CAPACITY ? CAPACITY : bench.kv.len[seq] + by;
      }
      wrong.rows.len = len;
      const struct stg_oracle_heads_report report = check_wrong(&bench, &wrong);
      assert_true(report.first_row == 0 && report.first_head == 0);
      attn_close(&bench.bed);
    }
  }
  (void)state;
}

static void a_neighbours_keys_or_values_fail(void **state) {
  FOR_EACH_DTYPE(k) {
    struct bench bench;
    open_bench(&bench, dtypes[k]);
    const struct stg_kv_view right = bench.kv.view;
    struct stg_kv_view view = right;
    struct stg_cpu_attend_batch wrong = bench.right;
    wrong.kv = &view;
    view.k = attn_kv_at(&bench.kv, right.k, 0, 0, 1); /* KV head h + 1, and past the last... */
    view.batch = BATCH - 1;                           /* ...sequence there is nothing */
    static const int32_t seq[BATCH] = {0, 1, -1, -1};
    wrong.rows.seq = seq;
    check_wrong(&bench, &wrong);
    view.k = right.k;
    view.v = attn_kv_at(&bench.kv, right.v, 1, 0, 0); /* the next sequence's */
    check_wrong(&bench, &wrong);
    attn_close(&bench.bed);
  }
  (void)state;
}

static void another_window_or_mask_fails(void **state) {
  FOR_EACH_DTYPE(k) {
    struct bench bench;
    open_bench(&bench, dtypes[k]);
    bench.right.window = 20;
    struct stg_cpu_attend_batch wrong = bench.right;
    wrong.window = 21;
    check_wrong(&bench, &wrong);
    wrong.window = 0;
    check_wrong(&bench, &wrong);
    uint8_t *mask = attn_filled(&bench.bed, (size_t)BATCH * CAPACITY, 1);
    bench.right.window = 0;
    bench.right.key_mask = mask;
    bench.right.mask_stride = CAPACITY;
    mask[17] = 0;
    check_wrong(&bench, &wrong);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Row 3 is refused, row 2 is padding. */
static void a_refused_row_that_is_not_zeros_and_padding_that_is_fail(void **state) {
  struct bench bench;
  open_bench(&bench, STG_BF16);
  uint16_t *out = bench.right.out;
  assert_int_equal(STG_OK, stg_cpu_attend(&bench.right, NULL));
  out[3 * HEADS * DIM + 7] = 0x8000; /* -0 */
  struct stg_oracle_heads_report report = check(&bench);
  assert_true(!report.ok && report.violations == 1 && isinf(report.worst_ratio));
  assert_true(report.first_row == 3 && report.first_head == 0 && report.first_element == 7);
  out[3 * HEADS * DIM + 7] = 0;
  out[3 * HEADS * DIM - 1] = 0;
  report = check(&bench);
  assert_true(report.violations == 1 && report.first_row == 2);
  assert_true(report.first_head == HEADS - 1 && report.first_element == DIM - 1);
  attn_close(&bench.bed);
  (void)state;
}

/* An element a little beyond its bound, and one that is NaN. */
static void one_element_beyond_its_bound_is_found(void **state) {
  FOR_EACH_DTYPE(k) {
    struct bench bench;
    open_bench(&bench, dtypes[k]);
    assert_int_equal(STG_OK, stg_cpu_attend(&bench.right, NULL));
    const size_t at = HEADS * DIM + 2 * DIM + 5;
    const float y = stg_load_f32(dtypes[k], bench.right.out, at);
    stg_store_f32(dtypes[k], bench.right.out, at, y * (dtypes[k] == STG_F32 ? 1.0001F : 1.03F));
    struct stg_oracle_heads_report report = check(&bench);
    assert_true(!report.ok && report.violations == 1);
    assert_true(report.first_row == 1 && report.first_head == 2 && report.first_element == 5);
    stg_store_f32(dtypes[k], bench.right.out, at, NAN);
    report = check(&bench);
    assert_true(report.violations == 1 && isinf(report.worst_ratio));
    attn_close(&bench.bed);
  }
  (void)state;
}

static void multiply(stg_dtype dtype, int64_t elems, float by, void *tensor) {
  for (size_t j = 0; j < (size_t)elems; j++) {
    stg_store_f32(dtype, tensor, j, stg_load_f32(dtype, tensor, j) * by);
  }
}

/* Elements that float32 holds, whose scores it does not, and then whose sums it does not: the mean
 * that float64 finds is none of theirs. A row whose own are in its range is held to it. */
static void what_float32_does_not_hold_on_the_way_may_be_infinite(void **state) {
  static const stg_dtype wide[] = {STG_F32, STG_BF16};
  for (size_t k = 0; k < 4; k++) {
    const stg_dtype dtype = wide[k % 2];
    const bool scores = k < 2;
    const float by = scores ? 0x1p70F : 0x1p126F;
    struct bench bench;
    open_bench(&bench, dtype);
    if (scores) {
      void *q = attn_copy(&bench.bed, dtype, bench.right.q, ELEMS);
      multiply(dtype, (int64_t)HEADS * DIM, by, q); /* row 0 alone */
      bench.right.q = q;
    }
    multiply(dtype, (int64_t)KV_HEADS * CAPACITY * DIM, by,
             scores ? bench.kv.view.k : bench.kv.view.v); /* of sequence 0 */
    assert_int_equal(STG_OK, stg_cpu_attend(&bench.right, NULL));
    struct stg_oracle_heads_report report = check(&bench);
    attn_expect_ok(&report);
    assert_true(report.overflows > 0);
    stg_store_f32(dtype, bench.right.out, HEADS * DIM + 3, NAN);
    report = check(&bench);
    assert_true(report.violations == 1 && report.first_row == 1 && report.first_element == 3);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Scores so large that float32 says nothing of their weights: what they weigh is nothing. */
static void zeros_stay_zeros_whatever_their_weights(void **state) {
  FOR_EACH_DTYPE(k) {
    struct bench bench;
    open_bench(&bench, dtypes[k]);
    bench.right.scale = 1e12F;
    multiply(dtypes[k], bench.kv.elems, 0, bench.kv.view.v);
    assert_int_equal(STG_OK, stg_cpu_attend(&bench.right, NULL));
    struct stg_oracle_heads_report report = check(&bench);
    attn_expect_ok(&report);
    stg_store_f32(dtypes[k], bench.right.out, 3, 0x1p-10F);
    report = check(&bench);
    assert_true(report.violations == 1 && report.first_row == 0 && report.first_element == 3);
    attn_close(&bench.bed);
  }
  (void)state;
}

static void memory_for_the_keys_may_be_missing(void **state) {
  struct bench bench;
  open_bench(&bench, STG_F32);
  const struct stg_oracle_attend_batch batch = {.geometry = &bench.geometry,
                                                .rows = bench.right.rows,
                                                .kv = bench.right.kv,
                                                .q = bench.right.q,
                                                .out = {NULL, bench.right.out, 0},
                                                .scale = 1};
  struct stg_oracle_heads_report report = {.rows = 99};
  stg_error error = STG_ERROR_INIT;
  stg_alloc_fail_at(1);
  assert_int_equal(STG_E_NO_MEMORY, stg_oracle_attend_check(&batch, &report, &error));
  stg_alloc_fail_at(0);
  assert_non_null(strstr(error.message, "keys of the oracle"));
  assert_int_equal(99, report.rows);
  bench.kv.view.capacity = INT64_MAX;
  assert_int_equal(STG_E_NO_MEMORY, stg_oracle_attend_check(&batch, &report, &error));
  attn_close(&bench.bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_cpu_leaves_passes_and_is_counted),
      cmocka_unit_test(a_scale_that_is_off_by_a_tenth_fails),
      cmocka_unit_test(half_a_dot_fails),
      cmocka_unit_test(reading_past_the_position_fails),
      cmocka_unit_test(a_neighbours_keys_or_values_fail),
      cmocka_unit_test(another_window_or_mask_fails),
      cmocka_unit_test(a_refused_row_that_is_not_zeros_and_padding_that_is_fail),
      cmocka_unit_test(one_element_beyond_its_bound_is_found),
      cmocka_unit_test(what_float32_does_not_hold_on_the_way_may_be_infinite),
      cmocka_unit_test(zeros_stay_zeros_whatever_their_weights),
      cmocka_unit_test(memory_for_the_keys_may_be_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

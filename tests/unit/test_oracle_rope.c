/*
 * test_oracle_rope.c: that the reference of rope refuses what is wrong: a result of the CPU backend
 * passes, and does not once one thing about its call or its memory was changed.
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

#define BATCH 3
#define ROWS 4
#define CAPACITY 300

static const struct stg_rope_freq plain = {.base = 10000};
static const int32_t seqs[ROWS] = {1, 0, -1, 2};

/* A call on a cache: a row at 200, one at 3, padding, and one that has no room. */
struct bench {
  struct attn_bed bed;
  struct attn_kv kv;
  struct attn_rope rope;
  void *k_before, *v_before, *q_before;
};

static void open_bench(struct bench *bench, struct stg_rope_geometry geometry, bool cache) {
  static const int32_t len[BATCH] = {3, 200, CAPACITY};
  attn_open(&bench->bed, 51);
  bench->kv =
      attn_kv_open(&bench->bed, (struct attn_kv_shape){BATCH, 2, 64, CAPACITY, geometry.dtype, 0});
  memcpy(bench->kv.len, len, sizeof len);
  const struct stg_step_rows rows = {
      .rows = ROWS, .batch = BATCH, .seq = seqs, .len = bench->kv.len};
  attn_rope_open(&bench->bed, &geometry, &plain, &rows, cache ? &bench->kv : NULL, &bench->rope);
  bench->k_before = attn_copy(&bench->bed, geometry.dtype, bench->kv.view.k, bench->kv.elems);
  bench->v_before = attn_copy(&bench->bed, geometry.dtype, bench->kv.view.v, bench->kv.elems);
  bench->q_before = attn_copy(&bench->bed, geometry.dtype, bench->rope.q, (int64_t)ROWS * 512);
}

/* As the geometry `right` has it. */
static struct stg_oracle_rope_batch check_of(struct bench *bench,
                                             const struct stg_rope_geometry *right) {
  const struct stg_cpu_rope_batch batch = attn_rope_batch(&bench->rope);
  return (struct stg_oracle_rope_batch){
      .geometry = right,
      .angles = {&bench->rope.freq, 512, bench->rope.angles.table,
                 bench->rope.angles.table_positions},
      .rows = batch.rows,
      .qkv = batch.qkv,
      .qkv_stride = batch.qkv_stride,
      .q = {bench->q_before, batch.q.data, batch.q.stride},
      .k = {NULL, batch.k.data, batch.k.stride},
      .v = {NULL, batch.v.data, batch.v.stride},
      .kv = batch.kv,
      .k_before = bench->k_before,
      .v_before = bench->v_before,
      .words = batch.words,
  };
}

static struct stg_oracle_heads_report check(struct bench *bench,
                                            const struct stg_rope_geometry *right) {
  const struct stg_oracle_rope_batch batch = check_of(bench, right);
  struct stg_oracle_heads_report report;
  assert_int_equal(STG_OK, stg_oracle_rope_check(&batch, &report, NULL));
  return report;
}

static void run(struct bench *bench) {
  const struct stg_cpu_rope_batch batch = attn_rope_batch(&bench->rope);
  assert_int_equal(STG_OK, stg_cpu_rope(&batch, NULL));
}

static void expect_wrong(const struct stg_oracle_heads_report *report, const char *tensor) {
  assert_false(report->ok);
  assert_true(report->violations != 0 && report->worst_ratio > 1);
  assert_string_equal(tensor, report->first_in);
}

static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};
#define FOR_EACH_DTYPE(k) for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++)

static struct stg_rope_geometry geometry_of(stg_dtype dtype) {
  struct stg_rope_geometry g = attn_rope_geometry();
  g.dtype = dtype;
  return g;
}

static void what_the_cpu_leaves_passes_and_is_counted(void **state) {
  FOR_EACH_DTYPE(k) {
    const struct stg_rope_geometry g = geometry_of(dtypes[k]);
    struct bench bench;
    open_bench(&bench, g, true);
    run(&bench);
    const struct stg_oracle_heads_report report = check(&bench, &g);
    attn_expect_ok(&report);
    assert_int_equal(ROWS, report.rows);
    assert_int_equal(1, report.rows_padding);
    assert_int_equal(1, report.rows_refused);
    assert_int_equal(0, report.rows_bad);
    assert_int_equal(3 * 8 * 64 + 2 * 2 * 64, report.elements); /* q of three rows, k of two */
    assert_true(report.worst_ratio > 0 && report.mae > 0 && report.mae <= report.max_abs_err);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Each option of a geometry but for the right one, on an equal call. */
static void another_geometry_fails(void **state) {
  FOR_EACH_DTYPE(k) {
    const struct stg_rope_geometry right = geometry_of(dtypes[k]);
    struct stg_rope_geometry wrong[6] = {right, right, right, right, right, right};
    wrong[0].pairs = STG_ROPE_PAIRS_INTERLEAVED;
    wrong[1].rot = 62;
    wrong[2].layout = STG_ROPE_LAYOUT_GROUPED;
    wrong[3].layout = STG_ROPE_LAYOUT_HEAD_FASTEST;
    wrong[4].trig = STG_ROPE_TRIG_SWAPPED_BF16;
    wrong[5].xpos = STG_ROPE_XPOS_HALVES;
    for (size_t w = 0; w < 6; w++) {
      struct bench bench;
      open_bench(&bench, wrong[w], true);
      run(&bench);
      const struct stg_oracle_heads_report report = check(&bench, &right);
      expect_wrong(&report, "q");
      attn_close(&bench.bed);
    }
  }
  (void)state;
}

/* The next position, a base that is off by a thousandth, and a turn the other way. */
static void other_angles_fail(void **state) {
  FOR_EACH_DTYPE(k) {
    const struct stg_rope_geometry g = geometry_of(dtypes[k]);
    for (int w = 0; w < 3; w++) {
      struct bench bench;
      open_bench(&bench, g, false);
      for (size_t seq = 0; seq < BATCH; seq++) {
        bench.kv.len[seq] += w == 0;
      }
      for (size_t i = 0; i < 32; i++) {
        bench.rope.inv_freq[i] *= w == 1 ? 1.001F : w == 2 ? -1.0F : 1.0F;
      }
      run(&bench);
      for (size_t seq = 0; seq < BATCH; seq++) {
        bench.kv.len[seq] -= w == 0;
      }
      const struct stg_oracle_heads_report report = check(&bench, &g);
      expect_wrong(&report, "q");
      attn_close(&bench.bed);
    }
  }
  (void)state;
}

/* A tenth more of the scale of xPos, and k with the scale of q. */
static void another_scale_of_xpos_fails(void **state) {
  struct stg_rope_geometry g = geometry_of(STG_F32);
  struct bench bench;
  g.xpos = STG_ROPE_XPOS_PAIRS;
  open_bench(&bench, g, false);
  run(&bench);
  struct stg_oracle_heads_report report = check(&bench, &g);
  attn_expect_ok(&report);
  bench.rope.angles.xpos_base = 512 / 1.1F;
  run(&bench);
  report = check(&bench, &g);
  expect_wrong(&report, "q");
  bench.rope.angles.xpos_base = 512;
  run(&bench);
  /* row 0: k's heads stand 8 behind q's and are turned as q is */
  struct attn_rope as_q = bench.rope;
  as_q.geometry.heads = 10;
  as_q.geometry.kv_heads = 1;
  float *q = attn_nans(&bench.bed, STG_F32, (int64_t)ROWS * 640);
  struct stg_cpu_rope_batch batch = attn_rope_batch(&bench.rope);
  batch.geometry = &as_q.geometry;
  batch.q = (struct stg_cpu_heads){q, 640};
  batch.rows.rows = 1;
  assert_int_equal(STG_OK, stg_cpu_rope(&batch, NULL));
  memcpy(bench.rope.k, q + 512, 128 * sizeof *q);
  report = check(&bench, &g);
  expect_wrong(&report, "k");
  attn_close(&bench.bed);
  (void)state;
}

/* One unit in the last place more than the eager sequence leaves. */
static void one_bit_off_the_eager_sequence_fails(void **state) {
  FOR_EACH_DTYPE(k) {
    struct stg_rope_geometry g = geometry_of(dtypes[k]);
    struct bench bench;
    g.round = STG_ROPE_ROUND_EACH_OP;
    open_bench(&bench, g, false);
    bench.rope.angles.table = attn_random(&bench.bed, STG_F32, (int64_t)(CAPACITY + 1) * 64);
    bench.rope.angles.table_positions = CAPACITY + 1;
    run(&bench);
    struct stg_oracle_heads_report report = check(&bench, &g);
    attn_expect_ok(&report);
    unsigned char *q = bench.rope.q;
    q[70 * stg_dtype_bytes(dtypes[k])] ^= 1; /* the lowest bit of element 6 of head 1 */
    report = check(&bench, &g);
    expect_wrong(&report, "q");
    assert_true(report.first_row == 0 && report.first_head == 1 && report.first_element == 6);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Of any numbers: products of larger ones are rounded by as much more. */
static void a_table_of_more_than_cosines_and_sines_passes(void **state) {
  const struct stg_rope_geometry g = geometry_of(STG_F32);
  static float table[CAPACITY * 64];
  struct bench bench;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    table[i] = 100.0F + (float)(i * 37 % 1009);
  }
  open_bench(&bench, g, true);
  bench.rope.angles.table = table;
  bench.rope.angles.table_positions = CAPACITY;
  run(&bench);
  struct stg_oracle_heads_report report = check(&bench, &g);
  attn_expect_ok(&report);
  table[(size_t)200 * 64] *= 1 + 0x1p-20F; /* the cosine of a pair of row 0 */
  report = check(&bench, &g);
  expect_wrong(&report, "q");
  attn_close(&bench.bed);
  (void)state;
}

/* What is not rotated, padding, and V: one bit each. */
static void a_bit_of_what_has_to_stay_fails(void **state) {
  struct stg_rope_geometry g = geometry_of(STG_BF16);
  struct bench bench;
  g.rot = 32;
  open_bench(&bench, g, true);
  run(&bench);
  uint16_t *q = bench.rope.q;
  q[33] ^= 1;
  struct stg_oracle_heads_report report = check(&bench, &g);
  expect_wrong(&report, "q");
  assert_int_equal(1, report.violations);
  q[33] ^= 1;
  q[1024] ^= 1; /* padding */
  report = check(&bench, &g);
  expect_wrong(&report, "q");
  assert_true(report.violations == 1 && report.first_row == 2);
  q[1024] ^= 1;
  *(uint16_t *)attn_kv_at(&bench.kv, bench.kv.view.v, 1, 200, 1) ^= 1;
  report = check(&bench, &g);
  expect_wrong(&report, "v");
  assert_true(report.violations == 1 && report.first_row == 0 && report.first_head == 1);
  attn_close(&bench.bed);
  (void)state;
}

/* Something in a place that no row is appended to: the last slot, the next one. */
static void a_write_anywhere_else_in_the_cache_fails(void **state) {
  static const int32_t places[][2] = {{2, CAPACITY - 1}, {1, 201}, {0, 2}, {0, CAPACITY - 1}};
  const struct stg_rope_geometry g = geometry_of(STG_F32);
  for (size_t k = 0; k < 2 * sizeof places / sizeof places[0]; k++) {
    const bool in_v = k % 2 != 0;
    struct bench bench;
    open_bench(&bench, g, true);
    run(&bench);
    float *place = attn_kv_at(&bench.kv, in_v ? bench.kv.view.v : bench.kv.view.k, places[k / 2][0],
                              places[k / 2][1], 1);
    place[63] = 0;
    const struct stg_oracle_heads_report report = check(&bench, &g);
    expect_wrong(&report, in_v ? "v" : "k");
    assert_true(report.violations == 1 && report.first_head == 1 && report.first_element == 63);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* A neighbour's K: heads exchanged, and rows appended one place late. */
static void a_neighbours_k_fails(void **state) {
  const struct stg_rope_geometry g = geometry_of(STG_BF16);
  struct bench bench;
  open_bench(&bench, g, true);
  run(&bench);
  memcpy(attn_kv_at(&bench.kv, bench.kv.view.k, 1, 200, 0),
         attn_kv_at(&bench.kv, bench.kv.view.k, 1, 200, 1), 64 * sizeof(uint16_t));
  struct stg_oracle_heads_report report = check(&bench, &g);
  expect_wrong(&report, "k");
  attn_close(&bench.bed);
  open_bench(&bench, g, true);
  bench.kv.view.k = (uint16_t *)bench.kv.view.k + 64;
  run(&bench);
  bench.kv.view.k = (uint16_t *)bench.kv.view.k - 64;
  report = check(&bench, &g);
  expect_wrong(&report, "k");
  attn_close(&bench.bed);
  (void)state;
}

static void refusals_counted_or_named_wrongly_fail(void **state) {
  const struct stg_rope_geometry g = geometry_of(STG_F32);
  for (int w = 0; w < 4; w++) {
    struct bench bench;
    open_bench(&bench, g, true);
    run(&bench);
    struct stg_kv_words *words = &bench.rope.words;
    assert_true(words->full == stg_kv_word(3, 2) && words->full_rows == 1);
    words->full += w == 0 ? 1 : 0;
    words->full_rows += w == 1;
    words->bad -= w == 2 ? 1 : 0;
    words->bad_rows += w == 3;
    const struct stg_oracle_heads_report report = check(&bench, &g);
    expect_wrong(&report, "words");
    attn_close(&bench.bed);
  }
  (void)state;
}

static void a_length_that_counts_a_refused_row_fails(void **state) {
  static const int32_t right[BATCH] = {4, 201, CAPACITY};
  const struct stg_rope_geometry g = geometry_of(STG_F32);
  struct bench bench;
  open_bench(&bench, g, true);
  for (size_t wrong = 0; wrong <= BATCH; wrong++) {
    int32_t after[BATCH];
    struct stg_oracle_heads_report report;
    memcpy(after, right, sizeof after);
    if (wrong < BATCH) {
      after[wrong]++;
    }
    stg_oracle_heads_report_init(&report);
    stg_oracle_check_advance(&bench.rope.rows, &bench.kv.view, bench.kv.len, after, &report);
    stg_oracle_heads_report_finish(&report);
    assert_int_equal(wrong == BATCH, report.ok);
    assert_true(wrong == BATCH || report.first_row == (int64_t)wrong);
  }
  attn_close(&bench.bed);
  (void)state;
}

static void two_rows_at_one_place_have_no_reference(void **state) {
  static const int32_t seq[ROWS] = {1, 0, 1, 1};
  static const int32_t pos[ROWS] = {7, 7, 8, 7};
  const struct stg_rope_geometry g = geometry_of(STG_F32);
  struct stg_oracle_heads_report report = {.rows = 99};
  struct bench bench;
  stg_error error = STG_ERROR_INIT;
  open_bench(&bench, g, true);
  bench.rope.rows.seq = seq;
  bench.rope.rows.pos = pos;
  run(&bench);
  const struct stg_oracle_rope_batch batch = check_of(&bench, &g);
  assert_int_equal(STG_E_INVALID, stg_oracle_rope_check(&batch, &report, &error));
  assert_string_equal("rows 0 and 3 are appended to one place, position 7 of sequence 1",
                      error.message);
  assert_int_equal(99, report.rows);
  stg_alloc_fail_at(1);
  assert_int_equal(STG_E_NO_MEMORY, stg_oracle_rope_check(&batch, &report, &error));
  stg_alloc_fail_at(0);
  assert_non_null(strstr(error.message, "places of a cache"));
  attn_close(&bench.bed);
  (void)state;
}

/* A scale of e^-1000 and of e^1000: finite where infinity belongs, and NaN where it does not. */
static void only_what_leaves_its_type_may_be_infinite(void **state) {
  FOR_EACH_DTYPE(k) {
    struct stg_rope_geometry g = geometry_of(dtypes[k]);
    struct bench bench;
    g.xpos = STG_ROPE_XPOS_HALVES;
    open_bench(&bench, g, true);
    bench.rope.angles.xpos_base = 0.1F; /* powers of 1000 at 200, of 20 at 3 */
    run(&bench);
    struct stg_oracle_rope_batch batch = check_of(&bench, &g);
    batch.angles.xpos_base = (double)0.1F;
    struct stg_oracle_heads_report report;
    assert_int_equal(STG_OK, stg_oracle_rope_check(&batch, &report, NULL));
    attn_expect_ok(&report);
    assert_true(report.overflows > 0);
    void *key = attn_kv_at(&bench.kv, bench.kv.view.k, 1, 200, 0); /* of row 0, scaled by e^1254 */
    const float was = stg_load_f32(dtypes[k], key, 0);
    assert_false(isfinite(was));
    stg_store_f32(dtypes[k], key, 0, 1);
    assert_int_equal(STG_OK, stg_oracle_rope_check(&batch, &report, NULL));
    expect_wrong(&report, "k");
    assert_int_equal(1, report.violations);
    stg_store_f32(dtypes[k], key, 0, was);
    stg_store_f32(dtypes[k], bench.rope.q, 0, NAN); /* of row 0, scaled by e^-1254 */
    assert_int_equal(STG_OK, stg_oracle_rope_check(&batch, &report, NULL));
    expect_wrong(&report, "q");
    assert_int_equal(1, report.violations);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* In a table of 3 and 2 products of large elements are infinite, and their difference is NaN. */
static void products_with_a_table_may_leave_float32(void **state) {
  struct stg_rope_geometry g = geometry_of(STG_F32);
  float table[CAPACITY * 64];
  struct bench bench;
  open_bench(&bench, g, true);
  for (size_t j = 0; j < sizeof table / sizeof *table; j++) {
    table[j] = j % 64 < 32 ? 3 : 2;
  }
  bench.rope.angles.table = table;
  bench.rope.angles.table_positions = CAPACITY;
  for (size_t j = 0; j < 64; j++) { /* 6e38 and 6e38: nothing is left of them in float64 */
    ((float *)bench.rope.qkv)[j] = j < 32 ? 2e38F : 3e38F;
  }
  run(&bench);
  assert_true(isnan(((float *)bench.rope.q)[0]));
  struct stg_oracle_heads_report report = check(&bench, &g);
  attn_expect_ok(&report);
  assert_true(report.overflows >= 32);
  ((float *)bench.rope.q)[64] = NAN; /* of the next head */
  report = check(&bench, &g);
  expect_wrong(&report, "q");
  assert_true(report.violations == 1 && report.first_head == 1);
  attn_close(&bench.bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_cpu_leaves_passes_and_is_counted),
      cmocka_unit_test(another_geometry_fails),
      cmocka_unit_test(other_angles_fail),
      cmocka_unit_test(another_scale_of_xpos_fails),
      cmocka_unit_test(one_bit_off_the_eager_sequence_fails),
      cmocka_unit_test(a_table_of_more_than_cosines_and_sines_passes),
      cmocka_unit_test(a_bit_of_what_has_to_stay_fails),
      cmocka_unit_test(a_write_anywhere_else_in_the_cache_fails),
      cmocka_unit_test(a_neighbours_k_fails),
      cmocka_unit_test(refusals_counted_or_named_wrongly_fail),
      cmocka_unit_test(a_length_that_counts_a_refused_row_fails),
      cmocka_unit_test(two_rows_at_one_place_have_no_reference),
      cmocka_unit_test(only_what_leaves_its_type_may_be_infinite),
      cmocka_unit_test(products_with_a_table_may_leave_float32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

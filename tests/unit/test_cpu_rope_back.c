/*
 * test_cpu_rope_back.c: the gradient of the rotation: back where it came from, and against the
 * oracle with every option.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"
#include "tests/support/attn_bed.h"

#define MAX_ROWS 99

static const struct stg_rope_freq plain = {.base = 10000};
static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};

static struct stg_cpu_rope_gradient gradient_of(struct attn_rope *rope, void *qkv) {
  const struct stg_cpu_rope_batch batch = attn_rope_batch(rope);
  return (struct stg_cpu_rope_gradient){.geometry = &rope->geometry,
                                        .angles = &rope->angles,
                                        .rows = rope->rows,
                                        .q = batch.q,
                                        .k = batch.k,
                                        .v = batch.v,
                                        .qkv = qkv,
                                        .qkv_stride = batch.qkv_stride};
}

static struct stg_oracle_heads_report check_back(struct attn_rope *rope, void *qkv,
                                                 const void *before) {
  const struct stg_cpu_rope_gradient gradient = gradient_of(rope, qkv);
  const struct stg_oracle_rope_gradient check = {
      .geometry = &rope->geometry,
      .angles = {&rope->freq, (double)rope->angles.xpos_base, rope->angles.table,
                 rope->angles.table_positions},
      .rows = rope->rows,
      .q = {NULL, gradient.q.data, gradient.q.stride},
      .k = {NULL, gradient.k.data, gradient.k.stride},
      .v = {NULL, gradient.v.data, gradient.v.stride},
      .qkv_before = before,
      .qkv = qkv,
      .qkv_stride = gradient.qkv_stride,
  };
  struct stg_oracle_heads_report report;
  stg_oracle_rope_back_check(&check, &report);
  return report;
}

/* Run it into NaN, and hold it against the oracle. */
static struct stg_oracle_heads_report run_back(struct attn_rope *rope, void *qkv) {
  const struct stg_cpu_rope_gradient gradient = gradient_of(rope, qkv);
  const int64_t elems = rope->rows.rows * gradient.qkv_stride;
  const void *before = attn_copy(rope->bed, rope->geometry.dtype, qkv, elems);
  assert_int_equal(STG_OK, stg_cpu_rope_back(&gradient, NULL));
  const struct stg_oracle_heads_report report = check_back(rope, qkv, before);
  attn_expect_ok(&report);
  return report;
}

/* Largest difference of two arrays; elements are below 2, a pair below 2.9. */
static double difference(stg_dtype dtype, const void *a, const void *b, int64_t elems) {
  double largest = 0;
  for (int64_t j = 0; j < elems; j++) {
    const float x = stg_load_f32(dtype, a, (size_t)j);
    const float y = stg_load_f32(dtype, b, (size_t)j);
    largest = fmax(largest, fabs((double)x - (double)y));
  }
  return largest;
}

static void expect_identity(int64_t n, const struct stg_rope_geometry *g) {
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, (uint64_t)n);
  int32_t pos[MAX_ROWS];
  for (int64_t row = 0; row < n; row++) {
    pos[row] = (int32_t)attn_below(&bed, 131072);
  }
  const struct stg_step_rows rows = {.rows = n, .batch = 1, .pos = pos};
  attn_rope_open(&bed, g, &plain, &rows, NULL, &rope);
  attn_rope_run(&rope);
  const int64_t elems = n * stg_rope_row_elems(g);
  void *back = attn_nans(&bed, g->dtype, elems);
  run_back(&rope, back);
  /* each way has half a unit of the type, and a few of float32 */
  const double worst = difference(g->dtype, rope.qkv, back, elems);
  assert_true(worst <= 2.9 * (2.5 * stg_dtype_unit(g->dtype) + 4 * 0x1p-23));
  attn_close(&bed);
}

static void backward_of_forward_is_the_identity_on_1_19_and_99_rows(void **state) {
  static const int64_t sizes[] = {1, 19, MAX_ROWS};
  static const uint32_t rots[] = {64, 32, 10};
  for (size_t k = 0; k < (size_t)3 * 3 * 4; k++) {
    struct stg_rope_geometry g = attn_rope_geometry();
    g.rot = rots[k / 3 % 3];
    g.dtype = dtypes[k % 3];
    g.layout = (enum stg_rope_layout)(k / 9);
    g.kv_heads = g.layout == STG_ROPE_LAYOUT_INTERLEAVED ? g.heads : g.kv_heads;
    g.pairs = k % 2 == 0 ? STG_ROPE_PAIRS_HALF : STG_ROPE_PAIRS_INTERLEAVED;
    expect_identity(sizes[(k + k / 3) % 3], &g);
  }
  (void)state;
}

static void every_option_of_the_way_back_is_within_the_bound(void **state) {
  static const int32_t seq[] = {0, 1, -1, 1, 2, 0};
  static const int32_t pos[] = {255, 0, 3, 4000, 9, 256};
  const struct stg_step_rows rows = {.rows = 6, .batch = 3, .seq = seq, .pos = pos};
  for (int k = 0; k < ATTN_ROPE_ROUNDINGS * 3; k++) {
    struct stg_rope_geometry g = attn_rope_geometry();
    struct attn_bed bed;
    struct attn_rope rope;
    attn_open(&bed, (uint64_t)k);
    attn_rope_set_rounding(&g, k);
    g.xpos = (enum stg_rope_xpos)(k / ATTN_ROPE_ROUNDINGS);
    g.pairs = STG_ROPE_PAIRS_INTERLEAVED;
    g.order = k % 2 == 0 ? STG_HEADS_ROWS_FIRST : STG_HEADS_HEADS_FIRST;
    attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
    rope.q = attn_random(&bed, g.dtype, (int64_t)6 * g.heads * g.dim);
    rope.k = attn_random(&bed, g.dtype, (int64_t)6 * g.kv_heads * g.dim);
    rope.v = attn_random(&bed, g.dtype, (int64_t)6 * g.kv_heads * g.dim);
    const void *before =
        attn_copy(&bed, g.dtype, rope.qkv, rope.rows.rows * stg_rope_row_elems(&g));
    rope.v = k % 3 == 1 ? NULL : rope.v; /* V of the packed rows then stays */
    const struct stg_oracle_heads_report report = run_back(&rope, rope.qkv);
    assert_int_equal(1, report.rows_padding);
    if (rope.v == NULL) {
      void *v =
          (char *)rope.qkv + ((size_t)g.heads + g.kv_heads) * g.dim * stg_dtype_bytes(g.dtype);
      stg_store_f32(g.dtype, v, 0, 3);
      assert_false(check_back(&rope, rope.qkv, before).ok);
    }
    attn_close(&bed);
  }
  (void)state;
}

/* As on the way there: scales down to 0 and up to infinity, and gradients of all sizes. */
static void scales_at_the_ends_of_a_type_are_within_the_bound(void **state) {
  static const int32_t pos[] = {0, 1, 255, 4095, 30000};
  static const float bases[] = {1500, 400, 190, 100, 1, 1e-35F};
  const struct stg_step_rows rows = {.rows = 5, .batch = 1, .pos = pos};
  for (int k = 0; k < ATTN_ROPE_ROUNDINGS * 6; k++) {
    struct stg_rope_geometry g = attn_rope_geometry();
    struct attn_bed bed;
    struct attn_rope rope;
    attn_open(&bed, (uint64_t)k);
    attn_rope_set_rounding(&g, k);
    g.xpos = STG_ROPE_XPOS_HALVES;
    g.pairs = STG_ROPE_PAIRS_INTERLEAVED;
    attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
    const int64_t q_elems = (int64_t)5 * g.heads * g.dim, k_elems = (int64_t)5 * g.kv_heads * g.dim;
    rope.angles.xpos_base = bases[k / ATTN_ROPE_ROUNDINGS];
    rope.q = attn_random(&bed, g.dtype, q_elems);
    rope.k = attn_random(&bed, g.dtype, k_elems);
    rope.v = attn_random(&bed, g.dtype, k_elems);
    attn_spread(g.dtype, q_elems, rope.q);
    attn_spread(g.dtype, k_elems, rope.k);
    const struct stg_oracle_heads_report report = run_back(&rope, rope.qkv);
    assert_true(report.overflows > 0 || k / ATTN_ROPE_ROUNDINGS < 4);
    attn_close(&bed);
  }
  (void)state;
}

/* With a table every rounding of the eager sequence's gradient is known. */
static void the_gradient_of_each_op_is_bit_exact_to_the_eager_one(void **state) {
  enum { N = 3, DIM = 64 };
  static const int32_t pos[N] = {2, 0, 1};
  const struct stg_step_rows rows = {.rows = N, .batch = 1, .pos = pos};
  for (size_t k = 0; k < 3; k++) {
    struct stg_rope_geometry g = attn_rope_geometry();
    struct attn_bed bed;
    struct attn_rope rope;
    attn_open(&bed, k);
    g.dtype = dtypes[k];
    g.round = STG_ROPE_ROUND_EACH_OP;
    attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
    rope.angles.table = attn_random(&bed, STG_F32, (int64_t)N * DIM);
    rope.angles.table_positions = N;
    attn_rope_run(&rope);
    run_back(&rope, rope.qkv);
    attn_close(&bed);
  }
  (void)state;
}

/* <dy, R x> = <R^T dy, x>: with xPos, where the way back is not the inverse. */
static void the_way_back_is_the_transpose_of_the_way_there(void **state) {
  enum { N = 4 };
  static const int32_t pos[N] = {0, 300, 5000, 9000};
  const struct stg_step_rows rows = {.rows = N, .batch = 1, .pos = pos};
  struct stg_rope_geometry g = attn_rope_geometry();
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 77);
  g.heads = g.kv_heads = 1;
  g.pairs = STG_ROPE_PAIRS_INTERLEAVED;
  g.xpos = STG_ROPE_XPOS_HALVES;
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
  const float *x = attn_copy(&bed, STG_F32, rope.qkv, (int64_t)N * 3 * 64);
  attn_rope_run(&rope);
  const float *turned = rope.q;
  float *gradient = attn_random(&bed, STG_F32, (int64_t)N * 64);
  rope.q = gradient;
  run_back(&rope, rope.qkv);
  double there = 0;
  double back = 0;
  for (size_t row = 0; row < N; row++) {
    for (size_t d = 0; d < 64; d++) {
      there += (double)gradient[row * 64 + d] * (double)turned[row * 64 + d];
      back += (double)((float *)rope.qkv)[row * 192 + d] * (double)x[row * 192 + d];
    }
  }
  assert_true(fabs(there - back) <= 1e-5 * fabs(there));
  attn_close(&bed);
  (void)state;
}

/* A position that does not exist, a sequence that does not, and a row between. */
static void bad_rows_have_a_gradient_of_zeros(void **state) {
  static const int32_t seq[] = {0, 3, 0};
  static const int32_t pos[] = {-5, 1, 1};
  const struct stg_step_rows rows = {.rows = 3, .batch = 3, .seq = seq, .pos = pos};
  const struct stg_rope_geometry g = attn_rope_geometry();
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 7);
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
  attn_rope_run(&rope);
  const struct stg_oracle_heads_report report = run_back(&rope, rope.qkv);
  assert_int_equal(2, report.rows_bad);
  const float *row = rope.qkv;
  for (int64_t j = 0; j < stg_rope_row_elems(&g); j++) {
    assert_true(row[j] == 0 && row[stg_rope_row_elems(&g) + j] == 0);
  }
  assert_true(row[2 * stg_rope_row_elems(&g)] != 0);
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(backward_of_forward_is_the_identity_on_1_19_and_99_rows),
      cmocka_unit_test(every_option_of_the_way_back_is_within_the_bound),
      cmocka_unit_test(scales_at_the_ends_of_a_type_are_within_the_bound),
      cmocka_unit_test(the_gradient_of_each_op_is_bit_exact_to_the_eager_one),
      cmocka_unit_test(the_way_back_is_the_transpose_of_the_way_there),
      cmocka_unit_test(bad_rows_have_a_gradient_of_zeros),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

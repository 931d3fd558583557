/*
 * test_cpu_rope_layouts.c: where a packed row has what: ids in, ids out, and back again.
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

#define HEADS 4
#define DIM 2
#define MAX_ELEMS (3 * HEADS * DIM)

/* Which element of a packed row is element d of a head, in order of q, k and v: by hand. */
struct packed {
  const char *name;
  enum stg_rope_layout layout;
  uint32_t kv_heads;
  int8_t q[HEADS * DIM], k[HEADS * DIM], v[HEADS * DIM];
};

static const struct packed layouts[] = {
    {"concat",
     STG_ROPE_LAYOUT_CONCAT,
     2,
     {0, 1, 2, 3, 4, 5, 6, 7},
     {8, 9, 10, 11},
     {12, 13, 14, 15}},
    {"interleaved",
     STG_ROPE_LAYOUT_INTERLEAVED,
     4,
     {0, 1, 2, 3, 4, 5, 6, 7},
     {8, 9, 10, 11, 12, 13, 14, 15},
     {16, 17, 18, 19, 20, 21, 22, 23}},
    /* q0 q1 k0 v0 q2 q3 k1 v1 */
    {"grouped",
     STG_ROPE_LAYOUT_GROUPED,
     2,
     {0, 1, 2, 3, 8, 9, 10, 11},
     {4, 5, 12, 13},
     {6, 7, 14, 15}},
    {"head_fastest",
     STG_ROPE_LAYOUT_HEAD_FASTEST,
     2,
     {0, 4, 1, 5, 2, 6, 3, 7},
     {8, 10, 9, 11},
     {12, 14, 13, 15}},
};

/* The row's ids are 1, 2, ...: small integers, exact in every type. */
static void expect_ids(stg_dtype dtype, const void *tensor, int64_t first, const int8_t *ids,
                       uint32_t n) {
  for (uint32_t j = 0; j < n; j++) {
    assert_true(stg_load_f32(dtype, tensor, (size_t)first + j) == (float)(ids[j] + 1));
  }
}

static struct stg_rope_geometry geometry_of(const struct packed *packed, stg_dtype dtype) {
  struct stg_rope_geometry g = attn_rope_geometry();
  g.heads = HEADS;
  g.kv_heads = packed->kv_heads;
  g.dim = g.rot = DIM;
  g.dtype = dtype;
  g.layout = packed->layout;
  return g;
}

/* Each of the rows has the ids, one for each element. */
static void open_ids(struct attn_bed *bed, const struct stg_rope_geometry *g,
                     const struct stg_step_rows *rows, struct attn_rope *ret) {
  const struct stg_rope_freq freq = {.base = 10000};
  const int64_t elems = stg_rope_row_elems(g);
  attn_rope_open(bed, g, &freq, rows, NULL, ret);
  for (int64_t j = 0; j < rows->rows * elems; j++) {
    stg_store_f32(g->dtype, ret->qkv, (size_t)j, (float)(j % elems + 1));
  }
}

/* At position 0 nothing turns. */
static void round_trip(const struct packed *packed, stg_dtype dtype) {
  static const int32_t pos[] = {0, 0};
  const struct stg_step_rows rows = {.rows = 2, .batch = 1, .pos = pos};
  const struct stg_rope_geometry g = geometry_of(packed, dtype);
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 1);
  open_ids(&bed, &g, &rows, &rope);
  const int64_t elems = stg_rope_row_elems(&g);
  attn_rope_run(&rope);
  for (int64_t row = 0; row < 2; row++) {
    expect_ids(dtype, rope.q, row * HEADS * DIM, packed->q, HEADS * DIM);
    expect_ids(dtype, rope.k, row * g.kv_heads * DIM, packed->k, g.kv_heads * DIM);
    expect_ids(dtype, rope.v, row * g.kv_heads * DIM, packed->v, g.kv_heads * DIM);
  }
  void *back = attn_nans(&bed, dtype, 2 * elems);
  const struct stg_cpu_rope_batch forward = attn_rope_batch(&rope);
  const struct stg_cpu_rope_gradient gradient = {.geometry = &g,
                                                 .angles = &rope.angles,
                                                 .rows = rows,
                                                 .q = forward.q,
                                                 .k = forward.k,
                                                 .v = forward.v,
                                                 .qkv = back,
                                                 .qkv_stride = elems};
  assert_int_equal(STG_OK, stg_cpu_rope_back(&gradient, NULL));
  assert_memory_equal(rope.qkv, back, (size_t)(2 * elems) * stg_dtype_bytes(dtype));
  attn_close(&bed);
}

static void ids_come_out_where_each_layout_has_them_and_go_back(void **state) {
  for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
    round_trip(&layouts[k], STG_F32);
    round_trip(&layouts[k], STG_F16);
    round_trip(&layouts[k], STG_BF16);
  }
  (void)state;
}

static void expect_zeros(stg_dtype dtype, const void *tensor, int64_t first, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    assert_true(stg_load_f32(dtype, tensor, (size_t)(first + j)) == 0);
  }
}

/* Of a row at position 0, and of one at none, whose Q and K are zeros; and back. */
static void turn_without_v(const struct packed *packed, stg_dtype dtype) {
  static const int32_t pos[] = {0, -1};
  const struct stg_step_rows rows = {.rows = 2, .batch = 1, .pos = pos};
  const struct stg_rope_geometry g = geometry_of(packed, dtype);
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 1);
  open_ids(&bed, &g, &rows, &rope);
  rope.v = NULL;
  const int64_t elems = stg_rope_row_elems(&g), k_elems = (int64_t)g.kv_heads * DIM;
  const struct stg_oracle_heads_report report = attn_rope_run(&rope);
  assert_int_equal(1, report.rows_bad);
  expect_ids(dtype, rope.q, 0, packed->q, HEADS * DIM);
  expect_ids(dtype, rope.k, 0, packed->k, g.kv_heads * DIM);
  expect_zeros(dtype, rope.q, (int64_t)HEADS * DIM, (int64_t)HEADS * DIM);
  expect_zeros(dtype, rope.k, k_elems, k_elems);
  void *back = attn_nans(&bed, dtype, 2 * elems);
  const struct stg_cpu_rope_batch forward = attn_rope_batch(&rope);
  const struct stg_cpu_rope_gradient gradient = {.geometry = &g,
                                                 .angles = &rope.angles,
                                                 .rows = rows,
                                                 .q = forward.q,
                                                 .k = forward.k,
                                                 .qkv = back,
                                                 .qkv_stride = elems};
  assert_int_equal(STG_OK, stg_cpu_rope_back(&gradient, NULL));
  for (int64_t j = 0; j < 2 * elems; j++) {
    const float found = stg_load_f32(dtype, back, (size_t)j);
    bool is_v = false;
    for (int64_t i = 0; i < k_elems; i++) {
      is_v = is_v || packed->v[i] == j % elems;
    }
    assert_true(is_v ? isnan(found) : found == (j < elems ? (float)(j + 1) : 0));
  }
  attn_close(&bed);
}

static void without_a_tensor_v_stays_where_each_layout_has_it(void **state) {
  for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
    turn_without_v(&layouts[k], STG_F32);
    turn_without_v(&layouts[k], STG_F16);
    turn_without_v(&layouts[k], STG_BF16);
  }
  (void)state;
}

/* [rows, heads, dim] and [heads, rows, dim] hold the same heads. */
static void both_orders_of_the_outputs_hold_the_same_heads(void **state) {
  static const int64_t pos[] = {3, 17, 255};
  const struct stg_step_rows rows = {.rows = 3, .batch = 1, .pos = pos, .pos_is_64 = true};
  const struct stg_rope_freq freq = {.base = 10000};
  struct stg_rope_geometry g = attn_rope_geometry();
  struct attn_bed bed;
  struct attn_rope first;
  struct attn_rope second;
  attn_open(&bed, 2);
  attn_rope_open(&bed, &g, &freq, &rows, NULL, &first);
  g.order = STG_HEADS_HEADS_FIRST;
  attn_rope_open(&bed, &g, &freq, &rows, NULL, &second);
  second.qkv = first.qkv;
  attn_rope_run(&first);
  attn_rope_run(&second);
  float *turned = attn_nans(&bed, STG_F32, (int64_t)3 * 8 * 64);
  struct stg_cpu_transpose transpose = {.dtype = STG_F32,
                                        .rows = 3,
                                        .heads = 8,
                                        .dim = 64,
                                        .from_order = STG_HEADS_ROWS_FIRST,
                                        .from = first.q,
                                        .from_stride = (int64_t)8 * 64,
                                        .to = turned,
                                        .to_stride = (int64_t)3 * 64};
  stg_cpu_transpose_heads(&transpose);
  assert_memory_equal(second.q, turned, sizeof(float) * 3 * 8 * 64);
  attn_close(&bed);
  (void)state;
}

/* Two rows of three heads of two: element (row, head, d) is row*100 + head*10 + d. */
static void combine_undoes_transpose_and_leaves_what_lies_between(void **state) {
  enum { ROWS = 2, N = 3, WIDTH = 2, STRIDE = 7 };
  uint16_t from[ROWS * STRIDE];
  uint16_t to[N * STRIDE];
  uint16_t back[ROWS * STRIDE];
  memset(from, 0x77, sizeof from);
  memset(to, 0x77, sizeof to);
  memset(back, 0x77, sizeof back);
  for (int row = 0; row < ROWS; row++) {
    for (int j = 0; j < N * WIDTH; j++) {
      from[row * STRIDE + j] = (uint16_t)(row * 100 + j / WIDTH * 10 + j % WIDTH);
    }
  }
  struct stg_cpu_transpose transpose = {.dtype = STG_BF16,
                                        .rows = ROWS,
                                        .heads = N,
                                        .dim = WIDTH,
                                        .from_order = STG_HEADS_ROWS_FIRST,
                                        .from = from,
                                        .from_stride = STRIDE,
                                        .to = to,
                                        .to_stride = STRIDE};
  stg_cpu_transpose_heads(&transpose);
  for (int head = 0; head < N; head++) {
    for (int j = 0; j < STRIDE; j++) {
      const int expected = j / WIDTH * 100 + head * 10 + j % WIDTH;
      assert_int_equal(j < ROWS * WIDTH ? expected : 0x7777, to[head * STRIDE + j]);
    }
  }
  transpose.from_order = STG_HEADS_HEADS_FIRST;
  transpose.from = to;
  transpose.to = back;
  stg_cpu_transpose_heads(&transpose);
  assert_memory_equal(from, back, sizeof from);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_come_out_where_each_layout_has_them_and_go_back),
      cmocka_unit_test(without_a_tensor_v_stays_where_each_layout_has_it),
      cmocka_unit_test(both_orders_of_the_outputs_hold_the_same_heads),
      cmocka_unit_test(combine_undoes_transpose_and_leaves_what_lies_between),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_cpu_attend.c: attention over the cache on the CPU against the oracle: groups, windows,
 * masks, chunk borders, types and orders, and the rows that give zeros.
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
#define CAPACITY 100

static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};

/* A filled cache, and a call with one new row for each sequence. */
struct bench {
  struct attn_bed bed;
  struct stg_decode_geometry geometry;
  struct attn_kv kv;
  struct stg_cpu_attend_batch batch;
};

static struct stg_decode_geometry geometry_of(uint32_t heads, uint32_t kv_heads, uint32_t dim,
                                              stg_dtype dtype) {
  return (struct stg_decode_geometry){
      .heads = heads, .kv_heads = kv_heads, .dim = dim, .dtype = dtype, .chunk = 16};
}

/* `at`: the position of each sequence's row; K and V are there, NaN is behind. */
static void open_bench(struct bench *bench, const struct stg_decode_geometry *g, uint32_t block,
                       const int32_t *at) {
  static const int32_t seq[BATCH] = {2, 0, 3, 1};
  int32_t lens[BATCH];
  attn_open(&bench->bed, 21);
  bench->geometry = *g;
  bench->kv = attn_kv_open(
      &bench->bed, (struct attn_kv_shape){BATCH, g->kv_heads, g->dim, CAPACITY, g->dtype, block});
  for (size_t k = 0; k < BATCH; k++) {
    lens[k] = at[k] < CAPACITY ? at[k] + 1 : CAPACITY;
  }
  attn_kv_fill(&bench->bed, &bench->kv, lens);
  memcpy(bench->kv.len, at, BATCH * sizeof *at); /* the append came first, advance comes later */
  const int64_t elems = (int64_t)BATCH * g->heads * g->dim;
  const int64_t stride = attn_stride(g->order, BATCH, g->heads, g->dim);
  bench->batch = (struct stg_cpu_attend_batch){
      .geometry = &bench->geometry,
      .rows = {.rows = BATCH, .batch = BATCH, .seq = seq, .len = bench->kv.len},
      .kv = &bench->kv.view,
      .q = attn_random(&bench->bed, g->dtype, elems),
      .q_stride = stride,
      .out = attn_nans(&bench->bed, g->dtype, elems),
      .out_stride = stride,
      .scale = 1 / sqrtf((float)g->dim),
  };
}

static struct stg_oracle_heads_report run(struct bench *bench) {
  return attn_attend_run(&bench->bed, &bench->batch);
}

static bool is_zero(const struct bench *bench, int64_t row) {
  const size_t bytes =
      (size_t)bench->geometry.heads * bench->geometry.dim * stg_dtype_bytes(bench->geometry.dtype);
  const unsigned char *out = (const unsigned char *)bench->batch.out + (size_t)row * bytes;
  unsigned char any = 0;
  for (size_t k = 0; k < bytes; k++) {
    any |= out[k];
  }
  return any == 0;
}

static const int32_t usual[BATCH] = {0, 99, 37, 64};

static void groups_of_1_4_and_8_heads_read_their_kv_head(void **state) {
  static const uint32_t heads[][2] = {{2, 2}, {8, 2}, {8, 1}, {12, 12}, {6, 2}};
  for (size_t k = 0; k < (size_t)5 * 3 * 2; k++) {
    struct bench bench;
    const struct stg_decode_geometry g =
        geometry_of(heads[k / 6][0], heads[k / 6][1], 64, dtypes[k % 3]);
    open_bench(&bench, &g, k / 3 % 2 == 0 ? 0 : 8, usual);
    assert_int_equal(BATCH * g.heads * g.dim, run(&bench).elements);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* One key: the result is its value, whatever the scores are. */
static void a_row_at_position_0_gives_the_value_there(void **state) {
  static const int32_t at[BATCH] = {0, 0, 0, 0};
  const struct stg_decode_geometry g = geometry_of(2, 1, 8, STG_F32);
  struct bench bench;
  open_bench(&bench, &g, 0, at);
  run(&bench);
  for (int32_t row = 0; row < BATCH; row++) {
    const void *value = attn_kv_at(&bench.kv, bench.kv.view.v, bench.batch.rows.seq[row], 0, 0);
    const float *out = (const float *)bench.batch.out + (ptrdiff_t)row * 16;
    assert_memory_equal(value, out, 8 * sizeof(float));
    assert_memory_equal(value, out + 8, 8 * sizeof(float));
  }
  attn_close(&bench.bed);
  (void)state;
}

/* Two keys with scores 0 and ln 3: weights 1/4 and 3/4 of the values 8 and 4. */
static void weights_are_those_of_a_softmax(void **state) {
  static const int32_t at[BATCH] = {1, 1, 1, 1};
  const struct stg_decode_geometry g = geometry_of(1, 1, 2, STG_F32);
  struct bench bench;
  open_bench(&bench, &g, 0, at);
  float *q = (float *)attn_random(&bench.bed, STG_F32, (int64_t)BATCH * 2);
  float *k = bench.kv.view.k;
  float *v = bench.kv.view.v;
  q[2] = 2; /* row 1 is sequence 0's */
  q[3] = 0;
  k[0] = 0;
  k[1] = 5;
  k[2] = 0.549306144F; /* ln(3) / 2 */
  k[3] = -7;
  v[0] = 8;
  v[2] = 4;
  bench.batch.q = q;
  bench.batch.scale = 1;
  run(&bench);
  assert_true(fabs((double)((float *)bench.batch.out)[2] - 5) < 1e-6);
  attn_close(&bench.bed);
  (void)state;
}

static void every_dim_type_and_order_is_within_the_bound(void **state) {
  static const uint32_t dims[] = {8, 64, 96, 128, 256, 2, 34};
  for (size_t k = 0; k < (size_t)7 * 3 * 2; k++) {
    struct bench bench;
    struct stg_decode_geometry g = geometry_of(4, 2, dims[k / 6], dtypes[k % 3]);
    g.order = k / 3 % 2 == 0 ? STG_HEADS_ROWS_FIRST : STG_HEADS_HEADS_FIRST;
    open_bench(&bench, &g, 0, usual);
    run(&bench);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Positions just before, at and behind where a chunk ends. */
static void chunk_borders_show_nowhere(void **state) {
  for (uint32_t chunk = 1; chunk <= 128; chunk *= 2) {
    const int32_t c = (int32_t)chunk;
    const int32_t at[BATCH] = {c > 1 ? c - 2 : 0, c - 1, c < CAPACITY ? c : 0,
                               2 * c < CAPACITY ? 2 * c : 1};
    struct stg_decode_geometry g = geometry_of(2, 1, 32, STG_F32);
    struct bench bench;
    g.chunk = chunk;
    int32_t inside[BATCH];
    for (size_t k = 0; k < BATCH; k++) {
      inside[k] = at[k] < CAPACITY ? at[k] : CAPACITY - 1;
    }
    open_bench(&bench, &g, 0, inside);
    run(&bench);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* With a window of 1 a row reads itself alone. */
static void a_window_ends_what_a_row_reads(void **state) {
  static const int64_t windows[] = {1, 2, 15, 16, 17, 64, 100, 1000};
  const struct stg_decode_geometry g = geometry_of(4, 2, 32, STG_F32);
  for (size_t k = 0; k < sizeof windows / sizeof windows[0]; k++) {
    struct bench bench;
    open_bench(&bench, &g, k % 2 == 0 ? 0 : 16, usual);
    bench.batch.window = windows[k];
    run(&bench);
    if (windows[k] == 1) {
      assert_memory_equal(attn_kv_at(&bench.kv, bench.kv.view.v, 2, 37, 0), bench.batch.out,
                          32 * sizeof(float));
    }
    attn_close(&bench.bed);
  }
  (void)state;
}

static void the_scale_is_the_callers(void **state) {
  static const float scales[] = {0, 1, -0.5F, 30};
  const struct stg_decode_geometry g = geometry_of(4, 2, 32, STG_F32);
  for (size_t k = 0; k < 4; k++) {
    struct bench bench;
    open_bench(&bench, &g, 0, usual);
    bench.batch.scale = scales[k];
    run(&bench);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Sequence 1 has no key at all, sequence 3 its first chunk masked, the others every third key. */
static void masked_keys_are_not_read_and_a_row_without_any_gives_zeros(void **state) {
  const struct stg_decode_geometry g = geometry_of(4, 2, 32, STG_F32);
  struct bench bench;
  open_bench(&bench, &g, 0, usual);
  uint8_t *mask = attn_filled(&bench.bed, (size_t)BATCH * CAPACITY, 0);
  for (int32_t position = 0; position < CAPACITY; position++) {
    mask[position] = mask[2 * CAPACITY + position] = position % 3 != 0;
    mask[3 * CAPACITY + position] = position >= 16;
  }
  mask[0] = 1;
  for (int32_t seq = 0; seq < BATCH; seq++) {
    for (int32_t position = 0; position <= usual[seq]; position++) {
      for (uint32_t head = 0; mask[seq * CAPACITY + position] == 0 && head < 2; head++) {
        float *k = attn_kv_at(&bench.kv, bench.kv.view.k, seq, position, head);
        float *v = attn_kv_at(&bench.kv, bench.kv.view.v, seq, position, head);
        k[3] = NAN;
        v[5] = INFINITY;
      }
    }
  }
  bench.batch.key_mask = mask;
  bench.batch.mask_stride = CAPACITY;
  run(&bench);
  const float *out = bench.batch.out;
  for (int j = 0; j < BATCH * 4 * 32; j++) {
    assert_true(isfinite(out[j]));
  }
  assert_true(is_zero(&bench, 3) && !is_zero(&bench, 1)); /* rows of sequences 1 and 0 */
  attn_close(&bench.bed);
  (void)state;
}

/* Sequence 0 at capacity, sequence 1 far past it, one row of padding, one of no sequence. */
static void refused_and_bad_rows_give_zeros_and_padding_stays(void **state) {
  static const int32_t at[BATCH] = {CAPACITY, INT32_MAX - 1, 3, -7};
  static const int32_t seq[] = {0, 1, 2, 3, -1, 4, 2};
  const struct stg_decode_geometry g = geometry_of(4, 2, 32, STG_BF16);
  for (uint32_t block = 0; block <= 8; block += 8) {
    struct bench bench;
    open_bench(&bench, &g, block, at);
    bench.batch.rows.rows = 7;
    bench.batch.rows.seq = seq;
    bench.batch.q = attn_random(&bench.bed, STG_BF16, (int64_t)7 * 4 * 32);
    bench.batch.out = attn_nans(&bench.bed, STG_BF16, (int64_t)7 * 4 * 32);
    const struct stg_oracle_heads_report report = run(&bench);
    assert_int_equal(2, report.rows_refused);
    assert_int_equal(2, report.rows_bad);
    assert_int_equal(1, report.rows_padding);
    assert_true(is_zero(&bench, 0) && is_zero(&bench, 1) && is_zero(&bench, 3) &&
                is_zero(&bench, 5));
    assert_false(is_zero(&bench, 2));
    assert_true(isnan(stg_load_f32(STG_BF16, bench.batch.out, (size_t)4 * 4 * 32)));
    attn_close(&bench.bed);
  }
  (void)state;
}

/* A host may free what lies before the window: such blocks are not read, and a row whose own block
 * is missing has no room. */
static void blocks_that_are_missing_are_not_read(void **state) {
  const struct stg_decode_geometry g = geometry_of(4, 2, 32, STG_F32);
  struct bench bench;
  open_bench(&bench, &g, 8, usual);
  const int64_t row = bench.kv.view.table_row;
  int32_t *table = attn_copy(&bench.bed, STG_F32, bench.kv.view.block_table, BATCH * row);
  table[row + 0] = -1;                 /* sequence 1 reads positions 8 to 99 */
  table[row + 5] = INT32_MAX;          /* and not 40 to 47 */
  table[2 * row + 37 / 8] = INT32_MIN; /* sequence 2 is at 37 */
  bench.kv.view.block_table = table;
  const struct stg_oracle_heads_report report = run(&bench);
  assert_int_equal(1, report.rows_refused);
  assert_true(is_zero(&bench, 0));
  attn_close(&bench.bed);
  (void)state;
}

/* A window of tokens: rows by their position, of which those past the valid ones give zeros. */
static void rows_past_the_valid_ones_give_zeros(void **state) {
  static const int32_t seq[] = {0, 0, 0, 1, 1, 1};
  static const int32_t pos[] = {0, 1, 2, 0, 1, 2};
  static const int32_t valid[BATCH] = {2, 0, 0, 0};
  static const int32_t at[BATCH] = {2, 2, 0, 0};
  const struct stg_decode_geometry g = geometry_of(2, 1, 16, STG_F32);
  struct bench bench;
  open_bench(&bench, &g, 0, at);
  bench.batch.rows = (struct stg_step_rows){.rows = 6, .batch = BATCH, .seq = seq, .pos = pos};
  bench.batch.q = attn_random(&bench.bed, STG_F32, (int64_t)6 * 2 * 16);
  bench.batch.out = attn_nans(&bench.bed, STG_F32, (int64_t)6 * 2 * 16);
  bench.batch.valid = valid;
  run(&bench);
  for (int64_t row = 0; row < 6; row++) {
    assert_int_equal(row >= 2, is_zero(&bench, row));
  }
  attn_close(&bench.bed);
  (void)state;
}

static void without_memory_nothing_is_written(void **state) {
  const struct stg_decode_geometry g = geometry_of(2, 1, 16, STG_F32);
  struct bench bench;
  stg_error error = STG_ERROR_INIT;
  open_bench(&bench, &g, 0, usual);
  stg_alloc_fail_at(1);
  assert_int_equal(STG_E_NO_MEMORY, stg_cpu_attend(&bench.batch, &error));
  stg_alloc_fail_at(0);
  assert_non_null(strstr(error.message, "attention buffers of the CPU backend"));
  assert_true(isnan(((float *)bench.batch.out)[0]));
  /* more than any heap has */
  bench.geometry.chunk = 1U << 31;
  bench.geometry.heads = 1U << 31;
  assert_int_equal(STG_E_NO_MEMORY, stg_cpu_attend(&bench.batch, &error));
  assert_non_null(strstr(error.message, "attention buffers of the CPU backend"));
  attn_close(&bench.bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(groups_of_1_4_and_8_heads_read_their_kv_head),
      cmocka_unit_test(a_row_at_position_0_gives_the_value_there),
      cmocka_unit_test(weights_are_those_of_a_softmax),
      cmocka_unit_test(every_dim_type_and_order_is_within_the_bound),
      cmocka_unit_test(chunk_borders_show_nowhere),
      cmocka_unit_test(a_window_ends_what_a_row_reads),
      cmocka_unit_test(the_scale_is_the_callers),
      cmocka_unit_test(masked_keys_are_not_read_and_a_row_without_any_gives_zeros),
      cmocka_unit_test(refused_and_bad_rows_give_zeros_and_padding_stays),
      cmocka_unit_test(blocks_that_are_missing_are_not_read),
      cmocka_unit_test(rows_past_the_valid_ones_give_zeros),
      cmocka_unit_test(without_memory_nothing_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

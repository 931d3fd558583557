/*
 * test_cpu_kv.c: rows appended to a cache of fixed size: where they go, what is refused and how
 * that is told, and the lengths afterwards.
 *
 * That nothing else of the cache changes is checked by the oracle in every case (attn_rope_run),
 * and by guards around each tensor when a bed is closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"
#include "tests/support/attn_bed.h"

static const struct stg_rope_freq plain = {.base = 10000};

/* A cache of 3 sequences of 16 positions, and a call on it. */
struct bench {
  struct attn_bed bed;
  struct stg_rope_geometry geometry;
  struct attn_kv kv;
  struct attn_rope rope;
};

static void open_bench(struct bench *bench, uint32_t block, stg_dtype dtype) {
  attn_open(&bench->bed, 11);
  bench->geometry = attn_rope_geometry();
  bench->geometry.dtype = dtype;
  bench->kv = attn_kv_open(
      &bench->bed,
      (struct attn_kv_shape){
          .batch = 3, .kv_heads = 2, .dim = 64, .capacity = 16, .dtype = dtype, .block = block});
}

static struct stg_oracle_heads_report step(struct bench *bench, const struct stg_step_rows *rows) {
  attn_rope_open(&bench->bed, &bench->geometry, &plain, rows, &bench->kv, &bench->rope);
  return attn_rope_run(&bench->rope);
}

static void advance(struct bench *bench, const struct stg_step_rows *rows) {
  int32_t before[3];
  struct stg_oracle_heads_report report;
  memcpy(before, bench->kv.len, sizeof before);
  stg_cpu_kv_advance(rows, &bench->kv.view, bench->kv.len);
  stg_oracle_heads_report_init(&report);
  stg_oracle_check_advance(rows, &bench->kv.view, before, bench->kv.len, &report);
  stg_oracle_heads_report_finish(&report);
  attn_expect_ok(&report);
}

static void expect_lens(const struct bench *bench, int32_t a, int32_t b, int32_t c) {
  assert_int_equal(a, bench->kv.len[0]);
  assert_int_equal(b, bench->kv.len[1]);
  assert_int_equal(c, bench->kv.len[2]);
}

static void expect_words(const struct bench *bench, uint32_t full_rows, uint64_t full,
                         uint32_t bad_rows, uint64_t bad) {
  const struct stg_kv_words *words = &bench->rope.words;
  assert_int_equal(full_rows, words->full_rows);
  assert_true(full == words->full);
  assert_int_equal(bad_rows, words->bad_rows);
  assert_true(bad == words->bad);
}

/* V is stored as it came: head `head` of row `row` stands at the position. */
static void expect_v(const struct bench *bench, int64_t row, int32_t seq, int64_t position) {
  const struct stg_rope_geometry *g = &bench->geometry;
  const size_t unit = stg_dtype_bytes(g->dtype);
  for (uint32_t head = 0; head < g->kv_heads; head++) {
    const size_t at = ((size_t)row * 12 + 10 + head) * 64 * unit; /* 8 q, 2 k, 2 v */
    assert_memory_equal((const unsigned char *)bench->rope.qkv + at,
                        attn_kv_at(&bench->kv, bench->kv.view.v, seq, position, head), 64 * unit);
  }
}

static void decode_rows_go_behind_their_sequences(uint32_t block, stg_dtype dtype) {
  static const int32_t seq[] = {2, -1, 0, 1};
  struct bench bench;
  open_bench(&bench, block, dtype);
  const struct stg_step_rows rows = {.rows = 4, .batch = 3, .seq = seq, .len = bench.kv.len};
  bench.kv.len[0] = 5;
  bench.kv.len[1] = 15;
  step(&bench, &rows);
  expect_v(&bench, 0, 2, 0);
  expect_v(&bench, 2, 0, 5);
  expect_v(&bench, 3, 1, 15);
  expect_words(&bench, 0, STG_KV_NO_ROW, 0, STG_KV_NO_ROW);
  advance(&bench, &rows);
  expect_lens(&bench, 6, 16, 1);
  attn_close(&bench.bed);
}

static void appends_behind_each_sequence_dense_and_paged(void **state) {
  decode_rows_go_behind_their_sequences(0, STG_F32);
  decode_rows_go_behind_their_sequences(0, STG_BF16);
  decode_rows_go_behind_their_sequences(8, STG_F32);
  decode_rows_go_behind_their_sequences(8, STG_F16);
  (void)state;
}

/* Sequences 1 and 2 are full; row 1 is the lowest refused one. */
static void refuses_at_capacity_and_names_the_lowest_row_and_its_sequence(void **state) {
  static const int32_t seq[] = {0, 2, 1};
  static const uint32_t blocks[] = {0, 8};
  for (size_t k = 0; k < 2; k++) {
    struct bench bench;
    open_bench(&bench, blocks[k], STG_F32);
    const struct stg_step_rows rows = {.rows = 3, .batch = 3, .seq = seq, .len = bench.kv.len};
    bench.kv.len[1] = 16;
    bench.kv.len[2] = 17; /* as a host may have set it */
    const struct stg_oracle_heads_report report = step(&bench, &rows);
    assert_int_equal(2, report.rows_refused);
    expect_words(&bench, 2, stg_kv_word(1, 2), 0, STG_KV_NO_ROW);
    assert_int_equal(1, bench.rope.words.full >> 32);
    assert_int_equal(2, bench.rope.words.full & 0xffffffffU);
    advance(&bench, &rows);
    expect_lens(&bench, 1, 16, 17);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* A position that neither cache nor table has: there is nothing to turn q by. */
static void a_full_row_past_the_table_has_zeros(void **state) {
  static const int32_t seq[] = {0, 1, 2};
  static const int32_t pos[] = {15, 16, INT32_MAX - 1};
  const struct stg_step_rows rows = {.rows = 3, .batch = 3, .seq = seq, .pos = pos};
  struct bench bench;
  open_bench(&bench, 0, STG_F32);
  attn_rope_open(&bench.bed, &bench.geometry, &plain, &rows, &bench.kv, &bench.rope);
  bench.rope.angles.table = attn_random(&bench.bed, STG_F32, (int64_t)17 * 64);
  bench.rope.angles.table_positions = 17;
  const struct stg_oracle_heads_report report = attn_rope_run(&bench.rope);
  assert_int_equal(2, report.rows_refused);
  const float *q = bench.rope.q;
  assert_true(q[0] != 0 && q[512] != 0 && q[1024] == 0 && q[1535] == 0); /* 8 heads of 64 */
  attn_close(&bench.bed);
  (void)state;
}

static void words_of_several_calls_add_up(void **state) {
  static const int32_t seq[] = {0, 1};
  struct bench bench;
  open_bench(&bench, 0, STG_F32);
  const struct stg_step_rows rows = {.rows = 2, .batch = 3, .seq = seq, .len = bench.kv.len};
  bench.kv.len[1] = 16;
  step(&bench, &rows);
  bench.kv.len[0] = 16;
  const struct stg_cpu_rope_batch batch = attn_rope_batch(&bench.rope);
  assert_int_equal(STG_OK, stg_cpu_rope(&batch, NULL));
  expect_words(&bench, 3, stg_kv_word(0, 0), 0, STG_KV_NO_ROW);
  attn_close(&bench.bed);
  (void)state;
}

/* Twelve rows of padding, on a cache whose first and last places are free. */
static void padding_writes_nothing_and_not_the_last_slot(void **state) {
  static const int32_t seq[] = {-1, -2, INT32_MIN, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  static const int64_t pos[] = {0, 15, 15, 15, -1, 16, 1, 2, 3, 4, 5, 6};
  for (uint32_t block = 0; block <= 8; block += 8) {
    struct bench bench;
    open_bench(&bench, block, STG_BF16);
    const struct stg_step_rows by_len = {.rows = 12, .batch = 3, .seq = seq, .len = bench.kv.len};
    const struct stg_step_rows by_pos = {
        .rows = 12, .batch = 3, .seq = seq, .pos = pos, .pos_is_64 = true};
    const void *empty = attn_copy(&bench.bed, STG_BF16, bench.kv.view.k, bench.kv.elems);
    bench.kv.len[2] = 15;
    assert_int_equal(12, step(&bench, &by_len).rows_padding);
    assert_int_equal(12, step(&bench, &by_pos).rows_padding);
    advance(&bench, &by_len);
    advance(&bench, &by_pos);
    expect_lens(&bench, 0, 0, 15);
    assert_memory_equal(empty, bench.kv.view.k, (size_t)bench.kv.elems * 2);
    assert_memory_equal(empty, bench.kv.view.v, (size_t)bench.kv.elems * 2);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Three rows of sequence 1, out of order, and one of sequence 0 that has no room. */
static void prefill_rows_go_to_their_positions_and_advance_counts_them(void **state) {
  static const int32_t seq[] = {1, 1, 0, 1};
  static const int32_t pos[] = {9, 7, 16, 8};
  const struct stg_step_rows rows = {.rows = 4, .batch = 3, .seq = seq, .pos = pos};
  for (uint32_t block = 0; block <= 8; block += 8) {
    struct bench bench;
    open_bench(&bench, block, STG_F32);
    bench.kv.len[1] = 7;
    step(&bench, &rows);
    expect_v(&bench, 0, 1, 9);
    expect_v(&bench, 1, 1, 7);
    expect_v(&bench, 3, 1, 8);
    expect_words(&bench, 1, stg_kv_word(2, 0), 0, STG_KV_NO_ROW);
    advance(&bench, &rows);
    expect_lens(&bench, 0, 10, 0);
    attn_close(&bench.bed);
  }
  (void)state;
}

/* Memory of the host's for lengths may hold anything. As a device's sum does it begins anew. */
static void a_length_beyond_int32_is_no_position(void **state) {
  static const int32_t seq[] = {0, 0}, pos[] = {4, 5};
  const struct stg_step_rows rows = {.rows = 2, .batch = 3, .seq = seq, .pos = pos};
  struct bench bench;
  open_bench(&bench, 0, STG_F32);
  bench.kv.len[0] = INT32_MAX;
  stg_cpu_kv_advance(&rows, &bench.kv.view, bench.kv.len);
  expect_lens(&bench, INT32_MIN + 1, 0, 0);
  const struct stg_step_rows next = {.rows = 1, .batch = 3, .seq = seq, .len = bench.kv.len};
  assert_int_equal(1, step(&bench, &next).rows_bad);
  attn_close(&bench.bed);
  (void)state;
}

/* Sequence 3 of 3, a negative position, and positions that no int32 holds. */
static void bad_rows_append_nothing_and_are_told_apart_from_full_ones(void **state) {
  static const int32_t seq[] = {0, 3, 1, 2, 0, INT32_MAX};
  static const int64_t pos[] = {16, 0, -1, (int64_t)1 << 40, STG_MAX_POSITION + 1, 0};
  const struct stg_step_rows rows = {
      .rows = 6, .batch = 3, .seq = seq, .pos = pos, .pos_is_64 = true};
  struct bench bench;
  open_bench(&bench, 0, STG_F32);
  const struct stg_oracle_heads_report report = step(&bench, &rows);
  assert_int_equal(5, report.rows_bad);
  expect_words(&bench, 1, stg_kv_word(0, 0), 5, stg_kv_word(1, 3));
  advance(&bench, &rows);
  expect_lens(&bench, 0, 0, 0);
  const float *q = bench.rope.q;
  assert_true(q[0] != 0 && q[512] == 0 && q[5 * 512 + 511] == 0); /* 8 heads of 64 */
  attn_close(&bench.bed);
  (void)state;
}

/* Sequence 0 has its second block taken away, sequence 1 one that the pool does not have. */
static void a_position_without_a_block_has_no_room(void **state) {
  static const int32_t seq[] = {0, 1, 2};
  struct bench bench;
  open_bench(&bench, 8, STG_F32);
  int32_t table[6];
  memcpy(table, bench.kv.view.block_table, sizeof table);
  table[1] = -1;
  table[3] = (int32_t)bench.kv.view.n_blocks;
  bench.kv.view.block_table = table;
  const struct stg_step_rows rows = {.rows = 3, .batch = 3, .seq = seq, .len = bench.kv.len};
  bench.kv.len[0] = bench.kv.len[1] = bench.kv.len[2] = 8;
  step(&bench, &rows);
  expect_words(&bench, 2, stg_kv_word(0, 0), 0, STG_KV_NO_ROW);
  expect_v(&bench, 2, 2, 8);
  advance(&bench, &rows);
  expect_lens(&bench, 8, 8, 9);
  attn_close(&bench.bed);
  (void)state;
}

/* A step of 64 rows, then one of 3 of them: the three have the same bits as alone. */
static void a_batch_of_64_and_then_of_3_gives_the_3_their_bits(void **state) {
  enum { BIG = 64, SMALL = 3 };
  int32_t seq[BIG];
  int32_t len[BIG];
  struct attn_bed bed;
  struct attn_rope big;
  struct attn_rope small;
  attn_open(&bed, 12);
  for (int row = 0; row < BIG; row++) {
    seq[row] = row;
    len[row] = (int32_t)attn_below(&bed, 100);
  }
  const struct stg_rope_geometry g = attn_rope_geometry();
  struct stg_step_rows rows = {.rows = BIG, .batch = BIG, .seq = seq, .len = len};
  struct attn_kv caches[2];
  for (size_t k = 0; k < 2; k++) {
    caches[k] = attn_kv_open(&bed, (struct attn_kv_shape){BIG, 2, 64, 100, STG_F32, 0});
  }
  attn_rope_open(&bed, &g, &plain, &rows, &caches[0], &big);
  attn_rope_run(&big);
  for (int row = SMALL; row < BIG; row++) {
    seq[row] = -1; /* the bucket's padding */
  }
  attn_rope_open(&bed, &g, &plain, &rows, &caches[1], &small);
  small.qkv = big.qkv;
  attn_rope_run(&small);
  assert_memory_equal(big.q, small.q, (size_t)SMALL * 512 * sizeof(float));
  const size_t seq_bytes = (size_t)caches[0].view.seq_stride * sizeof(float);
  assert_memory_equal(caches[0].view.k, caches[1].view.k, SMALL * seq_bytes);
  assert_memory_equal(caches[0].view.v, caches[1].view.v, SMALL * seq_bytes);
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appends_behind_each_sequence_dense_and_paged),
      cmocka_unit_test(refuses_at_capacity_and_names_the_lowest_row_and_its_sequence),
      cmocka_unit_test(a_full_row_past_the_table_has_zeros),
      cmocka_unit_test(words_of_several_calls_add_up),
      cmocka_unit_test(padding_writes_nothing_and_not_the_last_slot),
      cmocka_unit_test(prefill_rows_go_to_their_positions_and_advance_counts_them),
      cmocka_unit_test(a_length_beyond_int32_is_no_position),
      cmocka_unit_test(bad_rows_append_nothing_and_are_told_apart_from_full_ones),
      cmocka_unit_test(a_position_without_a_block_has_no_room),
      cmocka_unit_test(a_batch_of_64_and_then_of_3_gives_the_3_their_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

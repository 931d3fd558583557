/*
 * test_cpu_attend_bits.c: what the bits of a row of attention may not depend on: mates, padding,
 * what lies behind its position, the kind of cache, and how many rows a call has.
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
#define KV_HEADS 2
#define DIM 32
#define ROW 128
_Static_assert(ROW == HEADS * DIM, "a row is all its heads");

static const struct stg_decode_geometry usual = {
    .heads = HEADS, .kv_heads = KV_HEADS, .dim = DIM, .dtype = STG_F32, .chunk = 16};

static struct attn_kv open_cache(struct attn_bed *bed, uint32_t batch, int64_t capacity,
                                 uint32_t block) {
  return attn_kv_open(bed, (struct attn_kv_shape){batch, KV_HEADS, DIM, capacity, STG_F32, block});
}

/* Rows of `q` by `rows` over `kv`: their output. */
static float *attend(struct attn_bed *bed, const struct attn_kv *kv,
                     const struct stg_step_rows *rows, const float *q) {
  const struct stg_cpu_attend_batch batch = {
      .geometry = &usual,
      .rows = *rows,
      .kv = &kv->view,
      .q = q,
      .q_stride = ROW,
      .out = attn_nans(bed, STG_F32, rows->rows * ROW),
      .out_stride = ROW,
      .scale = 0.25F,
  };
  attn_attend_run(bed, &batch);
  return batch.out;
}

static void a_batch_of_64_and_then_of_3_gives_the_3_their_bits(void **state) {
  enum { BIG = 64, SMALL = 3, CAPACITY = 80 };
  int32_t seq[BIG];
  int32_t len[BIG];
  int32_t filled[BIG];
  struct attn_bed bed;
  attn_open(&bed, 31);
  struct attn_kv kv = open_cache(&bed, BIG, CAPACITY, 0);
  for (int32_t row = 0; row < BIG; row++) {
    seq[row] = row;
    len[row] = (int32_t)attn_below(&bed, CAPACITY);
    filled[row] = len[row] + 1;
  }
  attn_kv_fill(&bed, &kv, filled);
  const float *q = attn_random(&bed, STG_F32, (int64_t)BIG * ROW);
  struct stg_step_rows rows = {.rows = BIG, .batch = BIG, .seq = seq, .len = len};
  const float *all = attend(&bed, &kv, &rows, q);
  const float *again = attend(&bed, &kv, &rows, q);
  assert_memory_equal(all, again, sizeof(float) * BIG * ROW);
  for (size_t row = SMALL; row < BIG; row++) {
    seq[row] = -1; /* the bucket's padding */
  }
  const float *few = attend(&bed, &kv, &rows, q);
  rows.rows = SMALL;
  const float *alone = attend(&bed, &kv, &rows, q);
  assert_memory_equal(all, few, sizeof(float) * SMALL * ROW);
  assert_memory_equal(all, alone, sizeof(float) * SMALL * ROW);
  assert_true(isnan(few[(size_t)SMALL * ROW]));
  attn_close(&bed);
  (void)state;
}

/* The same keys in front of tails of zeros, NaN, Inf and -Inf, with pad rows of the same. */
static void tails_and_pad_rows_of_nan_and_inf_show_in_no_bit(void **state) {
  enum { CAPACITY = 64, N = 4 };
  static const float poisons[] = {0, NAN, INFINITY, -INFINITY};
  static const int32_t seq[N] = {1, -1, 0, -1};
  static const int32_t filled[2] = {17, 64};
  static const int32_t len[2] = {16, 63};
  const struct stg_step_rows rows = {.rows = N, .batch = 2, .seq = seq, .len = len};
  for (uint32_t block = 0; block <= 8; block += 8) {
    float first[ROW * 3];
    for (size_t k = 0; k < 4; k++) {
      struct attn_bed bed;
      attn_open(&bed, 32);
      struct attn_kv kv = open_cache(&bed, 2, CAPACITY, block);
      for (int64_t j = 0; j < kv.elems; j++) {
        ((float *)kv.view.k)[j] = ((float *)kv.view.v)[j] = poisons[k];
      }
      attn_kv_fill(&bed, &kv, filled);
      float *q = attn_random(&bed, STG_F32, (int64_t)N * ROW);
      for (size_t j = 0; j < ROW; j++) {
        q[ROW + j] = q[(size_t)3 * ROW + j] = poisons[k];
      }
      const float *out = attend(&bed, &kv, &rows, q);
      for (size_t j = 0; j < ROW; j++) {
        assert_true(isfinite(out[j]) && isfinite(out[(size_t)2 * ROW + j]));
      }
      if (k == 0) {
        memcpy(first, out, sizeof first);
      }
      assert_memory_equal(first, out, ROW * sizeof(float));
      assert_memory_equal(first + (size_t)2 * ROW, out + (size_t)2 * ROW, ROW * sizeof(float));
      attn_close(&bed);
    }
  }
  (void)state;
}

/* 40 new rows of one sequence, in one call and one by one. */
static void several_rows_of_a_sequence_have_the_bits_of_one_at_a_time(void **state) {
  enum { CAPACITY = 64, FIRST = 10, N = 40 };
  static const int32_t filled[1] = {FIRST + N};
  int32_t pos[N];
  struct attn_bed bed;
  attn_open(&bed, 33);
  struct attn_kv kv = open_cache(&bed, 1, CAPACITY, 0);
  attn_kv_fill(&bed, &kv, filled);
  for (int32_t row = 0; row < N; row++) {
    pos[row] = FIRST + row * 7 % N; /* in any order */
  }
  const float *q = attn_random(&bed, STG_F32, (int64_t)N * ROW);
  const struct stg_step_rows rows = {.rows = N, .batch = 1, .pos = pos};
  const float *all = attend(&bed, &kv, &rows, q);
  for (size_t row = 0; row < N; row++) {
    const struct stg_step_rows one = {.rows = 1, .batch = 1, .len = &pos[row]};
    const float *alone = attend(&bed, &kv, &one, q + row * ROW);
    assert_memory_equal(alone, all + row * ROW, ROW * sizeof(float));
  }
  attn_close(&bed);
  (void)state;
}

/* K and V of the first positions of a sequence. */
static void copy_keys(const struct attn_kv *from, const struct attn_kv *to, int32_t seq,
                      int64_t positions) {
  for (int64_t position = 0; position < positions; position++) {
    for (uint32_t head = 0; head < KV_HEADS; head++) {
      memcpy(attn_kv_at(to, to->view.k, seq, position, head),
             attn_kv_at(from, from->view.k, seq, position, head), DIM * sizeof(float));
      memcpy(attn_kv_at(to, to->view.v, seq, position, head),
             attn_kv_at(from, from->view.v, seq, position, head), DIM * sizeof(float));
    }
  }
}

static void a_paged_cache_gives_the_bits_of_a_dense_one(void **state) {
  enum { CAPACITY = 70 };
  static const int32_t filled[3] = {70, 1, 33};
  static const int32_t len[3] = {69, 0, 32};
  static const int32_t seq[3] = {0, 1, 2};
  const struct stg_step_rows rows = {.rows = 3, .batch = 3, .seq = seq, .len = len};
  struct attn_bed bed;
  attn_open(&bed, 34);
  struct attn_kv dense = open_cache(&bed, 3, CAPACITY, 0);
  const float *q = attn_random(&bed, STG_F32, (int64_t)3 * ROW);
  attn_kv_fill(&bed, &dense, filled);
  const float *expected = attend(&bed, &dense, &rows, q);
  for (uint32_t block = 8; block <= 64; block *= 2) {
    struct attn_kv paged = open_cache(&bed, 3, CAPACITY, block);
    for (int32_t s = 0; s < 3; s++) {
      copy_keys(&dense, &paged, s, filled[s]);
    }
    assert_memory_equal(expected, attend(&bed, &paged, &rows, q), sizeof(float) * 3 * ROW);
  }
  attn_close(&bed);
  (void)state;
}

/* Chunks begin at multiples of their size, wherever a window begins. */
static void a_window_gives_the_bits_of_a_mask_over_what_lies_before_it(void **state) {
  enum { CAPACITY = 64 };
  static const int32_t filled[1] = {60};
  static const int32_t len[1] = {59};
  struct attn_bed bed;
  attn_open(&bed, 37);
  struct attn_kv kv = open_cache(&bed, 1, CAPACITY, 0);
  attn_kv_fill(&bed, &kv, filled);
  struct stg_cpu_attend_batch batch = {
      .geometry = &usual,
      .rows = {.rows = 1, .batch = 1, .len = len},
      .kv = &kv.view,
      .q = attn_random(&bed, STG_F32, ROW),
      .q_stride = ROW,
      .out_stride = ROW,
      .scale = 0.25F,
      .mask_stride = CAPACITY,
  };
  for (int64_t window = 1; window <= 60; window++) {
    uint8_t mask[CAPACITY] = {0};
    float outs[2][ROW];
    memset(mask + 60 - window, 1, (size_t)window);
    batch.window = window;
    batch.key_mask = NULL;
    batch.out = outs[0];
    attn_attend_run(&bed, &batch);
    batch.window = 0;
    batch.key_mask = mask;
    batch.out = outs[1];
    attn_attend_run(&bed, &batch);
    assert_memory_equal(outs[0], outs[1], sizeof outs[0]);
  }
  attn_close(&bed);
  (void)state;
}

/*
 * What a valid key holds is used as float64 would: NaN reaches the rows that read it and no other;
 * a score of -Inf is a weight of 0, in chunks of their own too; one of +Inf leaves no finite
 * result.
 */
static void nan_and_inf_in_valid_keys_reach_those_who_read_them(void **state) {
  enum { CAPACITY = 64 };
  static const int32_t filled[4] = {40, 40, 40, 40};
  static const int32_t len[4] = {39, 39, 39, 39};
  static const int32_t seq[4] = {0, 1, 2, 3};
  const struct stg_step_rows rows = {.rows = 4, .batch = 4, .seq = seq, .len = len};
  struct attn_bed bed;
  attn_open(&bed, 35);
  struct attn_kv kv = open_cache(&bed, 4, CAPACITY, 0);
  attn_kv_fill(&bed, &kv, filled);
  float *q = attn_random(&bed, STG_F32, (int64_t)4 * ROW);
  for (size_t row = 0; row < 4; row++) {
    for (size_t head = 0; head < HEADS; head++) {
      q[row * ROW + head * DIM] = 1; /* so that the sign of a score is that of the key */
    }
  }
  ((float *)attn_kv_at(&kv, kv.view.k, 1, 20, 0))[0] = NAN;
  for (int64_t position = 0; position < 32; position++) { /* two chunks of them */
    ((float *)attn_kv_at(&kv, kv.view.k, 2, position, 1))[0] = -INFINITY;
  }
  ((float *)attn_kv_at(&kv, kv.view.k, 3, 39, 0))[0] = INFINITY;
  const float *out = attend(&bed, &kv, &rows, q);
  for (size_t j = 0; j < ROW; j++) {
    const bool of_head_0 = j < ROW / 2; /* query heads 0 and 1 read KV head 0 */
    assert_true(isfinite(out[j]));
    assert_int_equal(of_head_0, isnan(out[ROW + j]) != 0);
    assert_true(isfinite(out[(size_t)2 * ROW + j]));
    assert_int_equal(of_head_0, !isfinite(out[(size_t)3 * ROW + j]));
  }
  attn_close(&bed);
  (void)state;
}

/* Scores 200 apart: weights that float32 has not. */
static void weights_far_below_the_largest_become_zero(void **state) {
  static const int32_t filled[1] = {32};
  static const int32_t len[1] = {31};
  const struct stg_step_rows rows = {.rows = 1, .batch = 1, .len = len};
  struct attn_bed bed;
  attn_open(&bed, 36);
  struct attn_kv kv = open_cache(&bed, 1, 32, 0);
  attn_kv_fill(&bed, &kv, filled);
  float *q = attn_filled(&bed, ROW * sizeof *q, 0);
  for (size_t head = 0; head < HEADS; head++) {
    q[head * DIM] = 4; /* times a scale of 1/4 */
  }
  for (int64_t position = 0; position < 32; position++) {
    for (uint32_t head = 0; head < KV_HEADS; head++) {
      *(float *)attn_kv_at(&kv, kv.view.k, 0, position, head) = position == 20 ? 100.0F
                                                                : position % 2 == 0
                                                                    ? -100.0F
                                                                    : (float)position;
    }
  }
  const float *out = attend(&bed, &kv, &rows, q);
  const float *value = attn_kv_at(&kv, kv.view.v, 0, 20, 0);
  for (size_t j = 0; j < DIM; j++) {
    assert_true(out[j] == value[j]);
  }
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_of_64_and_then_of_3_gives_the_3_their_bits),
      cmocka_unit_test(tails_and_pad_rows_of_nan_and_inf_show_in_no_bit),
      cmocka_unit_test(several_rows_of_a_sequence_have_the_bits_of_one_at_a_time),
      cmocka_unit_test(a_paged_cache_gives_the_bits_of_a_dense_one),
      cmocka_unit_test(a_window_gives_the_bits_of_a_mask_over_what_lies_before_it),
      cmocka_unit_test(nan_and_inf_in_valid_keys_reach_those_who_read_them),
      cmocka_unit_test(weights_far_below_the_largest_become_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_cpu_rope.c: angles, pairs and roundings of the rotation on the CPU.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/oracle/turn.h"
#include "runtime/base/dtype.h"
#include "tests/support/attn_bed.h"
#include "tests/support/quick.h"

static const struct stg_rope_freq plain = {.base = 10000};
static const stg_dtype dtypes[] = {STG_F32, STG_F16, STG_BF16};

/* One head of q, k and v each. */
static struct stg_rope_geometry single(uint32_t dim, stg_dtype dtype) {
  struct stg_rope_geometry g = attn_rope_geometry();
  g.heads = g.kv_heads = 1;
  g.dim = g.rot = dim;
  g.dtype = dtype;
  return g;
}

/* q of one row (1, 2, 3, 4) at position 1, base 10000: angles 1 and 0.01. */
static void expect_golden(enum stg_rope_pairs pairs, const double *expected) {
  static const int32_t pos[] = {1};
  const struct stg_step_rows rows = {.rows = 1, .batch = 1, .pos = pos};
  struct stg_rope_geometry g = single(4, STG_F32);
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 1);
  g.pairs = pairs;
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
  for (int j = 0; j < 12; j++) {
    ((float *)rope.qkv)[j] = (float)(j % 4 + 1);
  }
  attn_rope_run(&rope);
  for (int j = 0; j < 4; j++) {
    assert_true(fabs((double)((float *)rope.q)[j] - expected[j]) < 1e-6);
    assert_true(fabs((double)((float *)rope.k)[j] - expected[j]) < 1e-6);
    assert_true(((float *)rope.v)[j] == (float)(j + 1));
  }
  attn_close(&bed);
}

static void half_and_interleaved_pairs_have_their_own_golden_vectors(void **state) {
  static const double half[] = {-1.9841106485, 1.9599006675, 2.4623779024, 4.0197996684};
  static const double interleaved[] = {-1.1426396637, 1.9220755966, 2.9598506679, 4.0297995017};
  expect_golden(STG_ROPE_PAIRS_HALF, half);
  expect_golden(STG_ROPE_PAIRS_INTERLEAVED, interleaved);
  (void)state;
}

/* Rows at `n` positions from `first` on, `step` apart. */
static void run_positions(const struct stg_rope_geometry *g, const struct stg_rope_freq *freq,
                          int64_t first, int64_t step, int64_t n) {
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 3);
  int64_t *pos = attn_filled(&bed, (size_t)n * sizeof *pos, 0);
  for (int64_t row = 0; row < n; row++) {
    pos[row] = first + row * step;
  }
  const struct stg_step_rows rows = {.rows = n, .batch = 1, .pos = pos, .pos_is_64 = true};
  attn_rope_open(&bed, g, freq, &rows, NULL, &rope);
  const struct stg_oracle_heads_report report = attn_rope_run(&rope);
  assert_int_equal(n, report.rows);
  assert_int_equal(2 * n * g->rot, report.elements);
  attn_close(&bed);
}

static void positions_255_to_131071_are_within_the_bound(void **state) {
  const int64_t step = test_is_quick() ? 1021 : 16;
  for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
    struct stg_rope_geometry g = single(128, dtypes[k]);
    g.pairs = k % 2 == 0 ? STG_ROPE_PAIRS_HALF : STG_ROPE_PAIRS_INTERLEAVED;
    run_positions(&g, &plain, 255, step, (131071 - 255) / step + 1);
    run_positions(&g, &plain, 131071 - 3, 1, 4);
  }
  (void)state;
}

static void the_last_positions_of_all_are_within_the_bound(void **state) {
  const struct stg_rope_geometry g = single(64, STG_F32);
  run_positions(&g, &plain, STG_MAX_POSITION - 20, 1, 21);
  run_positions(&g, &plain, (1 << 24) - 5, 1, 10);
  (void)state;
}

static void scaled_frequencies_are_within_the_bound(void **state) {
  static const struct stg_rope_freq scaled[] = {
      {.base = 500000,
       .scaling = STG_ROPE_SCALING_LLAMA3,
       .factor = 8,
       .low_freq = 1,
       .high_freq = 4,
       .original = 8192},
      {.base = 10000, .scaling = STG_ROPE_SCALING_LINEAR, .factor = 2.5},
      {.base = 1000000},
  };
  const struct stg_rope_geometry g = single(64, STG_F32);
  for (size_t k = 0; k < sizeof scaled / sizeof scaled[0]; k++) {
    run_positions(&g, &scaled[k], 0, 631, 208);
  }
  (void)state;
}

/* What is not rotated passes bit by bit, a signalling NaN too. */
static void a_partial_rotation_leaves_the_rest_and_all_of_v(void **state) {
  static const int32_t pos[] = {7, 1000};
  static const uint32_t rots[] = {2, 6, 32, 62};
  const struct stg_step_rows rows = {.rows = 2, .batch = 1, .pos = pos};
  for (size_t k = 0; k < sizeof rots / sizeof rots[0]; k++) {
    for (size_t d = 0; d < 3; d++) {
      struct stg_rope_geometry g = single(64, dtypes[d]);
      struct attn_bed bed;
      struct attn_rope rope;
      attn_open(&bed, k);
      g.rot = rots[k];
      g.pairs = d == 1 ? STG_ROPE_PAIRS_INTERLEAVED : STG_ROPE_PAIRS_HALF;
      attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
      const uint32_t signalling = g.dtype == STG_F32   ? 0x7f800001U
                                  : g.dtype == STG_F16 ? 0x7c01U
                                                       : 0x7f81U;
      const size_t unit = stg_dtype_bytes(g.dtype);
      memcpy((unsigned char *)rope.qkv + 63 * unit, &signalling, unit);
      memcpy((unsigned char *)rope.qkv + 130 * unit, &signalling, unit);
      attn_rope_run(&rope);
      assert_memory_equal((unsigned char *)rope.q + 63 * unit, &signalling, unit);
      assert_memory_equal((unsigned char *)rope.v + 2 * unit, &signalling, unit);
      attn_close(&bed);
    }
  }
  (void)state;
}

static void positions_of_32_bits_of_64_and_lengths_give_the_same_bits(void **state) {
  enum { N = 5 };
  static const int32_t narrow[N] = {0, 1, 255, 70000, 131071};
  static const int64_t wide[N] = {0, 1, 255, 70000, 131071};
  static const int32_t seq[N] = {0, 1, 2, 3, 4};
  const struct stg_step_rows forms[] = {
      {.rows = N, .batch = N, .seq = seq, .pos = narrow},
      {.rows = N, .batch = N, .seq = seq, .pos = wide, .pos_is_64 = true},
      {.rows = N, .batch = N, .seq = seq, .len = narrow},
  };
  struct stg_rope_geometry g = attn_rope_geometry();
  g.xpos = STG_ROPE_XPOS_HALVES; /* each sequence has one row, so the centres are the same */
  g.dtype = STG_BF16;
  struct attn_bed bed;
  struct attn_rope ropes[3];
  attn_open(&bed, 9);
  for (size_t k = 0; k < 3; k++) {
    attn_rope_open(&bed, &g, &plain, &forms[k], NULL, &ropes[k]);
    ropes[k].qkv = ropes[0].qkv;
    ropes[k].angles.xpos_base = 8192; /* 512 would leave float32 at position 131071 */
    attn_rope_run(&ropes[k]);
    assert_memory_equal(ropes[0].q, ropes[k].q, sizeof(uint16_t) * N * 8 * 64);
    assert_memory_equal(ropes[0].k, ropes[k].k, sizeof(uint16_t) * N * 2 * 64);
  }
  attn_close(&bed);
  (void)state;
}

/* (258, 258) with cosine 1 + 2^-8 and sine 1 or 2, in bf16, whose steps are 2 at 258. */
static float turn_258(enum stg_rope_round round, enum stg_rope_trig trig, float sine) {
  static const int32_t pos[] = {0};
  const float table[2] = {1.00390625F, sine};
  const struct stg_step_rows rows = {.rows = 1, .batch = 1, .pos = pos};
  struct stg_rope_geometry g = single(2, STG_BF16);
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 1);
  g.round = round;
  g.trig = trig;
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
  rope.angles.table = table;
  rope.angles.table_positions = 1;
  for (size_t j = 0; j < 6; j++) {
    stg_store_f32(STG_BF16, rope.qkv, j, 258);
  }
  attn_rope_run(&rope);
  const float y = stg_load_f32(STG_BF16, rope.q, 0);
  attn_close(&bed);
  return y;
}

/* 259.0078125 - 258 is 1.0078125; as a bf16 the product is 260. */
static void each_op_rounds_the_products_and_final_does_not(void **state) {
  assert_true(turn_258(STG_ROPE_ROUND_FINAL, STG_ROPE_TRIG_F32, 1) == 1.0078125F);
  assert_true(turn_258(STG_ROPE_ROUND_EACH_OP, STG_ROPE_TRIG_F32, 1) == 2);
  (void)state;
}

/* 1 + 2^-8 is halfway between 1 and the next bf16; swapped, 258*2 - 258*1. */
static void trig_says_what_cosine_and_sine_are_rounded_to(void **state) {
  assert_true(turn_258(STG_ROPE_ROUND_FINAL, STG_ROPE_TRIG_DTYPE, 1) == 0);
  assert_true(turn_258(STG_ROPE_ROUND_FINAL, STG_ROPE_TRIG_DTYPE, 2) == -258);
  assert_true(turn_258(STG_ROPE_ROUND_FINAL, STG_ROPE_TRIG_SWAPPED_BF16, 2) == 258);
  (void)state;
}

/* Cosines and sines of 64 positions, of which the eager sequence makes one result. */
static void each_op_is_bit_exact_to_the_eager_sequence(void **state) {
  enum { N = 64, DIM = 64 };
  const struct stg_step_rows rows = {.rows = N, .batch = 1, .pos = (int32_t[N]){0, 9, 63, 1}};
  for (int k = 0; k < 3 * 2 * 3; k++) {
    struct stg_rope_geometry g = single(DIM, dtypes[k % 3]);
    struct attn_bed bed;
    struct attn_rope rope;
    attn_open(&bed, (uint64_t)k);
    g.round = STG_ROPE_ROUND_EACH_OP;
    g.pairs = (enum stg_rope_pairs)(k / 3 % 2);
    g.trig = (enum stg_rope_trig)(k / 6);
    attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
    float *table = attn_filled(&bed, sizeof(float) * N * DIM, 0);
    for (int p = 0; p < N; p++) {
      for (int i = 0; i < DIM / 2; i++) {
        const double angle = (double)p * (double)rope.inv_freq[i];
        table[p * DIM + i] = (float)cos(angle);
        table[p * DIM + DIM / 2 + i] = (float)sin(angle);
      }
    }
    rope.angles.table = table;
    rope.angles.table_positions = N;
    assert_true(stg_oracle_turn_is_exact(
        &g, &(struct stg_oracle_angles){.table = table, .table_positions = N}));
    attn_rope_run(&rope);
    attn_close(&bed);
  }
  (void)state;
}

/* Without a table the bound allows for the roundings of the products. */
static void each_rounding_is_within_the_bound_at_any_position(void **state) {
  for (int k = 0; k < 3 * 3; k++) {
    struct stg_rope_geometry g = single(64, dtypes[k % 3]);
    g.round = STG_ROPE_ROUND_EACH_OP;
    g.trig = (enum stg_rope_trig)(k / 3);
    run_positions(&g, &plain, 0, 517, 250);
    g.round = STG_ROPE_ROUND_FINAL;
    run_positions(&g, &plain, 0, 517, 250);
  }
  (void)state;
}

/* What a fused rotation changes of an eager one in bf16: many elements, none by more than the unit
 * of the larger product. */
static void final_differs_from_each_op_by_no_more_than_a_unit_of_the_larger_product(void **state) {
  enum { N = 64, DIM = 64 };
  int32_t pos[N];
  for (int p = 0; p < N; p++) {
    pos[p] = p;
  }
  const struct stg_step_rows rows = {.rows = N, .batch = 1, .pos = pos};
  struct stg_rope_geometry g = single(DIM, STG_BF16);
  struct attn_bed bed;
  struct attn_rope fused;
  struct attn_rope eager;
  attn_open(&bed, 5);
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &fused);
  g.round = STG_ROPE_ROUND_EACH_OP;
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &eager);
  eager.qkv = fused.qkv;
  attn_rope_run(&fused);
  attn_rope_run(&eager);
  size_t differ = 0;
  for (size_t row = 0; row < N; row++) {
    for (size_t e = 0; e < DIM; e++) {
      const size_t other = e < DIM / 2 ? e + DIM / 2 : e - DIM / 2;
      const double angle = (double)row * (double)fused.inv_freq[e % (DIM / 2)];
      const double x = (double)stg_load_f32(STG_BF16, fused.qkv, row * 3 * DIM + e);
      const double y = (double)stg_load_f32(STG_BF16, fused.qkv, row * 3 * DIM + other);
      const double a = (double)stg_load_f32(STG_BF16, fused.q, row * DIM + e);
      const double b = (double)stg_load_f32(STG_BF16, eager.q, row * DIM + e);
      const double larger = fmax(fabs(x * cos(angle)), fabs(y * sin(angle)));
      int exponent;
      (void)frexp(larger, &exponent);
      /* the sum may have one exponent more than the product */
      assert_true(fabs(a - b) <= ldexp(1, exponent - 8) * (fabs(b) > larger ? 2 : 1));
      differ += a != b;
    }
  }
  assert_true(differ > N * DIM / 5 && differ < N * DIM / 2);
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(half_and_interleaved_pairs_have_their_own_golden_vectors),
      cmocka_unit_test(positions_255_to_131071_are_within_the_bound),
      cmocka_unit_test(the_last_positions_of_all_are_within_the_bound),
      cmocka_unit_test(scaled_frequencies_are_within_the_bound),
      cmocka_unit_test(a_partial_rotation_leaves_the_rest_and_all_of_v),
      cmocka_unit_test(positions_of_32_bits_of_64_and_lengths_give_the_same_bits),
      cmocka_unit_test(each_op_rounds_the_products_and_final_does_not),
      cmocka_unit_test(trig_says_what_cosine_and_sine_are_rounded_to),
      cmocka_unit_test(each_op_is_bit_exact_to_the_eager_sequence),
      cmocka_unit_test(each_rounding_is_within_the_bound_at_any_position),
      cmocka_unit_test(final_differs_from_each_op_by_no_more_than_a_unit_of_the_larger_product),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

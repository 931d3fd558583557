/*
 * test_cpu_rope_xpos.c: the scale of xPos, whose centre depends on the call; and tables of angles,
 * which end somewhere.
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

static const struct stg_rope_freq plain = {.base = 10000};

static struct stg_rope_geometry toto(uint32_t dim, enum stg_rope_xpos xpos) {
  struct stg_rope_geometry g = attn_rope_geometry();
  g.heads = g.kv_heads = 1;
  g.dim = g.rot = dim;
  g.pairs = STG_ROPE_PAIRS_INTERLEAVED;
  g.xpos = xpos;
  return g;
}

/*
 * Positions 0 to 7: the centre is 3, so position 7 has power 4/512. The scales of dim 4 are 2/7 and
 * 9/14 at power 1: of elements 0 and 2, 1 and 3 with halves; of 0 and 1, 2 and 3 with pairs.
 */
static void expect_scales(enum stg_rope_xpos xpos, const int *frequency) {
  static const int32_t pos[] = {0, 1, 2, 3, 4, 5, 6, 7};
  static const double scale[] = {2.0 / 7, 9.0 / 14};
  const struct stg_step_rows rows = {.rows = 8, .batch = 1, .pos = pos};
  struct stg_rope_geometry g = toto(4, xpos);
  struct attn_bed bed;
  struct attn_rope scaled;
  struct attn_rope unscaled;
  attn_open(&bed, 4);
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &scaled);
  g.xpos = STG_ROPE_XPOS_NONE;
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &unscaled);
  unscaled.qkv = scaled.qkv;
  attn_rope_run(&scaled);
  attn_rope_run(&unscaled);
  for (int j = 0; j < 8 * 4; j++) {
    const int from_centre = j / 4 - 3;
    const double factor = pow(scale[frequency[j % 4]], (double)from_centre / 512);
    const double q = (double)((float *)unscaled.q)[j];
    const double k = (double)((float *)unscaled.k)[j];
    assert_true(fabs((double)((float *)scaled.q)[j] - q * factor) <= 1e-6);
    assert_true(fabs((double)((float *)scaled.k)[j] - k / factor) <= 1e-6);
  }
  const float *q = scaled.q;
  assert_memory_equal(q + 12, (float *)unscaled.q + 12, 4 * sizeof *q); /* power 0 */
  attn_close(&bed);
}

static void halves_and_pairs_give_elements_the_scale_of_their_frequency(void **state) {
  static const int halves[] = {0, 1, 0, 1};
  static const int pairs[] = {0, 0, 1, 1};
  expect_scales(STG_ROPE_XPOS_HALVES, halves);
  expect_scales(STG_ROPE_XPOS_PAIRS, pairs);
  (void)state;
}

/* Two sequences in one call, of other lengths, and each in a call of its own. */
static void the_centre_is_that_of_the_rows_own_sequence(void **state) {
  enum { N = 7, DIM = 32 };
  static const int32_t seq[N] = {1, 0, 1, -1, 1, 0, 1};
  static const int32_t pos[N] = {5, 100, 8, 900, 4, 101, 6};
  const struct stg_step_rows rows = {.rows = N, .batch = 2, .seq = seq, .pos = pos};
  const struct stg_rope_geometry g = toto(DIM, STG_ROPE_XPOS_HALVES);
  struct attn_bed bed;
  struct attn_rope all;
  attn_open(&bed, 4);
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &all);
  attn_rope_run(&all);
  for (int32_t alone = 0; alone < 2; alone++) {
    int32_t own[N];
    struct stg_step_rows own_rows = rows;
    struct attn_rope rope;
    for (size_t row = 0; row < N; row++) {
      own[row] = seq[row] == alone ? alone : -1;
    }
    own_rows.seq = own;
    attn_rope_open(&bed, &g, &plain, &own_rows, NULL, &rope);
    rope.qkv = all.qkv;
    attn_rope_run(&rope);
    for (size_t row = 0; row < N; row++) {
      if (seq[row] == alone) {
        assert_memory_equal((float *)all.q + row * DIM, (float *)rope.q + row * DIM,
                            DIM * sizeof(float));
      }
    }
  }
  attn_close(&bed);
  (void)state;
}

/* Cached against cached: a new token by its length, and by its position in a call of its own. */
static void a_row_by_its_length_equals_a_row_by_its_position(void **state) {
  enum { DIM = 32 };
  const struct stg_rope_geometry g = toto(DIM, STG_ROPE_XPOS_HALVES);
  for (int32_t p = 0; p < 40; p++) {
    const struct stg_step_rows by_length = {.rows = 1, .batch = 1, .len = &p};
    const struct stg_step_rows by_position = {.rows = 1, .batch = 1, .pos = &p};
    struct attn_bed bed;
    struct attn_rope first;
    struct attn_rope second;
    attn_open(&bed, 4);
    attn_rope_open(&bed, &g, &plain, &by_length, NULL, &first);
    attn_rope_open(&bed, &g, &plain, &by_position, NULL, &second);
    second.qkv = first.qkv;
    attn_rope_run(&first);
    attn_rope_run(&second);
    assert_memory_equal(first.q, second.q, DIM * sizeof(float));
    assert_memory_equal(first.k, second.k, DIM * sizeof(float));
    attn_close(&bed);
  }
  (void)state;
}

/* q (258, 80) with this cosine and sine and a scale s of 1 + 2^-8, in bf16: its first element. */
static float turn_258(enum stg_rope_round round, bool back, float cosine, float sine) {
  static const int32_t pos[] = {2};
  const float table[] = {9, 9, 9, 9, cosine, sine};
  static const float log_scale[] = {0.00389864045F}; /* ln(1 + 2^-8) */
  const struct stg_step_rows rows = {.rows = 1, .batch = 1, .pos = pos};
  struct stg_rope_geometry g = toto(2, STG_ROPE_XPOS_PAIRS);
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 1);
  g.dtype = STG_BF16;
  g.round = round;
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
  rope.angles.table = table;
  rope.angles.table_positions = 3;
  rope.angles.log_scale = log_scale;
  rope.angles.xpos_base = 1; /* the centre is 1, so the power is 1 */
  const struct stg_cpu_rope_batch batch = attn_rope_batch(&rope);
  void *from = back ? rope.q : rope.qkv;
  stg_store_f32(STG_BF16, from, 0, 258);
  stg_store_f32(STG_BF16, from, 1, 80);
  const struct stg_cpu_rope_gradient gradient = {.geometry = &g,
                                                 .angles = &rope.angles,
                                                 .rows = rows,
                                                 .q = batch.q,
                                                 .k = batch.k,
                                                 .v = batch.v,
                                                 .qkv = rope.qkv,
                                                 .qkv_stride = batch.qkv_stride};
  assert_int_equal(STG_OK, back ? stg_cpu_rope_back(&gradient, NULL) : stg_cpu_rope(&batch, NULL));
  const float y = stg_load_f32(STG_BF16, back ? rope.qkv : rope.q, 0);
  attn_close(&bed);
  return y;
}

/*
 * 258*s = 259.0078 is 260 as a bf16, 80*s = 80.3125 is 80.5. Rounded there as well, the difference
 * is 179.5 and its bf16 180; else it is 178.695, and 179. On the way back 260*(1 + 2^-8) = 261.02
 * is 262, and 259.0078*(1 + 2^-8) = 260.02 is 260.
 */
static void each_op_rounds_what_the_scale_was_put_on(void **state) {
  assert_true(turn_258(STG_ROPE_ROUND_EACH_OP, false, 1, 1) == 180);
  assert_true(turn_258(STG_ROPE_ROUND_FINAL, false, 1, 1) == 179);
  assert_true(turn_258(STG_ROPE_ROUND_EACH_OP, true, 1.00390625F, 0) == 262);
  assert_true(turn_258(STG_ROPE_ROUND_FINAL, true, 1.00390625F, 0) == 260);
  (void)state;
}

static void every_rounding_of_xpos_is_within_the_bound(void **state) {
  static const int64_t pos[] = {0, 1, 255, 256, 4095, 30000};
  const struct stg_step_rows rows = {.rows = 6, .batch = 1, .pos = pos, .pos_is_64 = true};
  for (int k = 0; k < ATTN_ROPE_ROUNDINGS * 2; k++) {
    struct stg_rope_geometry g =
        toto(64, k / ATTN_ROPE_ROUNDINGS == 0 ? STG_ROPE_XPOS_HALVES : STG_ROPE_XPOS_PAIRS);
    struct attn_bed bed;
    struct attn_rope rope;
    attn_open(&bed, (uint64_t)k);
    attn_rope_set_rounding(&g, k);
    attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
    rope.angles.xpos_base = 8192; /* f16 has no room for more */
    attn_rope_run(&rope);
    attn_close(&bed);
  }
  (void)state;
}

/* Down to what is subnormal and to 0, up to infinity: scales, and what is multiplied by them. In
 * f16 they end sooner. What is not finite is right there, and with scales around 1 there is none.
 */
static void scales_at_the_ends_of_a_type_are_within_the_bound(void **state) {
  static const int32_t pos[] = {0, 1, 255, 4095, 30000};
  static const float bases[] = {1e6F, 1500, 400, 190, 100, 1, 1e-35F};
  const struct stg_step_rows rows = {.rows = 5, .batch = 1, .pos = pos};
  for (size_t base = 0; base < sizeof bases / sizeof bases[0]; base++) {
    uint64_t overflows = 0;
    for (int k = 0; k < ATTN_ROPE_ROUNDINGS; k++) {
      struct stg_rope_geometry g = toto(64, STG_ROPE_XPOS_HALVES);
      struct attn_bed bed;
      struct attn_rope rope;
      attn_open(&bed, (uint64_t)k);
      attn_rope_set_rounding(&g, k);
      attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
      attn_spread(g.dtype, 5 * stg_rope_row_elems(&g), rope.qkv);
      rope.angles.xpos_base = bases[base];
      overflows += attn_rope_run(&rope).overflows;
      attn_close(&bed);
    }
    assert_true(base == 0 ? overflows == 0 : overflows > 0 || base < 3);
  }
  (void)state;
}

/* (1, 0) at position 1 of a table (cos, sin) = (0.25, -3): (0.25, -3). */
static void a_table_takes_the_place_of_the_angles_and_ends(void **state) {
  static const int64_t pos[] = {1, 2, -1, (int64_t)1 << 31};
  static const float table[] = {9, 9, 0.25F, -3};
  const struct stg_step_rows rows = {.rows = 4, .batch = 1, .pos = pos, .pos_is_64 = true};
  const struct stg_rope_geometry g = toto(2, STG_ROPE_XPOS_NONE);
  struct attn_bed bed;
  struct attn_rope rope;
  attn_open(&bed, 4);
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
  rope.angles.table = table;
  rope.angles.table_positions = 2;
  for (int j = 0; j < 4 * 6; j++) {
    ((float *)rope.qkv)[j] = (float)(1 - j % 2);
  }
  const struct stg_oracle_heads_report report = attn_rope_run(&rope);
  const float *q = rope.q;
  const float *v = rope.v;
  assert_true(q[0] == 0.25F && q[1] == -3);
  assert_int_equal(3, report.rows_bad);
  assert_int_equal(3, rope.words.bad_rows);
  assert_true(rope.words.bad == stg_kv_word(1, 0) && rope.words.full == STG_KV_NO_ROW);
  for (int j = 2; j < 8; j++) {
    assert_true(q[j] == 0 && v[j] == 0);
  }
  attn_close(&bed);
  (void)state;
}

static void without_memory_for_the_centres_nothing_is_written(void **state) {
  static const int32_t pos[] = {1};
  const struct stg_step_rows rows = {.rows = 1, .batch = 3, .pos = pos};
  const struct stg_rope_geometry g = toto(2, STG_ROPE_XPOS_PAIRS);
  struct attn_bed bed;
  struct attn_rope rope;
  stg_error error = STG_ERROR_INIT;
  attn_open(&bed, 4);
  attn_rope_open(&bed, &g, &plain, &rows, NULL, &rope);
  const struct stg_cpu_rope_batch batch = attn_rope_batch(&rope);
  const struct stg_cpu_rope_gradient gradient = {.geometry = &g,
                                                 .angles = &rope.angles,
                                                 .rows = rows,
                                                 .q = batch.q,
                                                 .k = batch.k,
                                                 .v = batch.v,
                                                 .qkv = rope.qkv,
                                                 .qkv_stride = batch.qkv_stride};
  void *qkv = attn_copy(&bed, STG_F32, rope.qkv, 6);
  stg_alloc_fail_at(1);
  assert_int_equal(STG_E_NO_MEMORY, stg_cpu_rope(&batch, &error));
  stg_alloc_fail_at(0);
  assert_non_null(strstr(error.message, "largest positions of the CPU backend"));
  assert_true(isnan(((float *)rope.q)[0]) && isnan(((float *)rope.k)[0]));
  stg_alloc_fail_at(1);
  assert_int_equal(STG_E_NO_MEMORY, stg_cpu_rope_back(&gradient, &error));
  stg_alloc_fail_at(0);
  assert_memory_equal(qkv, rope.qkv, 6 * sizeof(float));
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(halves_and_pairs_give_elements_the_scale_of_their_frequency),
      cmocka_unit_test(the_centre_is_that_of_the_rows_own_sequence),
      cmocka_unit_test(a_row_by_its_length_equals_a_row_by_its_position),
      cmocka_unit_test(each_op_rounds_what_the_scale_was_put_on),
      cmocka_unit_test(every_rounding_of_xpos_is_within_the_bound),
      cmocka_unit_test(scales_at_the_ends_of_a_type_are_within_the_bound),
      cmocka_unit_test(a_table_takes_the_place_of_the_angles_and_ends),
      cmocka_unit_test(without_memory_for_the_centres_nothing_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

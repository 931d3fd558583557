/*
 * test_bench_batch.c: the batches of the bench are what they say, and a baseline that is wrong is
 * found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <steergraph/steer.h>

#include "runtime/base/dtype.h"
#include "tools/bench/agree.h"

static struct stg_bench_batch make(const struct stg_bench_mix *mix) {
  struct stg_bench_batch batch;
  stg_error error = STG_ERROR_INIT;
  if (stg_bench_batch_init(mix, &batch, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  return batch;
}

static const uint32_t three_lengths[] = {2, 1, 3};
static const struct stg_bench_mix mixed = {.name = "mixed",
                                           .hidden_size = 64,
                                           .n_requests = 3,
                                           .lengths = three_lengths,
                                           .n_ops = 2,
                                           .n_distinct = 3,
                                           .kind = STG_BENCH_MIXED};

static void maps_rows_to_requests_by_their_lengths(void **state) {
  (void)state;
  static const int32_t expected[] = {0, 0, 1, 2, 2, 2};
  struct stg_bench_batch batch = make(&mixed);
  assert_int_equal(batch.rows, 6);
  assert_int_equal(batch.longest, 3);
  assert_memory_equal(batch.row_map, expected, sizeof expected);
  stg_bench_batch_finish(&batch);
}

static void gives_each_distinct_chain_vectors_of_its_own_and_kinds_in_turn(void **state) {
  (void)state;
  struct stg_bench_batch batch = make(&mixed);
  assert_int_equal(batch.n_vectors, 6);
  for (uint32_t r = 0; r < 3; r++) {
    const struct stg_bench_op *ops = stg_bench_batch_chain(&batch, r);
    for (uint32_t k = 0; k < 2; k++) {
      assert_int_equal(ops[k].vector, 2 * r + k);
      assert_int_equal(ops[k].kind, (r + k) % 3);
    }
  }
  stg_bench_batch_finish(&batch);
}

static void caps_to_half_and_adds_4_and_ablates_whole(void **state) {
  (void)state;
  static const struct {
    float a, b;
  } expected[] = {[STG_BENCH_CAP] = {-0.5F, 0.5F}, [STG_BENCH_ADD] = {4, 0}};
  struct stg_bench_batch batch = make(&mixed);
  for (uint32_t i = 0; i < batch.n_vectors; i++) {
    const struct stg_bench_op *op = &batch.ops[i];
    const bool ablates = op->kind == STG_BENCH_ABLATION;
    assert_true(ablates || op->b == expected[op->kind].b);
    assert_true(op->a == (ablates ? 0 : expected[op->kind].a));
  }
  stg_bench_batch_finish(&batch);
}

static void shares_chains_among_requests_when_few_are_distinct(void **state) {
  (void)state;
  struct stg_bench_mix mix = mixed;
  mix.n_distinct = 2;
  struct stg_bench_batch batch = make(&mix);
  assert_ptr_equal(stg_bench_batch_chain(&batch, 0), stg_bench_batch_chain(&batch, 2));
  assert_ptr_not_equal(stg_bench_batch_chain(&batch, 0), stg_bench_batch_chain(&batch, 1));
  stg_bench_batch_finish(&batch);
}

static void makes_unit_vectors_that_differ_and_rows_that_differ(void **state) {
  (void)state;
  struct stg_bench_mix mix = mixed;
  mix.hidden_size = 4096;
  mix.state = STG_BENCH_PAIR;
  struct stg_bench_batch batch = make(&mix);
  for (uint32_t v = 0; v < batch.n_vectors; v++) {
    double squares = 0;
    for (size_t i = 0; i < 4096; i++) {
      const double x = (double)stg_bf16_to_f32(batch.vectors[(size_t)v * 4096 + i]);
      squares += x * x;
    }
    assert_true(fabs(sqrt(squares) - 1) < 0.001);
  }
  assert_memory_not_equal(batch.vectors, batch.vectors + 4096, 4096 * sizeof *batch.vectors);
  assert_memory_not_equal(batch.hidden, batch.hidden + 4096, 4096 * sizeof *batch.hidden);
  assert_memory_not_equal(batch.hidden, batch.residual, 4096 * sizeof *batch.hidden);
  stg_bench_batch_finish(&batch);
}

static void has_a_weight_around_1_where_a_norm_follows(void **state) {
  (void)state;
  struct stg_bench_mix mix = mixed;
  mix.hidden_size = 4096;
  mix.state = STG_BENCH_NORM;
  struct stg_bench_batch batch = make(&mix);
  double sum = 0;
  for (size_t i = 0; i < 4096; i++) {
    sum += (double)stg_bf16_to_f32(batch.weight[i]);
  }
  assert_true(fabs(sum / 4096 - 1) < 0.02);
  assert_memory_not_equal(batch.weight, batch.weight + 2048, 2048 * sizeof *batch.weight);
  assert_non_null(batch.residual);
  stg_bench_batch_finish(&batch);
  mix.state = STG_BENCH_PAIR;
  batch = make(&mix);
  assert_null(batch.weight);
  stg_bench_batch_finish(&batch);
}

static void steers_no_row_where_that_is_asked_and_keeps_the_chains(void **state) {
  (void)state;
  struct stg_bench_mix mix = mixed;
  mix.unsteered = true;
  struct stg_bench_batch batch = make(&mix);
  struct stg_bench_batch steered = make(&mixed);
  for (uint32_t row = 0; row < batch.rows; row++) {
    assert_int_equal(batch.row_map[row], STG_ROW_UNSTEERED);
  }
  assert_memory_equal(batch.hidden, steered.hidden, stg_bench_batch_bytes(&batch));
  assert_int_equal(batch.n_vectors, steered.n_vectors);
  stg_bench_batch_finish(&batch);
  stg_bench_batch_finish(&steered);
}

static void accepts_two_units_apart_and_names_what_is_three_apart(void **state) {
  (void)state;
  struct stg_bench_batch batch = make(&mixed);
  const size_t at = 2 * 64 + 5;
  uint16_t ours[6 * 64];
  uint16_t theirs[6 * 64];
  stg_error error = STG_ERROR_INIT;
  memcpy(ours, batch.hidden, sizeof ours);
  ours[at] = stg_bf16_from_f32(1.0f);
  memcpy(theirs, ours, sizeof ours);
  theirs[at] = (uint16_t)(ours[at] + 2);
  assert_int_equal(stg_bench_agree(&batch, "slow way", ours, theirs, &error), STG_OK);
  theirs[at] = (uint16_t)(ours[at] + 3);
  assert_int_equal(stg_bench_agree(&batch, "slow way", ours, theirs, &error), STG_E_CORRUPT);
  assert_non_null(strstr(error.message, "'slow way' disagrees at row 2, element 5: 1.02344, "
                                        "steergraph has 1, before "));
  theirs[at] = 0x7fc0; /* NaN */
  assert_int_equal(stg_bench_agree(&batch, "slow way", ours, theirs, &error), STG_E_CORRUPT);
  stg_bench_batch_finish(&batch);
}

static void accepts_what_nearly_cancels_and_refuses_what_does_not(void **state) {
  (void)state;
  struct stg_bench_batch batch = make(&mixed);
  uint16_t ours[6 * 64];
  uint16_t theirs[6 * 64];
  memcpy(ours, batch.hidden, sizeof ours);
  ours[0] = stg_bf16_from_f32(-0x1p-18f);
  memcpy(theirs, ours, sizeof ours);
  theirs[0] = stg_bf16_from_f32(0x1p-18f);
  assert_int_equal(stg_bench_agree(&batch, "x", ours, theirs, NULL), STG_OK);
  theirs[0] = stg_bf16_from_f32(0x1p-15f);
  assert_int_equal(stg_bench_agree(&batch, "x", ours, theirs, NULL), STG_E_CORRUPT);
  stg_bench_batch_finish(&batch);
}

static void counts_rows_of_which_any_byte_changed(void **state) {
  (void)state;
  struct stg_bench_batch batch = make(&mixed);
  uint16_t after[6 * 64];
  memcpy(after, batch.hidden, sizeof after);
  assert_int_equal(stg_bench_rows_changed(&batch, after), 0);
  after[63] ^= 1;
  after[320] ^= 0x8000; /* row 5 */
  assert_int_equal(stg_bench_rows_changed(&batch, after), 2);
  stg_bench_batch_finish(&batch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps_rows_to_requests_by_their_lengths),
      cmocka_unit_test(gives_each_distinct_chain_vectors_of_its_own_and_kinds_in_turn),
      cmocka_unit_test(caps_to_half_and_adds_4_and_ablates_whole),
      cmocka_unit_test(shares_chains_among_requests_when_few_are_distinct),
      cmocka_unit_test(makes_unit_vectors_that_differ_and_rows_that_differ),
      cmocka_unit_test(has_a_weight_around_1_where_a_norm_follows),
      cmocka_unit_test(steers_no_row_where_that_is_asked_and_keeps_the_chains),
      cmocka_unit_test(accepts_two_units_apart_and_names_what_is_three_apart),
      cmocka_unit_test(accepts_what_nearly_cancels_and_refuses_what_does_not),
      cmocka_unit_test(counts_rows_of_which_any_byte_changed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

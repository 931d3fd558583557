/*
 * steer_semantics.c: sequences of ops, mixtures of requests, pairs, padding.
 *
 * Where a wrong meaning would still be "some steering", the projections are also computed by hand.
 */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"

#define HIDDEN 256
#define ROWS_EACH 5

/* A table of f32 rows, so that projections can be compared tightly. */
static struct steer_bed *f32_bed(void **state) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN, .dtype = STG_F32, .max_rows = 256};
  return steer_bed_create(*state, &desc);
}

static struct steer_bed *bf16_bed(void **state) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 256};
  return steer_bed_create(*state, &desc);
}

static struct steer_batch *rows_of(struct steer_bed *bed, int64_t rows) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = rows});
  steer_batch_fill(batch, 11, 1);
  return batch;
}

/* One request per entry of `slots`, some rows each; -1 and slots that were never set steer nothing.
 */
static void expect_mixture(struct steer_bed *bed, const int32_t *slots, size_t n_slots) {
  struct steer_batch *batch = rows_of(bed, (int64_t)n_slots * ROWS_EACH);
  for (size_t i = 0; i < n_slots; i++) {
    steer_batch_map(batch, (int64_t)i * ROWS_EACH, (int64_t)(i + 1) * ROWS_EACH, slots[i]);
  }
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    assert_int_equal(slots[r / ROWS_EACH] != 0, steer_batch_unchanged(batch, r));
  }
  steer_batch_destroy(batch);
}

static void unsteered_requests_keep_their_bytes(void **state) {
  struct steer_bed *bed = bf16_bed(state);
  const stg_op_call add = steer_add(steer_bed_direction(bed, 1, 4), 1);
  steer_bed_set(bed, 0, &add, 1);
  expect_mixture(bed, (const int32_t[]){-1, 0}, 2);
  expect_mixture(bed, (const int32_t[]){-1, -1, 0}, 3);
  expect_mixture(bed, (const int32_t[]){0, -1}, 2);
  expect_mixture(bed, (const int32_t[]){9, 0}, 2);
  expect_mixture(bed, (const int32_t[]){9, -1, 0}, 3);
  expect_mixture(bed, (const int32_t[]){0, 9}, 2);
  steer_bed_destroy(bed);
}

/* Steer all of ten rows by one chain and hold them against the oracle. */
static struct steer_batch *steered_by(struct steer_bed *bed, const stg_op_call *calls, size_t n) {
  struct steer_batch *batch = rows_of(bed, 10);
  steer_bed_set(bed, 0, calls, n);
  steer_batch_map(batch, 0, 10, 0);
  steer_batch_expect_ok(batch);
  return batch;
}

static void two_ablations_by_two_multiply_by_four(void **state) {
  struct steer_bed *bed = f32_bed(state);
  const stg_vector v = steer_bed_direction(bed, 2, 1);
  const stg_op_call calls[] = {steer_ablate(v, 2), steer_ablate(v, 2)};
  struct steer_batch *batch = steered_by(bed, calls, 2);
  for (int64_t r = 0; r < 10; r++) {
    const double before = steer_batch_dot(batch, batch->hidden, r, v);
    const double after = steer_batch_dot(batch, batch->result, r, v);
    assert_true(fabs(after - 4 * before) <= 1e-4);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void two_equal_adds_add_twice(void **state) {
  struct steer_bed *bed = f32_bed(state);
  const stg_vector v = steer_bed_direction(bed, 3, 1);
  const stg_op_call calls[] = {steer_add(v, 1.5F), steer_add(v, 1.5F)};
  struct steer_batch *batch = steered_by(bed, calls, 2);
  for (int64_t r = 0; r < 10; r++) {
    const double before = steer_batch_dot(batch, batch->hidden, r, v);
    const double after = steer_batch_dot(batch, batch->result, r, v);
    assert_true(fabs(after - (before + 3)) <= 1e-4);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void order_of_add_and_cap_matters_within_one_batch(void **state) {
  struct steer_bed *bed = f32_bed(state);
  const stg_vector v = steer_bed_direction(bed, 4, 1);
  const stg_op_call add_first[] = {steer_add(v, 10), steer_cap_max(v, 2)};
  const stg_op_call cap_first[] = {steer_cap_max(v, 2), steer_add(v, 10)};
  struct steer_batch *batch = rows_of(bed, 20);
  steer_bed_set(bed, 0, add_first, 2);
  steer_bed_set(bed, 1, cap_first, 2);
  for (int64_t r = 0; r < 20; r++) {
    steer_batch_map(batch, r, r + 1, (int32_t)(r % 2));
  }
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < 20; r++) {
    const double before = steer_batch_dot(batch, batch->hidden, r, v);
    const double after = steer_batch_dot(batch, batch->result, r, v);
    const double wanted = r % 2 == 0 ? 2 : fmin(before, 2) + 10;
    assert_true(fabs(after - wanted) <= 1e-4);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void caps_of_correlated_directions_act_in_sequence(void **state) {
  struct steer_bed *bed = f32_bed(state);
  float values[HIDDEN] = {1};
  const stg_vector first = steer_bed_vector(bed, values);
  values[0] = 0.8F;
  values[1] = 0.6F;
  const stg_vector second = steer_bed_vector(bed, values);
  const stg_op_call caps[] = {steer_cap_max(first, 0), steer_cap_max(second, 0)};
  struct steer_batch *batch = rows_of(bed, 1);
  /* both projections are 1 at first: 0.8 + 0.6/3 */
  steer_batch_put(batch, batch->hidden, 0, 0, 1);
  steer_batch_put(batch, batch->hidden, 0, 1, 1.0F / 3);
  steer_bed_set(bed, 0, caps, 2);
  steer_batch_map(batch, 0, 1, 0);
  steer_batch_expect_ok(batch);
  /* the first cap leaves 1 - 0.8 along the second; taking that away leaves -0.2*0.8 along the
   * first. Both corrections at once would leave -0.8. */
  assert_true(fabs(steer_batch_dot(batch, batch->result, 0, second)) <= 1e-5);
  assert_true(fabs(steer_batch_dot(batch, batch->result, 0, first) + 0.16) <= 1e-5);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void two_adds_and_a_cap_of_one_request_all_act(void **state) {
  struct steer_bed *bed = f32_bed(state);
  float values[HIDDEN] = {1};
  const stg_vector x = steer_bed_vector(bed, values);
  values[0] = 0;
  values[1] = 1;
  const stg_vector y = steer_bed_vector(bed, values);
  values[1] = 0;
  values[2] = 1;
  const stg_vector z = steer_bed_vector(bed, values);
  const stg_op_call calls[] = {steer_add(x, 5), steer_add(y, -7), steer_cap_max(z, -3)};
  struct steer_batch *batch = steered_by(bed, calls, 3);
  for (int64_t r = 0; r < 10; r++) {
    const double third = steer_batch_get(batch, batch->hidden, r, 2);
    assert_true(fabs(steer_batch_get(batch, batch->result, r, 0) -
                     (steer_batch_get(batch, batch->hidden, r, 0) + 5)) <= 1e-5);
    assert_true(fabs(steer_batch_get(batch, batch->result, r, 1) -
                     (steer_batch_get(batch, batch->hidden, r, 1) - 7)) <= 1e-5);
    assert_true(fabs(steer_batch_get(batch, batch->result, r, 2) - fmin(third, -3)) <= 1e-5);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* 35 rows of 40 with pad rows among them and after them; what no one wrote is NaN. */
static void fill_between_padding(struct steer_batch *batch) {
  steer_batch_map(batch, 0, 40, STG_ROW_PADDING);
  for (int64_t r = 0; r < 35; r++) {
    if (r % 7 == 3) {
      continue;
    }
    steer_batch_map(batch, r, r + 1, r % 3 == 0 ? STG_ROW_UNSTEERED : 0);
    for (int64_t j = 0; j < HIDDEN; j++) {
      steer_batch_put(batch, batch->hidden, r, j, (float)((r * 31 + j * 17) % 101 - 50));
    }
  }
}

/* In both tiles, in place and out of place. */
static void padding_full_of_nan_is_neither_read_nor_written(void **state) {
  struct steer_bed *bed = bf16_bed(state);
  const stg_op_call keep = steer_keep_norm(steer_bed_direction(bed, 5, 2), 1);
  steer_bed_set(bed, 0, &keep, 1);
  for (unsigned variant = 0; variant < 4; variant++) {
    const struct steer_layout layout = {
        .rows = 40, .spare_rows = 24, .out_of_place = (variant & 1U) != 0};
    struct steer_batch *batch = steer_batch_create(bed, &layout);
    batch->longest = (variant & 2U) != 0 ? 1 : 30;
    fill_between_padding(batch);
    steer_batch_expect_ok(batch);
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static void no_stale_row_acts_when_a_frame_shrinks(void **state) {
  struct steer_bed *bed = bf16_bed(state);
  const stg_op_call add = steer_add(steer_bed_direction(bed, 6, 3), 1);
  steer_bed_set(bed, 0, &add, 1);
  struct steer_batch *large = rows_of(bed, 192);
  steer_batch_map(large, 0, 192, 0);
  steer_batch_expect_ok(large);
  struct steer_batch *small =
      steer_batch_create(bed, &(struct steer_layout){.rows = 144, .spare_rows = 48});
  steer_batch_fill(small, 12, 1);
  steer_batch_map(small, 0, 144, 0);
  steer_batch_expect_ok(small);
  steer_batch_expect_ok(large);
  steer_batch_destroy(small);
  steer_batch_destroy(large);
  steer_bed_destroy(bed);
}

static void a_pair_is_steered_by_its_sum_and_only_hidden_is_written(void **state) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .state = STG_STATE_HIDDEN_PLUS_RESIDUAL,
                               .max_rows = 64};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  const stg_vector v = steer_bed_direction(bed, 7, 1);
  const stg_op_call cap = steer_cap_max(v, -1);
  steer_bed_set(bed, 0, &cap, 1);
  struct steer_batch *batch = rows_of(bed, 30);
  for (int64_t r = 0; r < 30; r++) {
    steer_batch_map(batch, r, r + 1, r % 3 == 0 ? STG_ROW_UNSTEERED : 0);
  }
  steer_batch_expect_ok(batch); /* fetch compares the residual */
  for (int64_t r = 0; r < 30; r++) {
    const double residual = steer_batch_dot(batch, batch->residual, r, v);
    const double before = steer_batch_dot(batch, batch->hidden, r, v) + residual;
    const double after = steer_batch_dot(batch, batch->result, r, v) + residual;
    assert_true(fabs(after - (r % 3 == 0 ? before : fmin(before, -1))) <= 1e-4);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* The same rows in one call of 64, and in calls of 63 and 1, whose last one looks like decoding. */
static void a_prompt_in_two_chunks_gets_the_same_bits(void **state) {
  struct steer_bed *bed = bf16_bed(state);
  const stg_vector v = steer_bed_direction(bed, 8, 1);
  const stg_op_call calls[] = {steer_keep_norm(v, 2), steer_cap_max(v, 1), steer_ablate(v, -1)};
  steer_bed_set(bed, 3, calls, 3);
  struct steer_batch *whole = rows_of(bed, 64);
  struct steer_batch *head = rows_of(bed, 63);
  struct steer_batch *tail = rows_of(bed, 1);
  memcpy(steer_batch_row(tail, tail->hidden, 0), steer_batch_row(whole, whole->hidden, 63),
         whole->row_bytes);
  steer_batch_map(whole, 0, 64, 3);
  steer_batch_map(head, 0, 63, 3);
  steer_batch_map(tail, 0, 1, 3);
  steer_batch_expect_ok(whole);
  steer_batch_expect_ok(head);
  steer_batch_expect_ok(tail);
  assert_memory_equal(steer_batch_row(whole, whole->result, 0),
                      steer_batch_row(head, head->result, 0), 63 * whole->row_bytes);
  assert_memory_equal(steer_batch_row(whole, whole->result, 63),
                      steer_batch_row(tail, tail->result, 0), whole->row_bytes);
  steer_batch_destroy(whole);
  steer_batch_destroy(head);
  steer_batch_destroy(tail);
  steer_bed_destroy(bed);
}

int steer_semantics_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unsteered_requests_keep_their_bytes),
      cmocka_unit_test(two_ablations_by_two_multiply_by_four),
      cmocka_unit_test(two_equal_adds_add_twice),
      cmocka_unit_test(order_of_add_and_cap_matters_within_one_batch),
      cmocka_unit_test(caps_of_correlated_directions_act_in_sequence),
      cmocka_unit_test(two_adds_and_a_cap_of_one_request_all_act),
      cmocka_unit_test(padding_full_of_nan_is_neither_read_nor_written),
      cmocka_unit_test(no_stale_row_acts_when_a_frame_shrinks),
      cmocka_unit_test(a_pair_is_steered_by_its_sum_and_only_hidden_is_written),
      cmocka_unit_test(a_prompt_in_two_chunks_gets_the_same_bits),
  };
  return cmocka_run_group_tests_name("steer semantics", tests, open, steer_env_close);
}

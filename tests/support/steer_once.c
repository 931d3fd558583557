/*
 * steer_once.c: the one-shot form: requests by their lengths, a chain per request.
 */
#include <string.h>

#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"

#define HIDDEN 100
#define MAX_REQUESTS 8

static struct steer_bed *bed_of(void **state) {
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .dtype = STG_F16, .max_rows = 64, .max_slots = 4};
  return steer_bed_create(*state, &desc);
}

/* The batch's rows as `n` requests of these lengths; the rest is padding. */
static stg_once once_of(const struct steer_batch *batch, const int64_t *lengths,
                        const stg_chain *chains, size_t n) {
  return (stg_once){.struct_size = sizeof(stg_once),
                    .apply = steer_batch_args(batch),
                    .rows = batch->layout.rows,
                    .n_requests = n,
                    .lengths = lengths,
                    .chains = chains};
}

/* Send, steer in one call, fetch, and check: request i stands in the row map as slot i. */
static void expect_once(struct steer_batch *batch, const int64_t *lengths, const stg_chain *chains,
                        size_t n) {
  stg_error error = STG_ERROR_INIT;
  const stg_once once = once_of(batch, lengths, chains, n);
  steer_batch_send(batch);
  expect_status(STG_OK, stg_steer_once(batch->bed->steer, &once, batch->stream, &error), &error);
  int64_t at = 0;
  for (size_t i = 0; i < n; i++) {
    steer_batch_map(batch, at, at + lengths[i], (int32_t)i);
    batch->chains[i] = steer_bed_chain(batch->bed, chains[i].ops, chains[i].n_ops);
    at += lengths[i];
  }
  steer_batch_map(batch, at, batch->layout.rows, STG_ROW_PADDING);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
}

static struct steer_batch *batch_of(struct steer_bed *bed, int64_t rows, bool out_of_place) {
  struct steer_batch *batch =
      steer_batch_create(bed, &(struct steer_layout){.rows = rows, .out_of_place = out_of_place});
  steer_batch_fill(batch, 21, 1);
  return batch;
}

/* What a call used is free for the next, however full the table was. */
static void a_call_leaves_room_for_the_next(void **state) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_F16,
                               .max_rows = 64,
                               .max_slots = 1,
                               .max_vectors = 1,
                               .max_chain = 1};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  struct steer_batch *batch = batch_of(bed, 9, false);
  const int64_t length = 9;
  for (uint64_t k = 0; k < 5; k++) {
    const stg_op_call call = steer_add(steer_bed_direction(bed, 30 + k, 2), 3);
    expect_once(batch, &length, &(stg_chain){.ops = &call, .n_ops = 1}, 1);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void requests_are_steered_by_their_own_chains(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_vector v = steer_bed_direction(bed, 1, 2);
  const stg_op_call calls[] = {steer_add(v, 3), steer_ablate(v, 0.5F), steer_keep_norm(v, -1)};
  const stg_chain chains[] = {
      {.ops = calls, .n_ops = 1}, {0}, {.ops = calls, .n_ops = 3}, {.ops = calls + 2, .n_ops = 1}};
  const int64_t lengths[] = {7, 12, 1, 20};
  for (int out_of_place = 0; out_of_place < 2; out_of_place++) {
    struct steer_batch *batch = batch_of(bed, 48, out_of_place != 0);
    expect_once(batch, lengths, chains, 4);
    assert_false(steer_batch_unchanged(batch, 0));
    assert_true(steer_batch_unchanged(batch, 7));
    assert_false(steer_batch_unchanged(batch, 19));
    assert_false(steer_batch_unchanged(batch, 20));
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static void empty_batches_empty_requests_and_single_rows_are_fine(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call add = steer_add(steer_bed_direction(bed, 2, 2), 1);
  const stg_chain chains[] = {
      {.ops = &add, .n_ops = 1}, {.ops = &add, .n_ops = 1}, {.ops = &add, .n_ops = 1}};
  struct steer_batch *empty = batch_of(bed, 0, false);
  struct steer_batch *one = batch_of(bed, 1, false);
  struct steer_batch *some = batch_of(bed, 5, false);
  expect_once(empty, NULL, NULL, 0);
  expect_once(empty, (const int64_t[]){0}, chains, 1);
  expect_once(one, (const int64_t[]){1}, chains, 1);
  assert_false(steer_batch_unchanged(one, 0));
  expect_once(some, (const int64_t[]){2, 0, 3}, chains, 3);
  expect_once(some, (const int64_t[]){0, 0, 1}, chains, 3);
  assert_false(steer_batch_unchanged(some, 0));
  expect_once(some, NULL, NULL, 0);
  steer_batch_destroy(empty);
  steer_batch_destroy(one);
  steer_batch_destroy(some);
  steer_bed_destroy(bed);
}

static void expect_refused(struct steer_batch *batch, const stg_once *once, stg_status wanted,
                           const char *part) {
  stg_error error = STG_ERROR_INIT;
  steer_batch_send(batch);
  expect_error(wanted, part, stg_steer_once(batch->bed->steer, once, batch->stream, &error),
               &error);
  steer_batch_fetch(batch);
  assert_memory_equal(batch->hidden, batch->result, batch->image_bytes);
}

static void lengths_beyond_the_rows_are_an_error_and_nothing_is_written(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call add = steer_add(steer_bed_direction(bed, 3, 2), 1);
  const stg_chain chains[] = {{.ops = &add, .n_ops = 1}, {.ops = &add, .n_ops = 1}};
  struct steer_batch *batch = batch_of(bed, 10, false);
  stg_once once = once_of(batch, (const int64_t[]){6, 5}, chains, 2);
  expect_refused(batch, &once, STG_E_INVALID, "lengths sum to 11, the tensors have 10 rows");
  once.lengths = (const int64_t[]){-1, 5};
  expect_refused(batch, &once, STG_E_INVALID, "lengths[0] is -1");
  once.lengths = (const int64_t[]){5, INT64_MAX};
  expect_refused(batch, &once, STG_E_INVALID, "lengths[1] is 9223372036854775807");
  once.lengths = (const int64_t[]){6, 4};
  once.chains = (const stg_chain[]){chains[0], {.n_ops = 1}};
  expect_refused(batch, &once, STG_E_INVALID, "chains[1].ops is NULL with a count of 1");
  once.chains = chains;
  once.rows = 65;
  expect_refused(batch, &once, STG_E_CAPACITY, "65 rows, the table declares max_rows 64");
  expect_once(batch, (const int64_t[]){6, 4}, chains, 2);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void equal_chains_share_a_slot_and_slots_come_back(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_vector v = steer_bed_direction(bed, 4, 2);
  stg_op_call calls[MAX_REQUESTS];
  stg_chain chains[MAX_REQUESTS];
  const int64_t lengths[MAX_REQUESTS] = {1, 2, 3, 4, 5, 6, 7, 8};
  struct steer_batch *batch = batch_of(bed, 36, false);
  for (size_t i = 0; i < MAX_REQUESTS; i++) {
    calls[i] = steer_add(v, (float)(i % 4));
    chains[i] = (stg_chain){.ops = &calls[i], .n_ops = 1};
  }
  for (int round = 0; round < 3; round++) {
    expect_once(batch, lengths, chains, MAX_REQUESTS);
  }
  calls[7] = steer_add(v, 9); /* a fifth chain, for which there is no slot */
  stg_once once = once_of(batch, lengths, chains, MAX_REQUESTS);
  expect_refused(batch, &once, STG_E_CAPACITY, "no free slot of 4");
  calls[7] = steer_add(v, 3);
  expect_once(batch, lengths, chains, MAX_REQUESTS);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void slots_in_use_are_left_alone(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_vector v = steer_bed_direction(bed, 5, 2);
  const stg_op_call mine = steer_add(v, 5), theirs = steer_add(v, -5);
  const stg_chain chain = {.ops = &theirs, .n_ops = 1};
  struct steer_batch *batch = batch_of(bed, 8, false);
  steer_bed_set(bed, 0, &mine, 1);
  expect_once(batch, (const int64_t[]){8}, &chain, 1);
  steer_batch_map(batch, 0, 8, 0);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

int steer_once_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_leaves_room_for_the_next),
      cmocka_unit_test(requests_are_steered_by_their_own_chains),
      cmocka_unit_test(empty_batches_empty_requests_and_single_rows_are_fine),
      cmocka_unit_test(lengths_beyond_the_rows_are_an_error_and_nothing_is_written),
      cmocka_unit_test(equal_chains_share_a_slot_and_slots_come_back),
      cmocka_unit_test(slots_in_use_are_left_alone),
  };
  return cmocka_run_group_tests_name("steer once", tests, open, steer_env_close);
}

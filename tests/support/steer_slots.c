/*
 * steer_slots.c: slots, parameters, frames and layers over time.
 */
#include <string.h>

#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define HIDDEN 128

static struct steer_bed *bed_of(void **state, uint32_t max_slots) {
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 64, .max_slots = max_slots};
  return steer_bed_create(*state, &desc);
}

/* A batch of `rows` rows of one slot. */
static struct steer_batch *rows_of(struct steer_bed *bed, int64_t rows, int32_t slot) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = rows});
  steer_batch_fill(batch, 81, 1);
  steer_batch_map(batch, 0, rows, slot);
  return batch;
}

static void one_slot_more_than_declared_is_a_status_and_freeing_makes_room(void **state) {
  struct steer_bed *bed = bed_of(state, 8);
  const stg_vector v = steer_bed_direction(bed, 1, 1);
  stg_error error = STG_ERROR_INIT;
  for (uint32_t slot = 0; slot < 8; slot++) {
    const stg_op_call call = steer_add(v, (float)slot);
    steer_bed_set(bed, slot, &call, 1);
  }
  const stg_op_call call = steer_add(v, 99);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  expect_error(STG_E_CAPACITY, "slot 8 is not below the declared 8",
               stg_steer_slot_set(bed->steer, 8, &chain, 1, &error), &error);
  expect_error(STG_E_CAPACITY, "slot 4294967295 is not below the declared 8",
               stg_steer_slot_clear(bed->steer, UINT32_MAX, &error), &error);
  struct steer_batch *batch = rows_of(bed, 64, 0);
  for (int64_t r = 0; r < 64; r++) {
    batch->row_map[r] = (int32_t)(r / 8);
  }
  steer_batch_expect_ok(batch);
  steer_bed_clear(bed, 3);
  steer_batch_expect_ok(batch);
  assert_true(steer_batch_unchanged(batch, 24));
  steer_bed_set(bed, 3, &call, 1);
  steer_batch_expect_ok(batch);
  assert_false(steer_batch_unchanged(batch, 24));
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void one_vector_more_than_declared_is_a_status_and_freeing_makes_room(void **state) {
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .dtype = STG_BF16, .max_rows = 64, .max_slots = 8, .max_vectors = 3};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  stg_error error = STG_ERROR_INIT;
  stg_op_call calls[4];
  for (size_t k = 0; k < 4; k++) {
    calls[k] = steer_add(steer_bed_direction(bed, 2 + k, 1), 2);
  }
  const stg_chain fourth = {.ops = &calls[3], .n_ops = 1};
  steer_bed_set(bed, 0, calls, 2);
  steer_bed_set(bed, 1, calls + 1, 2); /* shares one */
  expect_error(STG_E_CAPACITY, "all 3 of max_vectors are in use",
               stg_steer_slot_set(bed->steer, 2, &fourth, 1, &error), &error);
  /* what it replaces may free a vector only after it: a slot is unchanged on failure */
  expect_error(STG_E_CAPACITY, "slot 1: ", stg_steer_slot_set(bed->steer, 1, &fourth, 1, &error),
               &error);
  struct steer_batch *batch = rows_of(bed, 24, 0);
  steer_batch_map(batch, 8, 16, 1);
  steer_batch_map(batch, 16, 24, 2);
  steer_batch_expect_ok(batch);
  steer_bed_clear(bed, 1);
  steer_batch_expect_ok(batch); /* the frame lets go of the old record */
  steer_bed_set(bed, 2, &calls[3], 1);
  steer_batch_expect_ok(batch);
  assert_false(steer_batch_unchanged(batch, 16));
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void thousands_of_parameter_changes_use_one_slot(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 2);
  const stg_op_call calls[] = {steer_add(steer_bed_direction(bed, 9, 1), 0),
                               steer_cap_max(steer_bed_direction(bed, 10, 1), 0.5F)};
  const int changes = env->quick ? 500 : 10000;
  steer_bed_set(bed, 1, calls, 2);
  struct steer_batch *batch = rows_of(bed, 16, 1);
  for (int k = 0; k < changes; k++) {
    const float scale = (float)(k % 97) * 0.25F;
    steer_bed_params(bed, 1, 0, 0, &scale, 1);
    if (k % (changes / 20) == 0) {
      steer_batch_expect_ok(batch);
    }
  }
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void only_the_given_parameters_change(void **state) {
  struct steer_bed *bed = bed_of(state, 2);
  const stg_vector v = steer_bed_direction(bed, 11, 1);
  const stg_op_call cap = {
      .op = "projection_cap", .vectors = {v}, .params = {-0.25F, 0.25F}, .params_given = 3};
  stg_error error = STG_ERROR_INIT;
  steer_bed_set(bed, 0, &cap, 1);
  struct steer_batch *batch = rows_of(bed, 16, 0);
  steer_batch_expect_ok(batch);
  steer_bed_params(bed, 0, 0, 0, (const float[]){99, 0.125F}, 2);
  steer_batch_expect_ok(batch);
  steer_bed_params(bed, 0, 0, 0, (const float[]){-0.5F, 99}, 1);
  steer_batch_expect_ok(batch);
  /* refused as a whole: min would pass max */
  expect_error(STG_E_INVALID, "min <= max",
               stg_steer_set_params(bed->steer, 0, 0, 0, (const float[]){1, 0}, 1, &error), &error);
  steer_batch_expect_ok(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void a_change_shows_at_the_next_step_only(void **state) {
  struct steer_bed *bed = bed_of(state, 2);
  const stg_op_call add = steer_add(steer_bed_direction(bed, 12, 1), 5);
  steer_bed_set(bed, 0, &add, 1);
  struct steer_batch *batch = rows_of(bed, 16, 0);
  steer_batch_send(batch);
  steer_batch_step(batch);
  steer_bed_params(bed, 0, 0, 0, (const float[]){-5}, 1);
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
  steer_batch_check(batch); /* against what the slot was at the step */
  steer_batch_send(batch);
  steer_batch_step(batch);
  steer_bed_clear(bed, 0);
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
  steer_batch_check(batch);
  assert_false(steer_batch_unchanged(batch, 0));
  steer_batch_expect_ok(batch);
  assert_true(steer_batch_unchanged(batch, 0));
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void frames_keep_their_own_row_maps_and_steps(void **state) {
  struct steer_bed *bed = bed_of(state, 4);
  const stg_vector v = steer_bed_direction(bed, 13, 1);
  const stg_op_call first = steer_add(v, 3), second = steer_add(v, -3);
  stg_error error = STG_ERROR_INIT;
  stg_frame *other = NULL;
  steer_bed_set(bed, 0, &first, 1);
  steer_bed_set(bed, 1, &second, 1);
  expect_status(STG_OK, stg_frame_create(bed->steer, &other, &error), &error);
  struct steer_batch *one = rows_of(bed, 40, 0);
  struct steer_batch *two = rows_of(bed, 24, 1);
  two->frame = other;
  steer_batch_send(one);
  steer_batch_send(two);
  steer_batch_step(one);
  steer_bed_set(bed, 0, &second, 1); /* seen by the second frame alone */
  steer_batch_map(two, 0, 12, 0);
  steer_batch_step(two);
  steer_batch_apply(two);
  steer_batch_apply(one);
  steer_batch_fetch(one);
  steer_batch_fetch(two);
  steer_batch_check(one);
  steer_batch_check(two);
  expect_error(STG_E_BUSY, "a frame of the table is alive", stg_steer_destroy(bed->steer, &error),
               &error);
  stg_frame_destroy(other);
  steer_batch_expect_ok(one);
  steer_batch_destroy(one);
  steer_batch_destroy(two);
  steer_bed_destroy(bed);
}

static void layers_have_their_own_chains(void **state) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .layers = STEER_BED_LAYERS,
                               .dtype = STG_F32,
                               .max_rows = 64,
                               .max_slots = 4};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  const stg_vector v = steer_bed_direction(bed, 14, 1);
  const stg_op_call add = steer_add(v, 3), cut = steer_ablate(v, 0);
  /* given out of order; layers 1 and 2 of slot 0 are left alone */
  steer_bed_set_layers(
      bed, 0, (const stg_chain[]){{.layer = 3, .ops = &cut, .n_ops = 1}, {.ops = &add, .n_ops = 1}},
      2);
  steer_bed_set_layers(bed, 1, (const stg_chain[]){{.layer = 2, .ops = &add, .n_ops = 1}}, 1);
  struct steer_batch *batch = rows_of(bed, 20, 0);
  steer_batch_map(batch, 10, 20, 1);
  for (int round = 0; round < 2; round++) {
    steer_batch_send(batch);
    steer_batch_step(batch);
    for (uint32_t layer = 0; layer < STEER_BED_LAYERS; layer++) {
      batch->layer = layer;
      steer_batch_send(batch);
      steer_batch_note(batch);
      steer_batch_apply(batch);
      steer_batch_fetch(batch);
      steer_batch_check(batch);
      assert_int_equal(layer == 1 || layer == 2, steer_batch_unchanged(batch, 0));
      assert_int_equal(layer != 2, steer_batch_unchanged(batch, 10));
    }
    steer_bed_params(bed, 0, 3, 0, (const float[]){2}, 1);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void digest_of(const struct steer_bed *bed, uint32_t slot, unsigned char *ret_digest) {
  stg_error error = STG_ERROR_INIT;
  expect_status(STG_OK, stg_steer_digest(bed->steer, slot, ret_digest, &error), &error);
}

static void the_digest_says_what_a_slot_does(void **state) {
  static const unsigned char zeros[16] = {0};
  struct steer_bed *bed = bed_of(state, 4);
  const stg_vector v = steer_bed_direction(bed, 15, 1), w = steer_bed_direction(bed, 16, 1);
  const stg_op_call chains[][2] = {
      {steer_add(v, 1), steer_ablate(v, 0)}, {steer_ablate(v, 0), steer_add(v, 1)},
      {steer_add(v, 2), steer_ablate(v, 0)}, {steer_add(w, 1), steer_ablate(v, 0)},
      {steer_add(v, 1), steer_ablate(w, 0)}, {steer_add(v, 1), steer_keep_norm(v, 0)},
  };
  const size_t n = sizeof chains / sizeof chains[0];
  unsigned char digests[6][16], again[16];
  for (size_t i = 0; i < n; i++) {
    steer_bed_set(bed, 0, chains[i], 2);
    digest_of(bed, 0, digests[i]);
    assert_memory_not_equal(digests[i], zeros, 16);
    for (size_t j = 0; j < i; j++) {
      assert_memory_not_equal(digests[i], digests[j], 16);
    }
  }
  /* the same chain in another slot, its default given or left out, or reached by set_params */
  stg_op_call implied[2] = {chains[0][0], chains[0][1]};
  implied[0].params_given = 0;
  steer_bed_set(bed, 2, implied, 2);
  digest_of(bed, 2, again);
  assert_memory_equal(again, digests[0], 16);
  steer_bed_params(bed, 2, 0, 0, (const float[]){2}, 1);
  digest_of(bed, 2, again);
  assert_memory_equal(again, digests[2], 16);
  steer_bed_set(bed, 2, chains[0], 1);
  digest_of(bed, 2, again);
  assert_memory_not_equal(again, digests[0], 16);
  digest_of(bed, 1, again);
  assert_memory_equal(again, zeros, 16);
  steer_bed_clear(bed, 2);
  digest_of(bed, 2, again);
  assert_memory_equal(again, zeros, 16);
  steer_bed_destroy(bed);
}

/* Slots set and cleared over and over, with steps between: nothing runs out. */
static void slots_may_change_forever(void **state) {
  struct steer_env *env = *state;
  struct steer_bed *bed = bed_of(state, 8);
  struct steer_draws draws = {.seed = 90};
  const struct steer_menu menu = {
      .ops = steer_builtin_ops, .n_ops = steer_builtin_op_count, .n_vectors = 30};
  stg_op_call calls[4];
  steer_random_vectors(&draws, bed, 30);
  struct steer_batch *batch = rows_of(bed, 64, 0);
  for (int round = 0; round < (env->quick ? 20 : 200); round++) {
    for (int k = 0; k < 5; k++) {
      const uint32_t slot = steer_draw_below(&draws, 8);
      const size_t n = steer_draw_below(&draws, 5);
      steer_random_chain(&draws, bed, &menu, n, calls);
      if (n == 0) {
        steer_bed_clear(bed, slot);
      } else {
        steer_bed_set(bed, slot, calls, n);
      }
    }
    for (int64_t r = 0; r < 64; r++) {
      batch->row_map[r] = (int32_t)steer_draw_below(&draws, 8);
    }
    steer_batch_expect_ok(batch);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

int steer_slots_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_slot_more_than_declared_is_a_status_and_freeing_makes_room),
      cmocka_unit_test(one_vector_more_than_declared_is_a_status_and_freeing_makes_room),
      cmocka_unit_test(thousands_of_parameter_changes_use_one_slot),
      cmocka_unit_test(only_the_given_parameters_change),
      cmocka_unit_test(a_change_shows_at_the_next_step_only),
      cmocka_unit_test(frames_keep_their_own_row_maps_and_steps),
      cmocka_unit_test(layers_have_their_own_chains),
      cmocka_unit_test(the_digest_says_what_a_slot_does),
      cmocka_unit_test(slots_may_change_forever),
  };
  return cmocka_run_group_tests_name("steer slots", tests, open, steer_env_close);
}

/*
 * steer_counters.c: what is counted of each slot's rows, against counts made by comparing bytes.
 */
#include <math.h>

#include "runtime/base/dtype.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"
#include "tests/support/steer_random.h"

#define HIDDEN 256
#define SLOTS 6

static stg_steer_desc desc_of(void) {
  return (stg_steer_desc){.hidden_size = HIDDEN,
                          .dtype = STG_BF16,
                          .layers = 2,
                          .max_slots = SLOTS,
                          .windows = true,
                          .counters = true};
}

static struct steer_bed *bed_of(void **state) {
  const stg_steer_desc desc = desc_of();
  return steer_bed_create(*state, &desc);
}

static stg_slot_counters counters_of(const struct steer_batch *batch, uint32_t slot) {
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_error error = STG_ERROR_INIT;
  expect_status(
      STG_OK,
      stg_steer_counters(batch->bed->steer, slot, batch->layer, batch->stream, &counters, &error),
      &error);
  return counters;
}

static void expect_counters(const struct steer_batch *batch, uint32_t slot, uint64_t touched,
                            uint64_t changed, float most) {
  const stg_slot_counters counters = counters_of(batch, slot);
  if (counters.rows_touched != touched || counters.rows_changed != changed ||
      counters.max_update != most) {
    fail_msg("slot %u: %llu touched, %llu changed, by %g at most; instead of %llu, %llu, %g", slot,
             (unsigned long long)counters.rows_touched, (unsigned long long)counters.rows_changed,
             (double)counters.max_update, (unsigned long long)touched, (unsigned long long)changed,
             (double)most);
  }
}

/* What a row would be without its chain, where a chain's mark is to be seen: hidden, or behind an
 * epilogue the rounded sum. */
static float element_before(const struct steer_batch *batch, int64_t r, int64_t j) {
  float value = (float)steer_batch_get(batch, batch->hidden, r, j);
  if (batch->bed->norm) {
    uint32_t bits = 0;
    value += (float)steer_batch_get(batch, batch->residual, r, j);
    stg_store_f32(batch->bed->dtype, &bits, 0, value);
    value = stg_load_f32(batch->bed->dtype, &bits, 0);
  }
  return value;
}

/* Add what became of the batch's rows to `ret`, by slot. */
static void count_bytes(const struct steer_batch *batch, stg_slot_counters ret[SLOTS]) {
  unsigned char *after = batch->bed->norm ? batch->residual_result : batch->result;
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    if (!steer_batch_is_steered(batch, r)) {
      continue;
    }
    stg_slot_counters *counters = &ret[batch->row_map[r]];
    bool changed = false;
    for (int64_t j = 0; j < batch->bed->hidden_size; j++) {
      const float before = element_before(batch, r, j);
      const float now = (float)steer_batch_get(batch, after, r, j);
      const float update = fabsf(now - before);
      changed = changed || stg_f32_bits(before) != stg_f32_bits(now);
      counters->max_update = update > counters->max_update ? update : counters->max_update;
    }
    counters->rows_touched++;
    counters->rows_changed += changed;
  }
}

/* Adds, caps that act on some rows, chains that leave every row, and a slot at layer 1 alone. */
static void set_slots(struct steer_bed *bed, uint32_t seed) {
  const stg_vector v = steer_bed_direction(bed, seed, 1), w = steer_bed_direction(bed, seed + 1, 1);
  const stg_op_call add[] = {steer_add(v, 3), steer_keep_norm(w, 1)};
  const stg_op_call cap[] = {steer_cap_max(v, 0.1F)};
  const stg_op_call idle[] = {steer_add(v, 0), steer_cap_max(w, 1e6F)};
  const stg_op_call small[] = {steer_add(w, 1e-6F)};
  const stg_window window = {.phase = STG_PHASE_PROMPT};
  steer_bed_set(bed, 0, add, 2);
  steer_bed_set(bed, 1, cap, 1);
  steer_bed_set(bed, 2, idle, 2);
  if (bed->windows) {
    steer_bed_set_window(bed, 3, add, 1, &window);
  }
  steer_bed_set(bed, 4, small, 1);
}

static void random_rows(struct steer_draws *draws, struct steer_batch *batch) {
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    batch->row_map[r] = (int32_t)steer_draw_below(draws, SLOTS + 2) - 2;
    steer_batch_place(batch, r, r + 1, (int32_t)steer_draw_below(draws, 9), 5);
  }
}

static void sweep(struct steer_env *env, const stg_steer_desc *desc, uint32_t seed) {
  struct steer_draws draws = {.seed = seed};
  struct steer_bed *bed = steer_bed_create(env, desc);
  stg_slot_counters expected[SLOTS] = {{0}};
  set_slots(bed, seed);
  for (unsigned variant = 0; variant < 6; variant++) {
    const bool skewed = variant >= 4;
    struct steer_batch *batch = steer_batch_create(
        bed, &(struct steer_layout){.rows = 70,
                                    .row_stride = skewed ? desc->hidden_size + 3 : 0,
                                    .shift = skewed ? 1 : 0,
                                    .out_of_place = variant % 2 != 0});
    batch->longest = variant % 4 < 2 ? 1 : 9; /* both tiles */
    steer_batch_fill(batch, seed + variant, 1);
    random_rows(&draws, batch);
    steer_batch_expect_ok(batch);
    count_bytes(batch, expected);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
      expect_counters(batch, slot, expected[slot].rows_touched, expected[slot].rows_changed,
                      expected[slot].max_update);
    }
    steer_batch_destroy(batch);
  }
  assert_true(expected[0].rows_changed > 0 && expected[2].rows_touched > 0);
  assert_true(expected[2].rows_changed == 0 && expected[2].max_update == 0.0F);
  steer_bed_destroy(bed);
}

static void counts_are_those_of_comparing_bytes(void **state) {
  static const int64_t sizes[] = {1, 100, 512, 4097};
  for (uint32_t k = 0; k < 12; k++) {
    stg_steer_desc desc = desc_of();
    desc.hidden_size = sizes[k % 4];
    desc.dtype = k % 3 == 0 ? STG_BF16 : k % 3 == 1 ? STG_F16 : STG_F32;
    desc.windows = k % 2 == 0;
    desc.state = k >= 4 ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN;
    desc.epilogue = k >= 8 ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE;
    desc.epsilon = k >= 8 ? 1e-5F : 0;
    sweep(*state, &desc, 1000 + 10 * k);
  }
}

static void a_request_that_is_silently_not_steered_shows(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 11, 1), 8);
  const stg_window window = {.phase = STG_PHASE_GENERATION};
  steer_bed_set_window(bed, 0, &call, 1, &window);
  struct steer_batch *batch = steer_batch_of(bed, 8, 0);
  steer_batch_place(batch, 0, 8, 0, 8);
  steer_batch_expect_ok(batch);
  expect_counters(batch, 0, 0, 0, 0);
  steer_batch_place(batch, 0, 8, 6, 8);
  steer_batch_expect_ok(batch);
  assert_int_equal(6, counters_of(batch, 0).rows_touched);
  assert_int_equal(6, counters_of(batch, 0).rows_changed);
  assert_true(counters_of(batch, 0).max_update > 0.5F);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

/* NaN and infinity: the row changes by what its other elements do. */
static void updates_that_are_no_numbers_do_not_count(void **state) {
  struct steer_bed *bed = bed_of(state);
  float values[HIDDEN] = {4, 2, 1};
  const stg_op_call call = steer_add(steer_bed_vector(bed, values), 1);
  steer_bed_set(bed, 0, &call, 1);
  struct steer_batch *batch = steer_batch_of(bed, 2, 0);
  for (int64_t r = 0; r < 2; r++) {
    for (int64_t j = 0; j < HIDDEN; j++) {
      steer_batch_put(batch, batch->hidden, r, j, 0);
    }
  }
  steer_batch_put(batch, batch->hidden, 0, 0, NAN);
  steer_batch_put(batch, batch->hidden, 1, 0, INFINITY);
  steer_batch_expect_ok(batch);
  expect_counters(batch, 0, 2, 2, 2);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void layers_and_slots_count_for_themselves(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 11, 1), 8);
  const stg_chain chains[] = {{.layer = 0, .ops = &call, .n_ops = 1},
                              {.layer = 1, .ops = &call, .n_ops = 1}};
  steer_bed_set_layers(bed, 1, chains, 2);
  steer_bed_set_layers(bed, 2, &chains[1], 1);
  struct steer_batch *batch = steer_batch_of(bed, 5, 1);
  batch->row_map[4] = 2;
  steer_batch_run(batch);
  assert_int_equal(4, counters_of(batch, 1).rows_touched);
  assert_int_equal(0, counters_of(batch, 2).rows_touched);
  batch->layer = 1;
  assert_int_equal(0, counters_of(batch, 1).rows_touched);
  steer_batch_apply(batch); /* further on in the same step */
  steer_batch_apply(batch);
  assert_int_equal(8, counters_of(batch, 1).rows_touched);
  assert_int_equal(2, counters_of(batch, 2).rows_touched);
  assert_int_equal(0, counters_of(batch, 0).rows_touched);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void clearing_a_slot_begins_anew_and_setting_it_goes_on(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 11, 1), 8);
  struct steer_batch *batch = steer_batch_of(bed, 5, 3);
  batch->row_map[4] = 4;
  steer_bed_set(bed, 3, &call, 1);
  steer_bed_set(bed, 4, &call, 1);
  steer_batch_run(batch);
  steer_bed_set(bed, 3, &call, 1);
  steer_bed_params(bed, 3, 0, 0, (const float[]){2}, 1);
  steer_batch_run(batch);
  assert_int_equal(8, counters_of(batch, 3).rows_touched);
  steer_bed_clear(bed, 3);
  expect_counters(batch, 3, 0, 0, 0);
  steer_bed_set(bed, 3, &call, 1);
  expect_counters(batch, 3, 0, 0, 0);
  steer_batch_run(batch);
  assert_int_equal(4, counters_of(batch, 3).rows_touched);
  assert_int_equal(3, counters_of(batch, 4).rows_touched);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void one_shot_calls_are_not_counted(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 11, 1), 8);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  const int64_t length = 8;
  struct steer_batch *batch = steer_batch_of(bed, 8, STG_ROW_UNSTEERED);
  stg_error error = STG_ERROR_INIT;
  steer_batch_send(batch);
  const stg_once once = {.struct_size = sizeof once,
                         .apply = steer_batch_args(batch),
                         .rows = 8,
                         .n_requests = 1,
                         .lengths = &length,
                         .chains = &chain};
  expect_status(STG_OK, stg_steer_once(bed->steer, &once, batch->stream, &error), &error);
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    expect_counters(batch, slot, 0, 0, 0);
  }
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void counters_that_are_not_there_are_refused(void **state) {
  struct steer_bed *bed = bed_of(state);
  stg_steer_desc desc = desc_of();
  desc.counters = false;
  struct steer_bed *without = steer_bed_create(*state, &desc);
  stg_slot_counters counters = {.struct_size = sizeof counters, .rows_touched = 77};
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_NOT_DECLARED, "the table declares no counters",
               stg_steer_counters(without->steer, 0, 0, NULL, &counters, &error), &error);
  expect_error(STG_E_CAPACITY, "slot 6 is not below the declared 6",
               stg_steer_counters(bed->steer, SLOTS, 0, NULL, &counters, &error), &error);
  expect_error(STG_E_INVALID, "layer 2 is not below the declared 2",
               stg_steer_counters(bed->steer, 0, 2, NULL, &counters, &error), &error);
  assert_int_equal(77, counters.rows_touched);
  counters.struct_size = 1;
  expect_error(STG_E_INVALID, "struct_size is not",
               stg_steer_counters(bed->steer, 0, 0, NULL, &counters, &error), &error);
  steer_bed_destroy(without);
  steer_bed_destroy(bed);
}

int steer_counters_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_those_of_comparing_bytes),
      cmocka_unit_test(a_request_that_is_silently_not_steered_shows),
      cmocka_unit_test(updates_that_are_no_numbers_do_not_count),
      cmocka_unit_test(layers_and_slots_count_for_themselves),
      cmocka_unit_test(clearing_a_slot_begins_anew_and_setting_it_goes_on),
      cmocka_unit_test(one_shot_calls_are_not_counted),
      cmocka_unit_test(counters_that_are_not_there_are_refused),
  };
  return cmocka_run_group_tests_name("steer counters", tests, open, steer_env_close);
}

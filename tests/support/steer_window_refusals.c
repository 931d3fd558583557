/*
 * steer_window_refusals.c: windows and positions that are refused, and that nothing happens then.
 */
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"

static struct steer_bed *bed_of(void **state, bool windows) {
  const stg_steer_desc desc = {
      .hidden_size = 64, .dtype = STG_BF16, .max_slots = 8, .windows = windows};
  return steer_bed_create(*state, &desc);
}

static stg_window window_of(int64_t from, int64_t to) {
  return (stg_window){.from = from, .to = to, .has_from = true, .has_to = true};
}

static struct steer_batch *rows_of(struct steer_bed *bed) {
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = 4});
  steer_batch_fill(batch, 21, 1);
  steer_batch_map(batch, 0, 4, 0);
  return batch;
}

static void expect_window_refused(struct steer_bed *bed, stg_window window, stg_status status,
                                  const char *part) {
  const stg_op_call call = steer_add(steer_bed_direction(bed, 81, 1), 2);
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  stg_error error = STG_ERROR_INIT;
  if (window.struct_size == 0) {
    window.struct_size = sizeof window;
  }
  expect_error(status, part, stg_steer_slot_set_windowed(bed->steer, 3, &chain, 1, &window, &error),
               &error);
}

static void windows_that_cannot_be_are_refused(void **state) {
  struct steer_bed *bed = bed_of(state, true), *without = bed_of(state, false);
  expect_window_refused(without, (stg_window){.phase = STG_PHASE_PROMPT}, STG_E_NOT_DECLARED,
                        "slot 3: window: the table declares none");
  expect_window_refused(bed, (stg_window){.struct_size = 1}, STG_E_INVALID, "struct_size is 1");
  expect_window_refused(bed, (stg_window){.phase = (stg_phase)3}, STG_E_INVALID, "phase 3");
  expect_window_refused(bed, window_of(5, 5), STG_E_INVALID, "[5, 5) holds no position");
  expect_window_refused(bed, window_of(-2, -3), STG_E_INVALID, "[-2, -3) holds no position");
  expect_window_refused(bed, window_of(-4, 0), STG_E_INVALID, "[-4, 0) holds no position");
  expect_window_refused(bed, window_of(0, (int64_t)1 << 31), STG_E_INVALID, "to is 2147483648");
  expect_window_refused(bed, window_of(-((int64_t)1 << 31) - 1, 0), STG_E_INVALID,
                        "from is -2147483649");
  steer_bed_destroy(without);
  steer_bed_destroy(bed);
}

static void expect_step_refused(struct steer_batch *batch, const int32_t *positions,
                                const int32_t *prompt_lens, const char *part) {
  const stg_step step = {.struct_size = sizeof step,
                         .rows = batch->layout.rows,
                         .row_map = batch->row_map,
                         .positions = positions,
                         .prompt_lens = prompt_lens};
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_INVALID, part, stg_steer_step(batch->frame, &step, batch->stream, &error),
               &error);
}

static void steps_bring_positions_exactly_where_windows_are_declared(void **state) {
  struct steer_bed *bed = bed_of(state, true), *without = bed_of(state, false);
  struct steer_batch *batch = rows_of(bed), *other = rows_of(without);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 82, 1), 40);
  steer_bed_set_window(bed, 0, &call, 1, &(stg_window){.phase = STG_PHASE_PROMPT});
  steer_batch_place(batch, 0, 4, 0, 4);
  expect_step_refused(batch, NULL, batch->prompt_lens, "positions is NULL for 4 rows");
  expect_step_refused(batch, batch->positions, NULL, "prompt_lens is NULL for 4 rows");
  expect_step_refused(other, batch->positions, batch->prompt_lens, "declares no windows");
  batch->positions[2] = -1;
  expect_step_refused(batch, batch->positions, batch->prompt_lens, "positions[2]: -1 is not in");
  batch->positions[2] = INT32_MAX;
  expect_step_refused(batch, batch->positions, batch->prompt_lens, "positions[2]: 2147483647");
  batch->positions[2] = 2;
  batch->prompt_lens[1] = -5;
  expect_step_refused(batch, batch->positions, batch->prompt_lens, "prompt_lens[1]: -5");
  /* of a row that names no slot it does not matter */
  batch->row_map[1] = STG_ROW_UNSTEERED;
  batch->positions[1] = -7;
  steer_batch_expect_ok(batch);
  for (int64_t r = 0; r < 4; r++) {
    assert_int_equal(r == 1, steer_batch_unchanged(batch, r));
  }
  steer_batch_destroy(batch);
  steer_batch_destroy(other);
  steer_bed_destroy(without);
  steer_bed_destroy(bed);
}

int steer_window_refusal_cases(CMFixtureFunction open) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_that_cannot_be_are_refused),
      cmocka_unit_test(steps_bring_positions_exactly_where_windows_are_declared),
  };
  return cmocka_run_group_tests_name("steer window refusals", tests, open, steer_env_close);
}

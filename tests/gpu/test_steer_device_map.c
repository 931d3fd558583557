/*
 * test_steer_device_map.c: row maps that only the device has, and what the device reports.
 */
#include <math.h>

#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"

#define HIDDEN 512
#define ROWS 192
#define SLOTS 6

static struct steer_bed *bed_of(void **state) {
  const stg_steer_desc desc = {
      .hidden_size = HIDDEN, .dtype = STG_F16, .max_rows = ROWS, .max_slots = SLOTS};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  for (uint32_t slot = 0; slot + 1 < SLOTS; slot++) {
    const stg_vector v = steer_bed_direction(bed, 501 + slot, 1);
    const stg_op_call calls[] = {steer_add(v, 3), steer_keep_norm(v, (float)slot)};
    steer_bed_set(bed, slot, calls, 2);
  }
  return bed;
}

static struct steer_batch *batch_of(struct steer_bed *bed, int64_t rows) {
  struct steer_batch *batch =
      steer_batch_create(bed, &(struct steer_layout){.rows = rows, .spare_rows = ROWS - rows});
  steer_batch_fill(batch, 502, 1);
  for (int64_t r = 0; r < rows; r++) {
    batch->row_map[r] = (int32_t)(r / 3 % (SLOTS + 2)) - 2;
  }
  return batch;
}

/* Step with the batch's row map, from device memory. */
static stg_status step_on_device(struct steer_batch *batch, stg_error *reterr) {
  const size_t bytes = (size_t)batch->layout.rows * sizeof *batch->row_map;
  void *map = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_mem_alloc(batch->bed->engine, bytes, &map, &error), &error);
  check_ok(stg_mem_upload(batch->bed->engine, map, batch->row_map, bytes, &error), &error);
  const stg_step step = {.struct_size = sizeof step,
                         .rows = batch->layout.rows,
                         .row_map = map,
                         .on_device = true,
                         .longest = batch->longest};
  stg_status status = stg_steer_step(batch->frame, &step, batch->stream, reterr);
  check_ok(stg_stream_synchronize(stg_mem_device(batch->bed->engine), batch->stream, &error),
           &error);
  stg_mem_free(batch->bed->engine, map);
  return status;
}

/* The whole run, over a map on the device. */
static void run_on_device(struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  steer_batch_send(batch);
  check_ok(step_on_device(batch, &error), &error);
  steer_batch_note(batch);
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
}

static stg_device_report report_of(const struct steer_batch *batch) {
  stg_device_report report = {.struct_size = sizeof report};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_device_status(batch->bed->steer, batch->stream, &report, &error), &error);
  return report;
}

static void expect_nothing_reported(const struct steer_batch *batch) {
  const stg_device_report report = report_of(batch);
  assert_int_equal(0, report.bad_slot_rows);
  assert_int_equal(0, report.non_finite_rows);
}

static void a_map_on_the_device_steers_as_one_on_the_host(void **state) {
  struct steer_bed *bed = bed_of(state);
  static const int64_t sizes[] = {192, 144, 1, 150, 0, 192};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    struct steer_batch *batch = batch_of(bed, sizes[k]);
    for (batch->longest = 1; batch->longest <= 2; batch->longest++) {
      run_on_device(batch);
      steer_batch_check(batch);
    }
    expect_nothing_reported(batch);
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

/* Put slots outside of the table into some rows; returns how many. */
static uint32_t spoil(struct steer_batch *batch) {
  static const int32_t bad[] = {SLOTS, -3, INT32_MAX, INT32_MIN, SLOTS + 1000};
  for (uint32_t k = 0; k < 5; k++) {
    batch->row_map[7 + 31 * k] = bad[k];
  }
  return 5;
}

/* After a fetch: as the device must have taken them, for the oracle. */
static void pardon(struct steer_batch *batch) {
  for (uint32_t k = 0; k < 5; k++) {
    batch->row_map[7 + 31 * k] = STG_ROW_UNSTEERED;
  }
}

static void a_bad_slot_is_reported_once_and_its_row_is_not_steered(void **state) {
  struct steer_bed *bed = bed_of(state);
  for (uint32_t longest = 1; longest <= 2; longest++) {
    struct steer_batch *batch = batch_of(bed, ROWS);
    batch->longest = longest;
    const uint32_t spoilt = spoil(batch);
    run_on_device(batch);
    pardon(batch);
    steer_batch_check(batch);
    const stg_device_report report = report_of(batch);
    assert_int_equal(spoilt, report.bad_slot_rows);
    assert_true(report.bad_slot < -2 || report.bad_slot >= SLOTS);
    expect_nothing_reported(batch);
    run_on_device(batch);
    steer_batch_check(batch);
    expect_nothing_reported(batch);
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static void the_next_step_reports_a_bad_slot_too(void **state) {
  struct steer_bed *bed = bed_of(state);
  struct steer_batch *batch = batch_of(bed, ROWS);
  stg_error error = STG_ERROR_INIT;
  spoil(batch);
  run_on_device(batch);
  pardon(batch);
  steer_batch_check(batch);
  expect_error(STG_E_BAD_SLOT, "in one of 5 rows; the table has slots 0..5",
               step_on_device(batch, &error), &error);
  run_on_device(batch);
  steer_batch_check(batch);
  expect_nothing_reported(batch);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
}

static void rows_whose_coefficients_are_not_finite_are_counted(void **state) {
  struct steer_bed *bed = bed_of(state);
  const stg_op_call cut = steer_ablate(steer_bed_direction(bed, 520, 1), 0);
  const stg_op_call add = steer_add(steer_bed_direction(bed, 521, 1), 1);
  steer_bed_set(bed, 0, &cut, 1);
  steer_bed_set(bed, 1, &add, 1);
  for (uint32_t longest = 1; longest <= 2; longest++) {
    struct steer_batch *batch = batch_of(bed, 40);
    batch->longest = longest;
    steer_batch_map(batch, 0, 40, 0);
    steer_batch_map(batch, 30, 40, 1);
    for (int64_t r = 2; r < 40; r += 9) {
      /* rows 2, 11, 20, 29 take a dot of it; row 38 only adds */
      steer_batch_put(batch, batch->hidden, r, 100, r % 2 == 0 ? NAN : INFINITY);
    }
    run_on_device(batch);
    steer_batch_check(batch);
    assert_int_equal(4, report_of(batch).non_finite_rows);
    expect_nothing_reported(batch);
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_map_on_the_device_steers_as_one_on_the_host),
      cmocka_unit_test(a_bad_slot_is_reported_once_and_its_row_is_not_steered),
      cmocka_unit_test(the_next_step_reports_a_bad_slot_too),
      cmocka_unit_test(rows_whose_coefficients_are_not_finite_are_counted),
  };
  return cmocka_run_group_tests_name("steer device map", tests, steer_env_cuda, steer_env_close);
}

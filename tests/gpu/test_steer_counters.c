/*
 * test_steer_counters.c: what is counted of each slot's rows, on CUDA: the cases in support/, and
 * the rows of replays.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"

#define ROWS 48

static stg_slot_counters counters_of(const struct steer_batch *batch, uint32_t slot) {
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_steer_counters(batch->bed->steer, slot, 0, batch->stream, &counters, &error),
           &error);
  return counters;
}

static void replays_are_counted(void **state) {
  const stg_steer_desc desc = {
      .hidden_size = 1024, .dtype = STG_BF16, .max_rows = ROWS, .max_slots = 2, .counters = true};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  struct stg_device *device = stg_mem_device(bed->engine);
  const stg_op_call call = steer_add(steer_bed_direction(bed, 901, 1), 50);
  struct stg_graph *graph = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  struct steer_batch *batch = steer_batch_create(bed, &(struct steer_layout){.rows = ROWS});
  check_ok(stg_stream_create(device, &batch->stream, &error), &error);
  steer_batch_fill(batch, 902, 1);
  steer_bed_set(bed, 0, &call, 1);
  steer_batch_map(batch, 0, 30, 0);
  steer_batch_map(batch, 30, ROWS, 1); /* nothing is set */
  steer_batch_step(batch);
  check_ok(stg_capture_begin(device, batch->stream, &error), &error);
  steer_batch_apply(batch);
  stg_slot_counters refused = {.struct_size = sizeof refused};
  stg_status status = stg_steer_counters(bed->steer, 0, 0, batch->stream, &refused, &error);
  expect_error(STG_E_CAPTURING, "the stream is capturing", status, &error);
  check_ok(stg_capture_end(device, batch->stream, &graph, &nodes, &error), &error);
  assert_int_equal(1, nodes);
  steer_batch_send(batch);
  for (uint64_t k = 1; k <= 4; k++) {
    steer_batch_step(batch);
    check_ok(stg_graph_launch(device, graph, batch->stream, &error), &error);
    assert_int_equal(30 * k, counters_of(batch, 0).rows_touched);
    assert_int_equal(30 * k, counters_of(batch, 0).rows_changed);
    assert_int_equal(0, counters_of(batch, 1).rows_touched);
  }
  stg_stream stream = batch->stream;
  stg_graph_destroy(device, graph);
  steer_batch_destroy(batch);
  steer_bed_destroy(bed);
  stg_stream_destroy(device, stream);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replays_are_counted),
  };
  return steer_counters_cases(steer_env_cuda) +
         cmocka_run_group_tests_name("steer counters on the device", tests, steer_env_cuda,
                                     steer_env_close);
}

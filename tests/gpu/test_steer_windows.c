/*
 * test_steer_windows.c: slots that act in a phase or at some positions alone, on CUDA: the cases in
 * support/, positions that only the device has, and captures whose replays bring new positions.
 */
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"
#include "tests/support/steer_cases.h"

#define HIDDEN 512
#define ROWS 192
#define SLOTS 4

static struct steer_bed *bed_of(void **state) {
  static const stg_window windows[SLOTS - 1] = {
      {.phase = STG_PHASE_PROMPT},
      {.from = -6, .has_from = true, .to = 40, .has_to = true},
      {.phase = STG_PHASE_GENERATION, .to = 45, .has_to = true},
  };
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .dtype = STG_BF16,
                               .max_rows = ROWS,
                               .max_slots = SLOTS,
                               .windows = true};
  struct steer_bed *bed = steer_bed_create(*state, &desc);
  for (uint32_t slot = 0; slot + 1 < SLOTS; slot++) {
    const stg_vector v = steer_bed_direction(bed, 601 + slot, 1);
    const stg_op_call calls[] = {steer_add(v, 30), steer_keep_norm(v, 2)};
    steer_bed_set_window(bed, slot, calls, 1 + slot % 2, &windows[slot]);
  }
  return bed;
}

/* Sequences of nine rows around the end of their prompts, further on each time. */
static void place(struct steer_batch *batch, int32_t progress) {
  const int64_t rows = batch->layout.rows;
  for (int64_t r = 0; r < rows; r += 9) {
    const int64_t end = r + 9 < rows ? r + 9 : rows;
    steer_batch_map(batch, r, end, (int32_t)(r / 9 + progress) % (SLOTS + 2) - 2);
    steer_batch_place(batch, r, end, 20 + (int32_t)(r % 17) + progress, 30 + (int32_t)(r % 5));
  }
}

static struct steer_batch *batch_of(struct steer_bed *bed, int64_t rows) {
  struct steer_batch *batch =
      steer_batch_create(bed, &(struct steer_layout){.rows = rows, .spare_rows = ROWS - rows});
  steer_batch_fill(batch, 602, 1);
  place(batch, 0);
  return batch;
}

static void *on_device(const struct steer_batch *batch, const int32_t *list) {
  const size_t bytes = (size_t)batch->layout.rows * sizeof *list;
  void *memory = NULL;
  stg_error error = STG_ERROR_INIT;
  check_ok(stg_mem_alloc(batch->bed->engine, bytes, &memory, &error), &error);
  check_ok(stg_mem_upload(batch->bed->engine, memory, list, bytes, &error), &error);
  return memory;
}

/* The whole run, with map, positions and prompt lengths in device memory. */
static void run_on_device(struct steer_batch *batch) {
  stg_error error = STG_ERROR_INIT;
  void *map = on_device(batch, batch->row_map);
  void *positions = on_device(batch, batch->positions);
  void *prompt_lens = on_device(batch, batch->prompt_lens);
  const stg_step step = {.struct_size = sizeof step,
                         .rows = batch->layout.rows,
                         .row_map = map,
                         .on_device = true,
                         .longest = batch->longest,
                         .positions = positions,
                         .prompt_lens = prompt_lens};
  steer_batch_send(batch);
  check_ok(stg_steer_step(batch->frame, &step, batch->stream, &error), &error);
  steer_batch_note(batch);
  steer_batch_apply(batch);
  steer_batch_fetch(batch);
  stg_mem_free(batch->bed->engine, map);
  stg_mem_free(batch->bed->engine, positions);
  stg_mem_free(batch->bed->engine, prompt_lens);
}

static void expect_steered_rows(const struct steer_batch *batch) {
  for (int64_t r = 0; r < batch->layout.rows; r++) {
    assert_int_equal(steer_batch_is_steered(batch, r), !steer_batch_unchanged(batch, r));
  }
}

/* On one frame in turn, with more rows and fewer: pairs and lists must not be taken for another. */
static void positions_on_the_device_are_as_those_of_the_host(void **state) {
  static const int64_t sizes[] = {192, 144, 1, 150, 0, 191, 192};
  struct steer_bed *bed = bed_of(state);
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    struct steer_batch *batch = batch_of(bed, sizes[k]);
    for (batch->longest = 1; batch->longest <= 2; batch->longest++) {
      place(batch, (int32_t)k);
      run_on_device(batch);
      steer_batch_check(batch);
      expect_steered_rows(batch);
      place(batch, (int32_t)k + 3);
      steer_batch_expect_ok(batch);
      expect_steered_rows(batch);
    }
    steer_batch_destroy(batch);
  }
  steer_bed_destroy(bed);
}

static void replays_follow_the_positions_of_later_steps(void **state) {
  struct steer_bed *bed = bed_of(state);
  struct stg_device *device = stg_mem_device(bed->engine);
  struct stg_graph *graph = NULL;
  size_t nodes = 0;
  stg_error error = STG_ERROR_INIT;
  struct steer_batch *batch = batch_of(bed, ROWS);
  check_ok(stg_stream_create(device, &batch->stream, &error), &error);
  steer_batch_step(batch);
  check_ok(stg_capture_begin(device, batch->stream, &error), &error);
  steer_batch_apply(batch);
  check_ok(stg_capture_end(device, batch->stream, &graph, &nodes, &error), &error);
  assert_int_equal(1, nodes);
  for (int32_t progress = 0; progress < 40; progress++) {
    batch->layout.rows = progress % 4 == 3 ? 100 : ROWS;
    batch->layout.spare_rows = ROWS - batch->layout.rows;
    place(batch, progress);
    steer_batch_send(batch);
    steer_batch_step(batch);
    check_ok(stg_graph_launch(device, graph, batch->stream, &error), &error);
    steer_batch_fetch(batch);
    steer_batch_check(batch);
    expect_steered_rows(batch);
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
      cmocka_unit_test(positions_on_the_device_are_as_those_of_the_host),
      cmocka_unit_test(replays_follow_the_positions_of_later_steps),
  };
  const int failed =
      steer_windows_cases(steer_env_cuda) + steer_window_refusal_cases(steer_env_cuda);
  return failed + cmocka_run_group_tests_name("steer windows on the device", tests, steer_env_cuda,
                                              steer_env_close);
}

/*
 * test_steer_window_maps.c: windows, positions and prompt lengths as they lie in device memory, on
 * a device of the host: behind maps of the host and of the device, in steps that follow each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "runtime/device.h"
#include "tests/support/host_device.h"

#define HIDDEN 8
#define ROWS 48
#define SLOTS 3
#define LAYERS 2

/* Slot s adds 1 to every element, in a window of its own. */
struct bed {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frame;
  stg_stream stream;
  stg_vector vector;
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

static void set_slots(struct bed *bed) {
  const stg_window windows[SLOTS] = {
      {.struct_size = sizeof(stg_window), .phase = STG_PHASE_PROMPT},
      {.struct_size = sizeof(stg_window), .from = -2, .has_from = true, .to = 12, .has_to = true},
      {.struct_size = sizeof(stg_window), .phase = STG_PHASE_GENERATION}};
  const stg_op_call call = {
      .op = "add", .vectors = {bed->vector}, .params = {1}, .params_given = 1};
  const stg_chain chain = {.layer = 1, .ops = &call, .n_ops = 1};
  stg_error error = STG_ERROR_INIT;
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    ok(stg_steer_slot_set_windowed(bed->steer, slot, &chain, 1, &windows[slot], &error), &error);
  }
}

static void open_bed(struct bed *bed) {
  static const char *const ops[] = {"add"};
  static const float ones[HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.launch = STG_LAUNCH_PLAIN;
  options.cache_mode = STG_CACHE_OFF;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .layers = LAYERS,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .max_slots = SLOTS,
                               .ops = ops,
                               .n_ops = 1,
                               .windows = true};
  *bed = (struct bed){0};
  host_device_windows(true);
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  ok(stg_steer_create(bed->engine, &desc, &bed->steer, &error), &error);
  ok(stg_frame_create(bed->steer, &bed->frame, &error), &error);
  ok(stg_stream_create(stg_mem_device(bed->engine), &bed->stream, &error), &error);
  ok(stg_vector_intern(bed->engine, STG_F32, ones, HIDDEN, &bed->vector, &error), &error);
  set_slots(bed);
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  stg_frame_destroy(bed->frame);
  stg_stream_destroy(stg_mem_device(bed->engine), bed->stream);
  ok(stg_steer_destroy(bed->steer, &error), &error);
  ok(stg_vector_release(bed->engine, bed->vector, &error), &error);
  ok(stg_engine_destroy(bed->engine, &error), &error);
  host_device_windows(false);
}

/* Rows of a step, and which of them are steered, by the words of the windows above. */
struct pass {
  int64_t rows;
  int32_t map[ROWS], positions[ROWS], prompt_lens[ROWS];
  float hidden[ROWS][HIDDEN];
  bool steered[ROWS];
};

static void fill(struct pass *pass, int64_t rows, int32_t turn) {
  *pass = (struct pass){.rows = rows};
  for (int32_t r = 0; r < rows; r++) {
    const int32_t slot = (r + turn) % (SLOTS + 1) - 1;
    const int32_t position = (r * 5 + turn) % 16, prompt = (r + 3 * turn) % 13;
    pass->map[r] = slot;
    pass->positions[r] = position;
    pass->prompt_lens[r] = prompt;
    pass->steered[r] = slot == 0   ? position < prompt
                       : slot == 1 ? position >= prompt - 2 && position < 12
                       : slot == 2 ? position >= prompt
                                   : false;
  }
}

static void run(struct bed *bed, struct pass *pass, bool on_device) {
  const stg_step step = {.struct_size = sizeof step,
                         .rows = pass->rows,
                         .row_map = pass->map,
                         .on_device = on_device,
                         .positions = pass->positions,
                         .prompt_lens = pass->prompt_lens};
  const stg_apply apply = {.struct_size = sizeof apply, .layer = 1, .hidden = pass->hidden};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(bed->frame, &step, bed->stream, &error), &error);
  ok(stg_steer_apply(bed->frame, &apply, bed->stream, &error), &error);
  ok(stg_stream_synchronize(stg_mem_device(bed->engine), bed->stream, &error), &error);
  for (int64_t k = 0; k < pass->rows * HIDDEN; k++) {
    const int64_t r = k / HIDDEN, j = k % HIDDEN;
    if ((pass->hidden[r][j] != 0) != pass->steered[r]) {
      fail_msg("row %lld, element %lld: %g", (long long)r, (long long)j,
               (double)pass->hidden[r][j]);
    }
  }
}

static void every_kind_of_map_brings_its_own_positions(void **state) {
  static const int64_t sizes[] = {48, 31, 1, 0, 40, 48};
  (void)state;
  struct bed bed;
  struct pass pass;
  open_bed(&bed);
  for (int32_t turn = 0; turn < 24; turn++) {
    /* positions as pairs behind a map of the host, as lists behind one of the device */
    fill(&pass, sizes[turn % 6], turn);
    run(&bed, &pass, turn % 3 == 1);
  }
  close_bed(&bed);
}

/* Map, positions and prompt lengths of a step go out together. */
static void a_step_with_positions_is_one_copy(void **state) {
  (void)state;
  struct bed bed;
  struct pass pass;
  open_bed(&bed);
  fill(&pass, ROWS, 0);
  run(&bed, &pass, false); /* sends the slots, too */
  host_device_reset_calls();
  fill(&pass, ROWS, 1);
  run(&bed, &pass, false);
  assert_int_equal(1, host_device_calls().copies);
  assert_int_equal((4 + 3 * ROWS) * sizeof(int32_t), host_device_calls().copied_bytes);
  close_bed(&bed);
}

/* A window is a part of its record: setting it calls no driver, and it goes out with the record. */
static void windows_go_out_with_the_records_that_have_them(void **state) {
  (void)state;
  struct bed bed;
  struct pass pass;
  open_bed(&bed);
  fill(&pass, ROWS, 0);
  run(&bed, &pass, false);
  host_device_reset_calls();
  set_slots(&bed);
  assert_int_equal(0, host_device_calls().copies);
  fill(&pass, ROWS, 1);
  run(&bed, &pass, false);
  assert_int_equal(2, host_device_calls().copies); /* all records, and the map */
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_map_brings_its_own_positions),
      cmocka_unit_test(a_step_with_positions_is_one_copy),
      cmocka_unit_test(windows_go_out_with_the_records_that_have_them),
  };
  return cmocka_run_group_tests_name("steer window maps", tests, NULL, NULL);
}

/*
 * test_steer_pins.c: destroying frames, tables and engines while graphs that a host captured with
 * them are alive. On a device of the host, which replays what was captured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/pins.h"
#include "tests/support/tier_bed.h"

#define GRAPHS_BUSY "host graphs that were captured with this table are alive; destroy them first"

static void open_blocking(struct bed *bed) {
  open_bed(bed, STG_COMPILE_BLOCK, 0, 0);
}

/* Slot 0 adds 1 to each element of its rows. */
static stg_frame *open_stepped(const struct bed *bed, stg_steer *steer) {
  stg_frame *frame = open_frame(steer);
  set_slot(bed, steer, "add");
  step(frame);
  return frame;
}

static stg_status try_apply(struct bed *bed, stg_frame *frame, stg_error *reterr) {
  const stg_apply args = {.struct_size = sizeof args, .hidden = bed->hidden};
  return stg_steer_apply(frame, &args, NULL, reterr);
}

/* A graph of `applies` applies. */
static uint64_t capture(struct bed *bed, stg_frame *frame, int applies) {
  stg_error error = STG_ERROR_INIT;
  const uint64_t graph = host_device_begin_capture();
  for (int i = 0; i < applies; i++) {
    ok(try_apply(bed, frame, &error), &error);
  }
  host_device_end_capture();
  return graph;
}

/* Every element must then be `more` above what it was. */
static void expect_replay(struct bed *bed, uint64_t graph, float more) {
  stg_error error = STG_ERROR_INIT;
  const float wanted = bed->hidden[0][0] + more;
  assert_true(host_device_replay(graph, NULL) > 0);
  ok(stg_stream_synchronize(stg_mem_device(bed->engine), NULL, &error), &error);
  for (int r = 0; r < ROWS; r++) {
    for (int j = 0; j < HIDDEN; j++) {
      assert_memory_equal(&wanted, &bed->hidden[r][j], sizeof wanted);
    }
  }
}

static void set_scale(const struct bed *bed, stg_steer *steer, float scale) {
  stg_error error = STG_ERROR_INIT;
  const stg_op_call call = {
      .op = "add", .vectors = {bed->ones}, .params = {scale}, .params_given = 1};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  ok(stg_steer_slot_set(steer, 0, &chain, 1, &error), &error);
}

static void a_replay_after_the_frame_is_destroyed_is_right(void **state) {
  (void)state;
  struct bed bed;
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_stepped(&bed, steer);
  const stg_stats before = stats_of(&bed);
  const uint64_t graph = capture(&bed, frame, 1);
  expect_replay(&bed, graph, 1);
  stg_frame_destroy(frame);
  assert_int_equal(before.frame_bytes, stats_of(&bed).frame_bytes);
  assert_true(stats_of(&bed).pinned_bytes < before.pinned_bytes);
  expect_replay(&bed, graph, 1);
  /* what its map names is not overwritten by what comes later, sent with steps of another */
  stg_frame *other = open_frame(steer);
  for (int i = 2; i < 200; i++) {
    set_scale(&bed, steer, (float)i);
    step(other);
  }
  expect_replay(&bed, graph, 1);
  assert_int_equal(2 * before.frame_bytes, stats_of(&bed).frame_bytes);
  host_device_drop_graph(graph);
  stg_frame_destroy(other);
  assert_int_equal(0, stats_of(&bed).frame_bytes);
  close_table(steer);
  assert_int_equal(0, stats_of(&bed).pinned_bytes);
  close_bed(&bed);
}

static void a_table_and_its_engine_are_busy_while_graphs_live(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frames[2] = {open_stepped(&bed, steer), open_stepped(&bed, steer)};
  const uint64_t first = host_device_begin_capture();
  ok(try_apply(&bed, frames[0], &error), &error);
  ok(try_apply(&bed, frames[1], &error), &error);
  host_device_end_capture();
  const uint64_t second = capture(&bed, frames[0], 1);
  assert_int_equal(2, stats_of(&bed).host_graphs_live);
  expect(STG_E_BUSY, "a frame of the table is alive", stg_steer_destroy(steer, &error), &error);
  stg_frame_destroy(frames[0]);
  stg_frame_destroy(frames[1]);
  expect(STG_E_BUSY, "stg_steer_destroy: 2 " GRAPHS_BUSY, stg_steer_destroy(steer, &error), &error);
  expect(STG_E_BUSY, "1 steer tables are alive", stg_engine_destroy(bed.engine, &error), &error);
  expect_replay(&bed, first, 2); /* refusing took nothing away */
  assert_int_equal(2, host_device_drop_graph(first));
  assert_int_equal(1, stats_of(&bed).host_graphs_live);
  expect(STG_E_BUSY, "stg_steer_destroy: 1 " GRAPHS_BUSY, stg_steer_destroy(steer, &error), &error);
  expect_replay(&bed, second, 1);
  assert_int_equal(1, host_device_drop_graph(second));
  assert_int_equal(0, stats_of(&bed).host_graphs_live);
  close_table(steer);
  close_bed(&bed);
}

static void stats_count_the_graphs_of_all_tables(void **state) {
  (void)state;
  struct bed bed;
  open_blocking(&bed);
  stg_steer *steers[3];
  stg_frame *frames[3];
  uint64_t graphs[3];
  for (int i = 0; i < 3; i++) {
    steers[i] = open_table(&bed, NULL, 0);
    frames[i] = open_stepped(&bed, steers[i]);
    graphs[i] = capture(&bed, frames[i], 2); /* two layers are one graph */
    assert_int_equal(i + 1, stats_of(&bed).host_graphs_live);
  }
  for (int i = 0; i < 3; i++) {
    const int k = (i + 1) % 3; /* the one in the middle of the list first */
    stg_frame_destroy(frames[k]);
    assert_int_equal(3 - i, stats_of(&bed).host_graphs_live); /* a frame's end changes nothing */
    host_device_drop_graph(graphs[k]);
    close_table(steers[k]);
    assert_int_equal(2 - i, stats_of(&bed).host_graphs_live);
  }
  close_bed(&bed);
}

static void all_applies_of_a_capture_share_a_pin(void **state) {
  (void)state;
  struct bed bed;
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_stepped(&bed, steer);
  const uint64_t graph = capture(&bed, frame, 80);
  expect_replay(&bed, graph, 80);
  assert_int_equal(1, host_device_drop_graph(graph));
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

/* Nothing may be allocated in a capture, so pins are made by steps; the capture goes on. */
static void a_capture_without_a_spare_pin_is_refused_and_stays_valid(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  uint64_t graphs[STG_SPARE_PINS];
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_stepped(&bed, steer);
  for (int i = 0; i < STG_SPARE_PINS; i++) {
    graphs[i] = capture(&bed, frame, 1);
  }
  const uint64_t refused = host_device_begin_capture();
  expect(STG_E_NOT_WARM, "step a frame of the table before capturing more graphs",
         try_apply(&bed, frame, &error), &error);
  host_device_end_capture();
  assert_int_equal(0, host_device_replay(refused, NULL));
  step(frame);
  const uint64_t taken = capture(&bed, frame, 2);
  expect_replay(&bed, taken, 2);
  expect_replay(&bed, graphs[0], 1);
  for (int i = 0; i < STG_SPARE_PINS; i++) {
    assert_int_equal(1, host_device_drop_graph(graphs[i]));
  }
  assert_int_equal(1, host_device_drop_graph(taken));
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void step_rows(stg_frame *frame, int64_t rows) {
  static const int32_t map[ROWS];
  const stg_step args = {.struct_size = sizeof args, .rows = rows, .row_map = map, .longest = 1};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(frame, &args, NULL, &error), &error);
}

/* One plan and one graph are kept: those of the capture's shape go at once. */
static void eviction_takes_nothing_from_a_graph(void **state) {
  (void)state;
  struct bed bed;
  stg_options options;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.compile = STG_COMPILE_BLOCK;
  options.max_plans = 1;
  open_bed_with(&bed, &options);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_stepped(&bed, steer);
  const uint64_t graph = capture(&bed, frame, 1);
  for (int i = 0; i < 12; i++) {
    step_rows(frame, 1 + i % 3);
  }
  assert_true(stats_of(&bed).plan_evictions >= 2);
  step(frame);
  expect_replay(&bed, graph, 1);
  stg_frame_destroy(frame);
  frame = open_frame(steer);
  for (int i = 0; i < 12; i++) {
    step_rows(frame, 1 + i % 3);
  }
  step_rows(frame, 1);
  assert_int_equal(1, stats_of(&bed).plans_live); /* the retired frame has none */
  assert_int_equal(1, stats_of(&bed).graphs_live);
  expect_replay(&bed, graph, 1);
  host_device_drop_graph(graph);
  stg_frame_destroy(frame);
  close_table(steer);
  assert_int_equal(0, stats_of(&bed).plans_live);
  close_bed(&bed);
}

/* The pool has room for three records: of a retired frame, of a frame, of the slot. */
static void a_full_pool_takes_back_what_retired_frames_name(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  open_blocking(&bed);
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .max_slots = 1};
  ok(stg_steer_create(bed.engine, &desc, &steer, &error), &error);
  stg_frame *frame = open_stepped(&bed, steer);
  const uint64_t graph = capture(&bed, frame, 1);
  stg_frame_destroy(frame);
  set_scale(&bed, steer, 2);
  stg_frame *other = open_frame(steer);
  step(other);
  set_scale(&bed, steer, 3);
  assert_int_equal(STG_E_CAPACITY, try_slot(&bed, steer, "add", &error));
  expect_replay(&bed, graph, 1);
  host_device_drop_graph(graph);
  set_scale(&bed, steer, 4);
  stg_frame_destroy(other);
  close_table(steer);
  close_bed(&bed);
}

static void a_new_frame_frees_what_no_graph_uses(void **state) {
  (void)state;
  struct bed bed;
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_stepped(&bed, steer);
  const uint64_t bytes = stats_of(&bed).frame_bytes;
  const uint64_t graph = capture(&bed, frame, 1);
  stg_frame_destroy(frame);
  host_device_drop_graph(graph);
  assert_int_equal(bytes, stats_of(&bed).frame_bytes);
  frame = open_frame(steer);
  assert_int_equal(bytes, stats_of(&bed).frame_bytes);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void what_the_graph_refuses_adds_no_node(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_stepped(&bed, steer);
  host_device_refuse_pins(true);
  const uint64_t graph = host_device_begin_capture();
  expect(STG_E_CUDA, "cuGraphRetainUserObject failed", try_apply(&bed, frame, &error), &error);
  host_device_refuse_pins(false);
  ok(try_apply(&bed, frame, &error), &error); /* the frame did not take it for done */
  host_device_end_capture();
  expect_replay(&bed, graph, 1);
  assert_int_equal(1, host_device_drop_graph(graph));
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void a_broken_capture_holds_nothing(void **state) {
  (void)state;
  struct bed bed;
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_stepped(&bed, steer);
  host_device_break_captures(true);
  const uint64_t graph = capture(&bed, frame, 1); /* the driver would refuse the launch */
  host_device_break_captures(false);
  assert_int_equal(0, host_device_drop_graph(graph));
  stg_frame_destroy(frame);
  assert_int_equal(0, stats_of(&bed).frame_bytes);
  close_table(steer);
  close_bed(&bed);
}

/* Its flags may never fall: nothing waits for them, and nothing is kept. */
static void a_lost_device_is_closed_in_spite_of_graphs(void **state) {
  (void)state;
  struct bed bed;
  open_blocking(&bed);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frames[2] = {open_stepped(&bed, steer), open_stepped(&bed, steer)};
  capture(&bed, frames[0], 1);
  capture(&bed, frames[1], 1);
  stg_frame_destroy(frames[0]); /* retired before, and after */
  host_device_lose(true);
  stg_frame_destroy(frames[1]);
  close_table(steer);
  assert_int_equal(0, stats_of(&bed).frame_bytes);
  host_device_lose(false);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_replay_after_the_frame_is_destroyed_is_right),
      cmocka_unit_test(a_table_and_its_engine_are_busy_while_graphs_live),
      cmocka_unit_test(stats_count_the_graphs_of_all_tables),
      cmocka_unit_test(all_applies_of_a_capture_share_a_pin),
      cmocka_unit_test(a_capture_without_a_spare_pin_is_refused_and_stays_valid),
      cmocka_unit_test(eviction_takes_nothing_from_a_graph),
      cmocka_unit_test(a_full_pool_takes_back_what_retired_frames_name),
      cmocka_unit_test(a_new_frame_frees_what_no_graph_uses),
      cmocka_unit_test(what_the_graph_refuses_adds_no_node),
      cmocka_unit_test(a_broken_capture_holds_nothing),
      cmocka_unit_test(a_lost_device_is_closed_in_spite_of_graphs),
  };
  return cmocka_run_group_tests_name("steer pins", tests, NULL, NULL);
}

/*
 * test_steer_pins.c: frames, tables and engines that are destroyed before the graphs that a host
 * captured with them. Drivers say late that a graph is gone, so what waits for it has a deadline.
 */
#include <dlfcn.h>

#include "engine/pins.h"
#include "tests/gpu/pins_bed.h"

#define ONE_GRAPH                                                                                  \
  "stg_steer_destroy: 1 host graphs that were captured with this table are alive; destroy them "   \
  "first"

static void a_replay_after_the_frame_is_destroyed_is_right(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(state, &f);
  struct host_graph graph = captured(&f);
  expect_replay_ok(&f, &graph);
  const uint64_t bytes = steer_engine_stats(f.engine).frame_bytes;
  stg_frame_destroy(f.frame);
  f.frame = f.batch->frame = NULL;
  assert_int_equal(bytes, steer_engine_stats(f.engine).frame_bytes);
  expect_replay_ok(&f, &graph);
  /* other records, in all the room that is left, sent by steps of another frame */
  const int32_t map[SLOTS] = {0, 1, 2, 3, 4, 5, 6, 7};
  const stg_step step = {.struct_size = sizeof step, .rows = SLOTS, .row_map = map};
  for (int k = 0; k < 20; k++) {
    set_slots(f.bed, (float)k);
    check_ok(stg_steer_step(f.bed->frame, &step, f.stream, &error), &error);
    expect_replay_ok(&f, &graph);
  }
  destroy_graph(&f, &graph);
  /* new frames look whether it can go */
  uint64_t now = bytes;
  for (int ms = 0; ms < DEADLINE_MS && now >= bytes; ms += 10) {
    nap(10);
    stg_frame *other = NULL;
    check_ok(stg_frame_create(f.bed->steer, &other, &error), &error);
    stg_frame_destroy(other);
    now = steer_engine_stats(f.engine).frame_bytes;
  }
  assert_int_equal(bytes / 2, now);
  close_fixture(&f);
}

static void a_table_and_its_engine_are_busy_while_a_graph_lives(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(state, &f);
  assert_int_equal(0, steer_engine_stats(f.engine).host_graphs_live);
  struct host_graph graph = captured(&f);
  assert_int_equal(1, steer_engine_stats(f.engine).host_graphs_live);
  expect_busy(&f, "a frame of the table is alive");
  destroy_frames(&f);
  expect_busy(&f, ONE_GRAPH);
  expect_error(STG_E_BUSY, "1 steer tables are alive", stg_engine_destroy(f.engine, &error),
               &error);
  expect_replay_ok(&f, &graph);
  destroy_graph(&f, &graph);
  uint64_t live = 1;
  for (int ms = 0; ms < DEADLINE_MS && live > 0; ms += 10) { /* CUDA says it late */
    nap(10);
    live = steer_engine_stats(f.engine).host_graphs_live;
  }
  assert_int_equal(0, live);
  close_fixture(&f);
}

static void an_exec_holds_what_its_destroyed_graph_held(void **state) {
  struct fixture f;
  open_fixture(state, &f);
  struct host_graph graph = captured(&f);
  cuda(&f, f.driver->graph_destroy(graph.graph), "cuGraphDestroy");
  graph.graph = NULL;
  destroy_frames(&f);
  nap(300);
  expect_busy(&f, ONE_GRAPH);
  expect_replay_ok(&f, &graph);
  destroy_graph(&f, &graph);
  close_fixture(&f);
}

static void a_graph_holds_without_an_exec(void **state) {
  struct fixture f;
  open_fixture(state, &f);
  struct host_graph graph = captured(&f);
  cuda(&f, f.driver->graph_exec_destroy(graph.exec), "cuGraphExecDestroy");
  destroy_frames(&f);
  nap(300);
  expect_busy(&f, ONE_GRAPH);
  graph.exec = instantiate(&f, graph.graph); /* still good for another */
  expect_replay_ok(&f, &graph);
  destroy_graph(&f, &graph);
  close_fixture(&f);
}

static void a_copy_of_a_graph_holds_too(void **state) {
  struct fixture f;
  open_fixture(state, &f);
  CUresult(CUDAAPI * clone)(CUgraph * ret_copy, CUgraph graph) = NULL;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  void *address = dlsym(library, "cuGraphClone");
  assert_non_null(address);
  memcpy(&clone, &address, sizeof clone);
  struct host_graph graph = captured(&f), copy = {NULL, NULL};
  cuda(&f, clone(&copy.graph, graph.graph), "cuGraphClone");
  destroy_graph(&f, &graph);
  destroy_frames(&f);
  nap(300);
  expect_busy(&f, ONE_GRAPH);
  copy.exec = instantiate(&f, copy.graph);
  expect_replay_ok(&f, &copy);
  destroy_graph(&f, &copy);
  dlclose(library);
  close_fixture(&f);
}

static void several_graphs_of_a_frame_are_counted(void **state) {
  struct fixture f;
  open_fixture(state, &f);
  struct host_graph graphs[3] = {captured(&f), captured(&f), captured(&f)};
  destroy_frames(&f);
  expect_busy(&f, "stg_steer_destroy: 3 host graphs");
  destroy_graph(&f, &graphs[1]);
  expect_replay_ok(&f, &graphs[2]);
  expect_replay_ok(&f, &graphs[0]);
  destroy_graph(&f, &graphs[0]);
  destroy_graph(&f, &graphs[2]);
  close_fixture(&f);
}

/* Destroyed in flight, a graph runs out first; so does the frame's memory stay until then. */
static void graphs_that_are_destroyed_in_flight_run_to_their_end(void **state) {
  struct fixture f;
  open_fixture(state, &f);
  struct host_graph graph = captured(&f);
  for (int k = 0; k < 500; k++) {
    replay(&f, &graph);
  }
  destroy_graph(&f, &graph);
  stg_frame_destroy(f.frame);
  f.frame = f.batch->frame = NULL;
  stg_frame_destroy(f.bed->frame);
  f.bed->frame = NULL;
  steer_batch_fetch(f.batch);
  steer_batch_check(f.batch);
  close_fixture(&f);
}

static void a_capture_that_is_given_up_holds_nothing(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  open_fixture(state, &f);
  const stg_apply apply = steer_batch_args(f.batch);
  CUgraph graph = NULL;
  /* broken by a wait, as CUDA says; and an apply in a broken capture is an error */
  begin(&f);
  check_ok(stg_steer_apply(f.frame, &apply, f.stream, &error), &error);
  assert_int_equal(STG_E_CAPTURING, stg_stream_synchronize(f.device, f.stream, &error));
  assert_int_not_equal(STG_OK, stg_steer_apply(f.frame, &apply, f.stream, &error));
  assert_int_not_equal(CUDA_SUCCESS, f.driver->stream_end_capture(f.stream, &graph));
  assert_null(graph);
  /* and one that nobody wants */
  begin(&f);
  check_ok(stg_steer_apply(f.frame, &apply, f.stream, &error), &error);
  cuda(&f, f.driver->graph_destroy(end(&f)), "cuGraphDestroy");
  struct host_graph good = captured(&f);
  expect_replay_ok(&f, &good);
  destroy_graph(&f, &good);
  destroy_frames(&f);
  close_fixture(&f); /* fails at a deadline while the table is busy */
}

/* Nothing may be allocated in a capture: pins are made by steps, and their number is bounded. */
static void a_capture_without_a_spare_pin_is_refused_and_stays_valid(void **state) {
  struct fixture f;
  stg_error error = STG_ERROR_INIT;
  static CUgraph graphs[STG_SPARE_PINS];
  open_fixture(state, &f);
  const stg_apply apply = steer_batch_args(f.batch);
  for (int k = 0; k < STG_SPARE_PINS; k++) {
    begin(&f);
    stg_status status = stg_steer_apply(f.frame, &apply, f.stream, &error);
    graphs[k] = end(&f);
    check_ok(status, &error);
  }
  begin(&f);
  stg_status refused = stg_steer_apply(f.frame, &apply, f.stream, &error);
  CUgraph empty = end(&f);
  expect_error(STG_E_NOT_WARM, "step a frame of the table before capturing more graphs", refused,
               &error);
  assert_int_equal(0, count_nodes(&f, empty));
  cuda(&f, f.driver->graph_destroy(empty), "cuGraphDestroy");
  steer_batch_step(f.batch);
  struct host_graph graph = captured(&f);
  expect_replay_ok(&f, &graph);
  destroy_graph(&f, &graph);
  for (int k = 0; k < STG_SPARE_PINS; k++) {
    cuda(&f, f.driver->graph_destroy(graphs[k]), "cuGraphDestroy");
  }
  close_fixture(&f);
}

int main(void) {
  int skip = skip_without_gpu();
  if (skip != 0) {
    return skip;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_replay_after_the_frame_is_destroyed_is_right),
      cmocka_unit_test(a_table_and_its_engine_are_busy_while_a_graph_lives),
      cmocka_unit_test(an_exec_holds_what_its_destroyed_graph_held),
      cmocka_unit_test(a_graph_holds_without_an_exec),
      cmocka_unit_test(a_copy_of_a_graph_holds_too),
      cmocka_unit_test(several_graphs_of_a_frame_are_counted),
      cmocka_unit_test(graphs_that_are_destroyed_in_flight_run_to_their_end),
      cmocka_unit_test(a_capture_that_is_given_up_holds_nothing),
      cmocka_unit_test(a_capture_without_a_spare_pin_is_refused_and_stays_valid),
  };
  return cmocka_run_group_tests_name("steer pins", tests, steer_env_cuda, steer_env_close);
}

/*
 * test_plan_graphs.c: the graphs of plans: one per plan and stream, bounded, made anew where an
 * update is refused. On a device of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <steergraph/steergraph.h>

#include "engine/hostmem.h"
#include "runtime/device.h"
#include "tests/support/host_device.h"

#define HIDDEN 8
#define ROWS 64
#define STREAMS 5

struct bed {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frame;
  stg_stream streams[STREAMS];
  stg_vector vector;
  float hidden[ROWS][HIDDEN];
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
  }
}

/* Slot 0 adds 1 to each element. */
static void open_bed(struct bed *bed, uint32_t max_plans) {
  static const char *const ops[] = {"add"};
  static const float ones[HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1};
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_mode = STG_CACHE_OFF;
  options.max_plans = max_plans;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .ops = ops,
                               .n_ops = 1};
  *bed = (struct bed){0};
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  ok(stg_steer_create(bed->engine, &desc, &bed->steer, &error), &error);
  ok(stg_frame_create(bed->steer, &bed->frame, &error), &error);
  ok(stg_vector_intern(bed->engine, STG_F32, ones, HIDDEN, &bed->vector, &error), &error);
  const stg_op_call call = {.op = "add", .vectors = {bed->vector}};
  const stg_chain chain = {.ops = &call, .n_ops = 1};
  ok(stg_steer_slot_set(bed->steer, 0, &chain, 1, &error), &error);
  for (int i = 0; i < STREAMS; i++) {
    ok(stg_stream_create(stg_mem_device(bed->engine), &bed->streams[i], &error), &error);
  }
}

static stg_stats stats_of(const struct bed *bed) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(bed->engine, &stats);
  return stats;
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  stg_frame_destroy(bed->frame);
  ok(stg_steer_destroy(bed->steer, &error), &error);
  assert_int_equal(0, host_device_graphs().live);
  assert_int_equal(0, stats_of(bed).graphs_live);
  assert_int_equal(0, stats_of(bed).plan_bytes);
  for (int i = 0; i < STREAMS; i++) {
    stg_stream_destroy(stg_mem_device(bed->engine), bed->streams[i]);
  }
  ok(stg_vector_release(bed->engine, bed->vector, &error), &error);
  ok(stg_engine_destroy(bed->engine, &error), &error);
}

static void step(const struct bed *bed, stg_frame *frame, int64_t rows, stg_stream stream) {
  static const int32_t map[ROWS]; /* all of slot 0 */
  stg_error error = STG_ERROR_INIT;
  const stg_step args = {.struct_size = sizeof args, .rows = rows, .row_map = map};
  ok(stg_steer_step(frame, &args, stream, &error), &error);
  assert_true(host_device_graphs().live >= stats_of(bed).graphs_live);
}

/* Apply and wait; row 0 must then be one more. */
static void apply(struct bed *bed, stg_frame *frame, stg_stream stream) {
  stg_error error = STG_ERROR_INIT;
  const stg_apply args = {.struct_size = sizeof args, .hidden = bed->hidden};
  const float before = bed->hidden[0][0];
  ok(stg_steer_apply(frame, &args, stream, &error), &error);
  ok(stg_stream_synchronize(stg_mem_device(bed->engine), stream, &error), &error);
  assert_true(bed->hidden[0][0] > before + 0.5F && bed->hidden[0][0] < before + 1.5F);
}

static void a_plan_has_a_graph_per_stream(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, 0);
  stg_error error = STG_ERROR_INIT;
  stg_frame *other = NULL;
  ok(stg_frame_create(bed.steer, &other, &error), &error);
  for (int round = 0; round < 3; round++) {
    step(&bed, bed.frame, 5, bed.streams[0]);
    step(&bed, other, 5, bed.streams[1]);
    apply(&bed, bed.frame, bed.streams[0]);
    apply(&bed, other, bed.streams[1]);
    apply(&bed, bed.frame, bed.streams[0]);
  }
  const stg_stats stats = stats_of(&bed);
  assert_int_equal(1, stats.plans_live);
  assert_int_equal(2, stats.graphs_live);
  assert_int_equal(2, stats.graphs_created);
  assert_int_equal(9, stats.graph_launches);
  assert_int_equal(0, stats.plain_launches);
  stg_frame_destroy(other);
  close_bed(&bed);
}

static void graphs_are_bounded_and_those_in_use_stay(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, 2);
  stg_error error = STG_ERROR_INIT;
  stg_frame *kept = NULL;
  ok(stg_frame_create(bed.steer, &kept, &error), &error);
  step(&bed, kept, 3, bed.streams[0]);
  for (int round = 0; round < 100; round++) {
    step(&bed, bed.frame, 1 + round % ROWS, bed.streams[round % STREAMS]);
    apply(&bed, bed.frame, bed.streams[round % STREAMS]);
    assert_true(host_device_graphs().live <= 3); /* those of two frames, and one on its way in */
    apply(&bed, kept, bed.streams[0]);
  }
  const stg_stats stats = stats_of(&bed);
  assert_int_equal(2, stats.graphs_live);
  assert_int_equal(2, stats.plans_live);
  assert_true(stats.graph_evictions >= 90);
  assert_int_equal(200, stats.graph_launches);
  assert_int_equal(0, stats.graph_fallbacks);
  stg_frame_destroy(kept);
  close_bed(&bed);
}

static void many_streams_of_one_plan_are_bounded_too(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, 2);
  for (int round = 0; round < 4 * STREAMS; round++) {
    step(&bed, bed.frame, 7, bed.streams[round % STREAMS]);
    apply(&bed, bed.frame, bed.streams[round % STREAMS]);
  }
  assert_int_equal(1, stats_of(&bed).plans_live);
  assert_int_equal(2, stats_of(&bed).graphs_live);
  assert_int_equal(4 * STREAMS - 2, stats_of(&bed).graph_evictions);
  close_bed(&bed);
}

static void an_update_that_is_refused_makes_the_graph_anew(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, 0);
  step(&bed, bed.frame, 5, bed.streams[0]);
  apply(&bed, bed.frame, bed.streams[0]);
  host_device_refuse_graphs(false, true);
  apply(&bed, bed.frame, bed.streams[0]);
  stg_stats stats = stats_of(&bed);
  assert_int_equal(2, stats.graphs_created);
  assert_int_equal(1, stats.graphs_live);
  assert_int_equal(2, stats.graph_launches);
  assert_int_equal(0, stats.graph_fallbacks);

  host_device_refuse_graphs(true, true); /* not even that: plainly, with the same result */
  apply(&bed, bed.frame, bed.streams[0]);
  stats = stats_of(&bed);
  assert_int_equal(1, stats.plain_launches);
  assert_int_equal(1, stats.graph_fallbacks);

  host_device_refuse_graphs(false, false); /* and not for ever */
  apply(&bed, bed.frame, bed.streams[0]);
  stats = stats_of(&bed);
  assert_int_equal(3, stats.graph_launches);
  assert_int_equal(1, stats.plain_launches);
  close_bed(&bed);
}

static void a_step_tries_again_for_a_graph_that_could_not_be_made(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, 0);
  host_device_refuse_graphs(true, false);
  step(&bed, bed.frame, 5, bed.streams[0]);
  apply(&bed, bed.frame, bed.streams[0]);
  assert_int_equal(1, stats_of(&bed).plain_launches);
  assert_int_equal(1, stats_of(&bed).graph_fallbacks);
  host_device_refuse_graphs(false, false);
  step(&bed, bed.frame, 5, bed.streams[0]);
  apply(&bed, bed.frame, bed.streams[0]);
  assert_int_equal(1, stats_of(&bed).plain_launches);
  assert_int_equal(1, stats_of(&bed).graph_launches);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_has_a_graph_per_stream),
      cmocka_unit_test(graphs_are_bounded_and_those_in_use_stay),
      cmocka_unit_test(many_streams_of_one_plan_are_bounded_too),
      cmocka_unit_test(an_update_that_is_refused_makes_the_graph_anew),
      cmocka_unit_test(a_step_tries_again_for_a_graph_that_could_not_be_made),
  };
  return cmocka_run_group_tests_name("plan graphs", tests, NULL, NULL);
}

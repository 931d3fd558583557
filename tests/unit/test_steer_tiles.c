/*
 * test_steer_tiles.c: a table that begins with one of its two tiles: what serves meanwhile, what a
 * capture says, and what becomes of the other. On a device of the host, whose compiler does what a
 * test says.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): pthread_setattr_default_np */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/steer.h"
#include "tests/support/tier_bed.h"

#define FIRST "tile=decode" /* what a table begins with */
#define SECOND "tile=prefill"
#define MANY 300 /* rows, in a bucket whose captures take the second tile */

/* A step that wants the second tile. `step` wants the first. */
static void step_long(stg_frame *frame) {
  static const int32_t map[ROWS];
  const stg_step args = {.struct_size = sizeof args, .rows = ROWS, .row_map = map, .longest = ROWS};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(frame, &args, NULL, &error), &error);
}

/* A step that wants the second tile, and an apply by `part` of `tier`. */
static void expect_served(struct bed *bed, stg_frame *frame, const char *part, int tier) {
  step_long(frame);
  apply(bed, frame, part);
  const stg_plan_info plan = plan_of(frame);
  assert_int_equal(tier, plan.tier);
  assert_non_null(strstr(plan.signature, part));
  assert_non_null(strstr(host_device_launched(), tier == 1 ? SUBSET : GENERAL));
}

static stg_frame *open_frame_with_add(struct bed *bed, stg_steer *steer) {
  set_slot(bed, steer, "add");
  return open_frame(steer);
}

static void create_waits_for_one_tile_and_a_step_takes_the_other(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SECOND});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  for (int i = 0; i < 3; i++) {
    expect_served(&bed, frame, FIRST, 0);
  }
  const stg_plan_info before = plan_of(frame);
  char kernel_key[33], graph_key[33];
  memcpy(kernel_key, before.kernel_key, sizeof kernel_key);
  memcpy(graph_key, before.graph_key, sizeof graph_key);
  host_device_wait_for_compiles(1); /* it goes on */

  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_rest(&bed);
  apply(&bed, frame, FIRST); /* what the step resolved */
  expect_served(&bed, frame, SECOND, 0);
  const stg_plan_info after = plan_of(frame);
  assert_null(strstr(after.signature, FIRST));
  assert_string_not_equal(kernel_key, after.kernel_key);
  assert_string_not_equal(graph_key, after.graph_key);
  step(frame);
  apply(&bed, frame, FIRST);
  expect_served(&bed, frame, SECOND, 0);
  const stg_stats stats = stats_of(&bed);
  assert_int_equal(2, stats.graphs_created); /* a plan for each step; the other tile is an update */
  assert_int_equal(2, stats.plans_live);
  assert_int_equal(0, stats.kernel_swaps); /* of tiers */
  assert_int_equal(2, host_device_compiles());
  assert_int_equal(0, host_device_compiles_here());
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

/* A tile that is there is better than a tier, as long as the other tile has neither. */
static void a_declared_kernel_of_the_other_tile_serves_too(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SECOND});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 3, 0);
  stg_steer *steer = open_table(&bed, only_add, 1);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  wait_for_swaps(&bed, 1);
  expect_served(&bed, frame, FIRST, 1);
  host_device_wait_for_compiles(2);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SUBSET});
  while (stats_of(&bed).compiles_running > 1) {
    pause_a_bit();
  }
  expect_served(&bed, frame, SECOND, 0);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_swaps(&bed, 2);
  expect_served(&bed, frame, SECOND, 1);
  wait_for_rest(&bed);
  assert_int_equal(4, host_device_compiles());
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static float many[MANY][HIDDEN];

/* A table of many rows, and a frame that has stepped them. */
static stg_frame *open_many(struct bed *bed, const char *const *ops, size_t n_ops) {
  static const int32_t map[MANY];
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  const stg_steer_desc desc = {.struct_size = sizeof desc,
                               .hidden_size = HIDDEN,
                               .dtype = STG_F32,
                               .max_rows = MANY,
                               .ops = ops,
                               .n_ops = n_ops};
  ok(stg_steer_create(bed->engine, &desc, &steer, &error), &error);
  stg_frame *frame = open_frame_with_add(bed, steer);
  const stg_step args = {.struct_size = sizeof args, .rows = MANY, .row_map = map, .longest = 1};
  ok(stg_steer_step(frame, &args, NULL, &error), &error);
  return frame;
}

static void close_many(stg_frame *frame) {
  stg_steer *steer = frame->steer;
  stg_frame_destroy(frame);
  close_table(steer);
}

static stg_status try_capture_many(stg_frame *frame, stg_error *reterr) {
  const stg_apply args = {.struct_size = sizeof args, .hidden = many};
  host_device_say_capturing(true);
  stg_status status = stg_steer_apply(frame, &args, NULL, reterr);
  host_device_say_capturing(false);
  return status;
}

/* Captured, replayed and dropped, by a kernel of `part`. */
static void expect_captured(const struct bed *bed, stg_frame *frame, void *hidden,
                            const char *part) {
  stg_error error = STG_ERROR_INIT;
  const stg_apply args = {.struct_size = sizeof args, .hidden = hidden};
  const uint64_t capture = host_device_begin_capture();
  ok(stg_steer_apply(frame, &args, NULL, &error), &error);
  host_device_end_capture();
  assert_int_equal(1, host_device_replay(capture, NULL));
  assert_non_null(strstr(host_device_launched(), part));
  ok(stg_stream_synchronize(stg_mem_device(bed->engine), NULL, &error), &error);
  assert_int_equal(1, host_device_drop_graph(capture));
}

static void a_capture_takes_no_other_tile(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  for (size_t n_ops = 0; n_ops < 2; n_ops++) { /* all, and one */
    host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SECOND});
    open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
    stg_frame *frame = open_many(&bed, n_ops > 0 ? only_add : NULL, n_ops);
    expect(STG_E_NOT_WARM, SECOND, try_capture_many(frame, &error), &error);
    expect(STG_E_NOT_WARM, GENERAL, try_capture_many(frame, &error), &error);
    expect(STG_E_NOT_WARM, "compile=block", try_capture_many(frame, &error), &error);
    const stg_apply args = {.struct_size = sizeof args, .hidden = many};
    const float wanted = many[MANY - 1][0] + 1; /* nothing was launched by them */
    ok(stg_steer_apply(frame, &args, NULL, &error), &error);
    ok(stg_stream_synchronize(stg_mem_device(bed.engine), NULL, &error), &error);
    assert_memory_equal(&wanted, &many[MANY - 1][0], sizeof wanted);
    assert_non_null(strstr(host_device_launched(), FIRST));
    host_device_set_compiler(&(struct host_compiler){.missing = ALL});
    wait_for_rest(&bed);
    expect_captured(&bed, frame, many, SECOND); /* without another step */
    close_many(frame);
    close_bed(&bed);
  }
}

/* What a capture of few rows takes is there from the start, whatever the step wanted. */
static void a_capture_of_few_rows_need_not_wait(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SECOND});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  step(frame);
  expect_captured(&bed, frame, bed.hidden, FIRST);
  step_long(frame);
  expect_captured(&bed, frame, bed.hidden, FIRST);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void a_second_tile_that_fails_takes_nothing_down(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .refused = SECOND});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  stg_frame *large = open_many(&bed, NULL, 0);
  wait_for_rest(&bed);
  while (expect_served(&bed, frame, FIRST, 0), try_capture_many(large, &error) == STG_E_NOT_WARM) {
    pause_a_bit(); /* the job was over, but not yet known to be */
  }
  expect(STG_E_COMPILE, SECOND, try_capture_many(large, &error), &error);
  expect(STG_E_COMPILE, "nothing can be captured", try_capture_many(large, &error), &error);
  const size_t compiles = host_device_compiles();
  expect_served(&bed, frame, FIRST, 0);
  wait_for_rest(&bed);
  assert_int_equal(compiles, host_device_compiles()); /* it is not tried again by steps */

  /* a new table tries again, for all */
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  stg_steer *other = open_table(&bed, NULL, 0);
  wait_for_rest(&bed);
  assert_int_equal(compiles + 1, host_device_compiles());
  while (step_long(frame), strstr(plan_of(frame).signature, SECOND) == NULL) {
    pause_a_bit();
  }
  expect_served(&bed, frame, SECOND, 0);
  expect_captured(&bed, large, many, SECOND);
  stg_frame_destroy(frame);
  close_table(steer);
  close_table(other);
  close_many(large);
  close_bed(&bed);
}

/* Then a declared kernel that follows is what a capture takes. */
static void a_declared_kernel_makes_up_for_a_tile_that_failed(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  host_device_set_compiler(&(struct host_compiler){
      .missing = SECOND, .held = SUBSET, .refused = GENERAL}); /* the first is in a cache */
  open_bed(&bed, STG_COMPILE_BACKGROUND, 3, 0);
  stg_frame *frame = open_many(&bed, only_add, 1);
  while (try_capture_many(frame, &error) == STG_E_NOT_WARM &&
         strstr(error.message, SUBSET) == NULL) {
    pause_a_bit();
  }
  expect(STG_E_NOT_WARM, SUBSET, try_capture_many(frame, &error), &error);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  wait_for_swaps(&bed, 1);
  expect_captured(&bed, frame, many, SUBSET);
  assert_non_null(strstr(host_device_launched(), SECOND));
  close_many(frame);
  close_bed(&bed);
}

static void a_first_tile_that_fails_is_said_by_create(void **state) {
  (void)state;
  struct bed bed;
  stg_error error = STG_ERROR_INIT;
  stg_steer *steer = NULL;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .refused = FIRST});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 2, 0);
  expect(STG_E_COMPILE, "NVRTC refuses it", try_table(&bed, NULL, 0, &steer, &error), &error);
  expect(STG_E_COMPILE, "NVRTC refuses it", try_table(&bed, only_add, 1, &steer, &error), &error);
  assert_null(steer);
  assert_int_equal(2, host_device_compiles()); /* and the other tile is not begun */
  close_bed(&bed);
}

static void closing_stops_the_second_tile(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SECOND});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  host_device_wait_for_compiles(1);
  expect_served(&bed, frame, FIRST, 0);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed); /* would wait for ever */
}

static void both_tiles_of_a_cache_are_there_at_once(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  expect_served(&bed, frame, SECOND, 0);
  assert_int_equal(0, stats_of(&bed).compile_threads);
  stg_frame_destroy(frame);
  close_table(steer);

  /* general ones, as of a pack, while no declared one can be had */
  host_device_set_compiler(&(struct host_compiler){.missing = SUBSET, .held = SUBSET});
  steer = open_table(&bed, only_add, 1);
  frame = open_frame_with_add(&bed, steer);
  expect_served(&bed, frame, SECOND, 0);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

static void one_tile_of_a_cache_is_enough_to_begin(void **state) {
  static const char *const tiles[] = {SECOND, FIRST}; /* that it lacks */
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bed bed;
    open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
    host_device_set_compiler(&(struct host_compiler){.missing = tiles[i], .held = tiles[i]});
    stg_steer *steer = open_table(&bed, NULL, 0);
    stg_frame *frame = open_frame_with_add(&bed, steer);
    step(frame);
    apply(&bed, frame, tiles[1 - i]);
    step_long(frame);
    apply(&bed, frame, tiles[1 - i]);
    if (i == 1) { /* what a capture of few rows takes is not there */
      stg_error error = STG_ERROR_INIT;
      expect(STG_E_NOT_WARM, FIRST, try_capture(&bed, frame, &error), &error);
    }
    host_device_set_compiler(&(struct host_compiler){.missing = ALL});
    wait_for_rest(&bed);
    step(frame);
    apply(&bed, frame, FIRST);
    step_long(frame);
    apply(&bed, frame, SECOND);
    stg_frame_destroy(frame);
    close_table(steer);
    close_bed(&bed);
  }
}

/* A second tile that finds the queue full, by steps of either tile. */
static void a_step_asks_again_for_a_tile(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL, .held = SECOND});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 1);
  stg_steer *first = open_table(&bed, only_add, 1);
  stg_frame *other = open_frame_with_add(&bed, first);
  host_device_wait_for_compiles(1);
  step(other); /* a declared kernel fills the queue */
  stg_steer *steer = open_table(&bed, NULL, 0);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  const uint64_t refused = stats_of(&bed).compiles_refused;
  assert_true(refused > 0);
  step(frame);
  apply(&bed, frame, FIRST);
  assert_true(stats_of(&bed).compiles_refused > refused);
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  while (step_long(frame), strstr(plan_of(frame).signature, SECOND) == NULL) {
    pause_a_bit();
  }
  expect_served(&bed, frame, SECOND, 0);
  stg_frame_destroy(frame);
  stg_frame_destroy(other);
  close_table(steer);
  close_table(first);
  close_bed(&bed);
}

static stg_steer *open_table_without_threads(struct bed *bed, const char *const *ops,
                                             size_t n_ops) {
  pthread_attr_t usual, huge;
  assert_int_equal(0, pthread_getattr_default_np(&usual));
  assert_int_equal(0, pthread_attr_init(&huge));
  assert_int_equal(0, pthread_attr_setstacksize(&huge, (size_t)1 << 46)); /* nobody has so much */
  assert_int_equal(0, pthread_setattr_default_np(&huge));
  stg_steer *steer = open_table(bed, ops, n_ops);
  assert_int_equal(0, pthread_setattr_default_np(&usual));
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
  return steer;
}

/* Then both tiles are made here, as there is no later. */
static void without_a_thread_both_tiles_are_made_at_once(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
  stg_steer *steer = open_table_without_threads(&bed, NULL, 0);
  assert_int_equal(2, host_device_compiles_here());
  assert_int_equal(0, stats_of(&bed).compile_threads);
  stg_frame *frame = open_frame_with_add(&bed, steer);
  expect_served(&bed, frame, SECOND, 0);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

/* No general kernel runs it, so its own are made too, and no slot waits for ever. */
static void without_a_thread_a_user_op_is_made_at_once(void **state) {
  (void)state;
  struct bed bed;
  host_device_set_compiler(&(struct host_compiler){.missing = ALL});
  open_bed(&bed, STG_COMPILE_BACKGROUND, 1, 0);
  stg_steer *steer = open_table_without_threads(&bed, with_lean, 2);
  assert_int_equal(4, host_device_compiles_here());
  set_slot(&bed, steer, "lean");
  stg_frame *frame = open_frame(steer);
  step(frame);
  apply(&bed, frame, USER);
  stg_frame_destroy(frame);
  close_table(steer);
  close_bed(&bed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(create_waits_for_one_tile_and_a_step_takes_the_other),
      cmocka_unit_test(a_declared_kernel_of_the_other_tile_serves_too),
      cmocka_unit_test(a_capture_takes_no_other_tile),
      cmocka_unit_test(a_capture_of_few_rows_need_not_wait),
      cmocka_unit_test(a_second_tile_that_fails_takes_nothing_down),
      cmocka_unit_test(a_declared_kernel_makes_up_for_a_tile_that_failed),
      cmocka_unit_test(a_first_tile_that_fails_is_said_by_create),
      cmocka_unit_test(closing_stops_the_second_tile),
      cmocka_unit_test(both_tiles_of_a_cache_are_there_at_once),
      cmocka_unit_test(one_tile_of_a_cache_is_enough_to_begin),
      cmocka_unit_test(a_step_asks_again_for_a_tile),
      cmocka_unit_test(without_a_thread_both_tiles_are_made_at_once),
      cmocka_unit_test(without_a_thread_a_user_op_is_made_at_once),
  };
  return cmocka_run_group_tests_name("steer tiles", tests, NULL, NULL);
}

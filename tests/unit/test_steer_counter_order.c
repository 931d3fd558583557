/*
 * test_steer_counter_order.c: a slot's counters begin anew in time for all streams, on a device of
 * the host that does its work as late as it may.
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
#define ROWS 4
#define SLOTS 5

/* Frames, each on a stream of its own, which nothing of the host's orders. Most tests use two. */
#define FRAMES 3

struct bed {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frames[FRAMES];
  stg_stream streams[FRAMES];
  stg_vector vector;
  float hidden[FRAMES][ROWS][HIDDEN];
};

static void ok(stg_status status, const stg_error *error) {
  if (status != STG_OK) {
    fail_msg("%s: %s", stg_status_name(status), error->message);
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
                               .layers = 2,
                               .dtype = STG_F32,
                               .max_rows = ROWS,
                               .max_slots = SLOTS,
                               .ops = ops,
                               .n_ops = 1,
                               .counters = true};
  *bed = (struct bed){0};
  ok(stg_engine_create(&options, &bed->engine, &error), &error);
  ok(stg_steer_create(bed->engine, &desc, &bed->steer, &error), &error);
  ok(stg_vector_intern(bed->engine, STG_F32, ones, HIDDEN, &bed->vector, &error), &error);
  for (int i = 0; i < FRAMES; i++) {
    ok(stg_frame_create(bed->steer, &bed->frames[i], &error), &error);
    ok(stg_stream_create(stg_mem_device(bed->engine), &bed->streams[i], &error), &error);
  }
}

static void close_bed(struct bed *bed) {
  stg_error error = STG_ERROR_INIT;
  for (int i = 0; i < FRAMES; i++) {
    stg_frame_destroy(bed->frames[i]);
    stg_stream_destroy(stg_mem_device(bed->engine), bed->streams[i]);
  }
  ok(stg_steer_destroy(bed->steer, &error), &error);
  ok(stg_vector_release(bed->engine, bed->vector, &error), &error);
  ok(stg_engine_destroy(bed->engine, &error), &error);
  host_device_eager(0);
}

static void set(struct bed *bed, uint32_t slot) {
  stg_error error = STG_ERROR_INIT;
  const stg_op_call call = {
      .op = "add", .vectors = {bed->vector}, .params = {1}, .params_given = 1};
  const stg_chain chain = {.layer = 1, .ops = &call, .n_ops = 1};
  ok(stg_steer_slot_set(bed->steer, slot, &chain, 1, &error), &error);
}

static void clear(struct bed *bed, uint32_t slot) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_slot_clear(bed->steer, slot, &error), &error);
}

/* A step whose rows are all of one slot. */
static void step(struct bed *bed, int frame, int32_t slot) {
  const int32_t map[ROWS] = {slot, slot, slot, slot};
  const stg_step args = {.struct_size = sizeof args, .rows = ROWS, .row_map = map};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_step(bed->frames[frame], &args, bed->streams[frame], &error), &error);
}

static void apply(struct bed *bed, int frame) {
  const stg_apply args = {.struct_size = sizeof args, .layer = 1, .hidden = bed->hidden[frame]};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_apply(bed->frames[frame], &args, bed->streams[frame], &error), &error);
}

static void once(struct bed *bed, stg_stream stream) {
  static float rows[ROWS][HIDDEN];
  const stg_chain unsteered = {.layer = 1};
  const int64_t length = ROWS;
  const stg_once args = {
      .struct_size = sizeof args,
      .apply = {.struct_size = sizeof args.apply, .layer = 1, .hidden = rows},
      .rows = ROWS,
      .n_requests = 1,
      .lengths = &length,
      .chains = &unsteered,
  };
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_once(bed->steer, &args, stream, &error), &error);
}

static void wait_for(struct bed *bed, int stream) {
  stg_error error = STG_ERROR_INIT;
  ok(stg_stream_synchronize(stg_mem_device(bed->engine), bed->streams[stream], &error), &error);
}

static uint64_t touched(struct bed *bed, uint32_t slot, int stream) {
  stg_slot_counters counters = {.struct_size = sizeof counters};
  stg_error error = STG_ERROR_INIT;
  ok(stg_steer_counters(bed->steer, slot, 1, bed->streams[stream], &counters, &error), &error);
  assert_int_equal(counters.rows_touched, counters.rows_changed);
  return counters.rows_touched;
}

/* Slot 0 has counted rows, which both streams have done. */
static void count_some(struct bed *bed) {
  set(bed, 0);
  for (int i = 0; i < 2; i++) {
    step(bed, i, 0);
    apply(bed, i);
    wait_for(bed, i);
  }
  assert_int_equal(2 * ROWS, touched(bed, 0, 0));
}

static void rows_on_another_stream_are_not_reset_with_those_before_them(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed);
  count_some(&bed);
  clear(&bed, 0);
  set(&bed, 0);
  step(&bed, 0, 0); /* brings the reset, which its stream comes to late */
  step(&bed, 1, 0);
  apply(&bed, 1);
  wait_for(&bed, 1);
  wait_for(&bed, 0);
  assert_int_equal(ROWS, touched(&bed, 0, 0));
  assert_int_equal(ROWS, touched(&bed, 0, 1));
  close_bed(&bed);
}

static void a_read_on_another_stream_sees_the_reset(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed);
  count_some(&bed);
  clear(&bed, 0);
  assert_int_equal(0, touched(&bed, 0, 1)); /* no step has brought it */
  step(&bed, 0, STG_ROW_UNSTEERED);
  assert_int_equal(0, touched(&bed, 0, 1));
  close_bed(&bed);
}

static void resets_on_two_streams_are_both_waited_for(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed);
  count_some(&bed);
  for (uint32_t slot = 0; slot < 2; slot++) {
    set(&bed, slot);
    step(&bed, 0, (int32_t)slot);
    apply(&bed, 0);
    wait_for(&bed, 0);
  }
  clear(&bed, 0);
  step(&bed, 0, STG_ROW_UNSTEERED);
  clear(&bed, 1);
  step(&bed, 1, STG_ROW_UNSTEERED); /* behind slot 0's */
  set(&bed, 1);
  step(&bed, 0, 1);
  apply(&bed, 0);
  wait_for(&bed, 0);
  wait_for(&bed, 1);
  assert_int_equal(ROWS, touched(&bed, 1, 0));
  assert_int_equal(0, touched(&bed, 0, 0));
  close_bed(&bed);
}

/* One-shot calls bring resets too, and each may be on another stream. */
static void resets_of_one_shots_on_two_streams_are_both_waited_for(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed);
  count_some(&bed);
  for (uint32_t i = 0; i < 2; i++) {
    set(&bed, i);
    clear(&bed, i);
    once(&bed, bed.streams[i]);
  }
  set(&bed, 0);
  step(&bed, 2, 0);
  apply(&bed, 2);
  for (int i = 2; i >= 0; i--) { /* the others come to theirs late, unless they had to before */
    wait_for(&bed, i);
  }
  assert_int_equal(ROWS, touched(&bed, 0, 2));
  close_bed(&bed);
}

static void a_frame_waits_once_and_for_resets_alone(void **state) {
  (void)state;
  struct bed bed;
  open_bed(&bed);
  count_some(&bed);
  clear(&bed, 0);
  for (int i = 0; i < 2; i++) { /* both know of the emptied slot, and frame 0 brings the reset */
    step(&bed, i, 0);
  }
  for (int i = 0; i < 2; i++) {
    host_device_reset_calls();
    step(&bed, i, 0);
    assert_int_equal(0, host_device_calls().event_waits);
  }
  close_bed(&bed);
}

static void counts_are_right_whenever_the_device_does_its_work(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= 20; seed++) {
    struct bed bed;
    open_bed(&bed);
    host_device_eager(seed);
    for (uint32_t turn = 0; turn < 30; turn++) {
      const uint32_t slot = turn % SLOTS;
      const int first = (int)(turn * seed / 3 % 2), second = 1 - first;
      for (int i = 0; i < 2; i++) { /* nothing of the chains before is still to come */
        wait_for(&bed, i);
      }
      clear(&bed, slot);
      set(&bed, slot);
      step(&bed, first, (int32_t)slot);
      step(&bed, second, (int32_t)slot);
      apply(&bed, second);
      apply(&bed, first);
      apply(&bed, second);
      for (int i = 0; i < 2; i++) {
        wait_for(&bed, i);
      }
      assert_int_equal(3 * ROWS, touched(&bed, slot, first));
    }
    close_bed(&bed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_on_another_stream_are_not_reset_with_those_before_them),
      cmocka_unit_test(a_read_on_another_stream_sees_the_reset),
      cmocka_unit_test(resets_on_two_streams_are_both_waited_for),
      cmocka_unit_test(resets_of_one_shots_on_two_streams_are_both_waited_for),
      cmocka_unit_test(a_frame_waits_once_and_for_resets_alone),
      cmocka_unit_test(counts_are_right_whenever_the_device_does_its_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_bench_timing.c: how often work is done and which of its times count. A device is stood in
 * for: events tell times that were made up, in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/hostmem.h"
#include "tools/bench/suite.h"
#include "tools/bench/timing.h"

static size_t launches, replays, measured, restores, nodes;

struct stg_device *stg_mem_device(stg_engine *engine) {
  (void)engine;
  return NULL;
}

stg_stream stg_mem_stream(stg_engine *engine) {
  (void)engine;
  return NULL;
}

stg_status stg_mem_synchronize(stg_engine *engine, stg_error *reterr) {
  (void)engine, (void)reterr;
  return STG_OK;
}

stg_status stg_bench_buffers_restore(stg_engine *engine, const struct stg_bench_buffers *buffers,
                                     stg_error *reterr) {
  (void)engine, (void)buffers, (void)reterr;
  restores++;
  return STG_OK;
}

stg_status stg_capture_begin(struct stg_device *device, stg_stream_handle stream,
                             stg_error *reterr) {
  (void)device, (void)stream, (void)reterr;
  return STG_OK;
}

stg_status stg_capture_end(struct stg_device *device, stg_stream_handle stream,
                           struct stg_graph **ret_graph, size_t *ret_nodes, stg_error *reterr) {
  static char graph;
  (void)device, (void)stream, (void)reterr;
  *ret_graph = (struct stg_graph *)(void *)&graph;
  *ret_nodes = nodes;
  return STG_OK;
}

stg_status stg_graph_launch(struct stg_device *device, struct stg_graph *graph,
                            stg_stream_handle stream, stg_error *reterr) {
  (void)device, (void)graph, (void)stream, (void)reterr;
  replays++;
  return STG_OK;
}

void stg_graph_destroy(struct stg_device *device, struct stg_graph *graph) {
  (void)device, (void)graph;
}

stg_status stg_event_create(struct stg_device *device, bool timed, struct stg_event **ret_event,
                            stg_error *reterr) {
  (void)device, (void)timed, (void)reterr;
  *ret_event = NULL;
  return STG_OK;
}

void stg_event_destroy(struct stg_device *device, struct stg_event *event) {
  (void)device, (void)event;
}

stg_status stg_event_record(struct stg_device *device, struct stg_event *event,
                            stg_stream_handle stream, stg_error *reterr) {
  (void)device, (void)event, (void)stream, (void)reterr;
  return STG_OK;
}

stg_status stg_event_synchronize(struct stg_device *device, struct stg_event *event,
                                 stg_error *reterr) {
  (void)device, (void)event, (void)reterr;
  return STG_OK;
}

/* 1000, 999, and so on: the first are the largest. */
stg_status stg_event_elapsed_us(struct stg_device *device, struct stg_event *from,
                                struct stg_event *to, double *ret_us, stg_error *reterr) {
  (void)device, (void)from, (void)to, (void)reterr;
  *ret_us = 1000 - (double)measured++;
  return STG_OK;
}

static stg_status launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                         stg_stream stream, stg_error *reterr) {
  (void)user, (void)stream, (void)reterr;
  assert_true(index < buffers->count);
  launches++;
  return STG_OK;
}

static const struct stg_bench_buffers two = {.count = 2};

static int setup(void **state) {
  (void)state;
  launches = replays = measured = restores = 0;
  nodes = 2;
  return 0;
}

static void warms_up_10_times_and_counts_100(void **state) {
  (void)state;
  const struct stg_bench_timer timer = stg_bench_timer_of(NULL, false);
  assert_int_equal(10, timer.warmup);
  assert_int_equal(100, timer.repeats);
  const struct stg_bench_timer quick = stg_bench_timer_of(NULL, true);
  assert_true(quick.warmup < 10 && quick.repeats < 10);
}

static void the_standard_batch_is_32_requests_of_64_rows_4096_wide(void **state) {
  (void)state;
  assert_int_equal(32, STG_BENCH_REQUESTS);
  assert_int_equal(64, STG_BENCH_ROWS_PER_REQUEST);
  assert_int_equal(4096, STG_BENCH_HIDDEN);
}

static void a_line_is_captured_once_and_its_time_is_shared_by_its_buffers(void **state) {
  (void)state;
  const struct stg_bench_timer timer = stg_bench_timer_of(NULL, false);
  struct stg_times times;
  assert_int_equal(STG_OK, stg_bench_time(&timer, &two, launch, NULL, &times, NULL));
  assert_int_equal(2, launches);
  assert_int_equal(110, replays);
  assert_int_equal(110, restores);
  assert_true(times.max_us == 990.0 / 2); /* that of the 11th */
  assert_true(times.min_us == 891.0 / 2);
}

static void a_line_of_many_nodes_is_replayed_less_often(void **state) {
  (void)state;
  const struct stg_bench_timer timer = stg_bench_timer_of(NULL, false);
  struct stg_times times;
  nodes = 8000;
  assert_int_equal(STG_OK, stg_bench_time(&timer, &two, launch, NULL, &times, NULL));
  assert_int_equal(2 + 50, replays);
  nodes = 1;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_E_CUDA, stg_bench_time(&timer, &two, launch, NULL, &times, &err));
  assert_string_equal("bench: work over 2 buffers captured as 1 nodes", err.message);
}

static void calls_of_a_host_are_each_timed_on_the_next_buffer(void **state) {
  (void)state;
  const struct stg_bench_timer timer = stg_bench_timer_of(NULL, false);
  struct stg_times times;
  assert_int_equal(STG_OK, stg_bench_time_eager(&timer, &two, launch, NULL, &times, NULL));
  assert_int_equal(110, launches);
  assert_int_equal(55, restores); /* as soon as each buffer was worked on */
  assert_true(times.max_us == 990 && times.min_us == 891);
  assert_int_equal(STG_OK, stg_bench_time_wall(&timer, &two, launch, NULL, &times, NULL));
  assert_int_equal(220, launches);
  assert_int_equal(0, replays);
  assert_int_equal(STG_OK, stg_bench_time_cpu(&timer, &two, launch, NULL, &times, NULL));
  assert_int_equal(220 + 110 * 64, launches);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(warms_up_10_times_and_counts_100, setup),
      cmocka_unit_test_setup(the_standard_batch_is_32_requests_of_64_rows_4096_wide, setup),
      cmocka_unit_test_setup(a_line_is_captured_once_and_its_time_is_shared_by_its_buffers, setup),
      cmocka_unit_test_setup(a_line_of_many_nodes_is_replayed_less_often, setup),
      cmocka_unit_test_setup(calls_of_a_host_are_each_timed_on_the_next_buffer, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * launches.c: see launches.h.
 */
#include "tests/gpu/launches.h"

#define LAUNCHES 32
#define REPEATS 5

static void launch_all(const struct launches *l) {
  stg_error error = STG_ERROR_INIT;
  for (size_t i = 0; i < LAUNCHES; i++) {
    void *pointers[] = {l->args[i % l->n_sets]};
    check_ok(
        stg_launch_early(l->gpu->device, l->module, &l->dims, pointers, l->gpu->stream, &error),
        &error);
  }
}

/* Shortest time of a launch, in microseconds. `graph` NULL: one by one. */
static double shortest(const struct launches *l, struct stg_graph *graph) {
  const struct gpu *gpu = l->gpu;
  struct stg_event *ends[2] = {NULL, NULL};
  stg_error error = STG_ERROR_INIT;
  double best = 0;
  for (int i = 0; i < 2; i++) {
    check_ok(stg_event_create(gpu->device, true, &ends[i], &error), &error);
  }
  for (int repeat = 0; repeat <= REPEATS; repeat++) {
    double us = 0;
    check_ok(stg_event_record(gpu->device, ends[0], gpu->stream, &error), &error);
    if (graph != NULL) {
      check_ok(stg_graph_launch(gpu->device, graph, gpu->stream, &error), &error);
    } else {
      launch_all(l);
    }
    check_ok(stg_event_record(gpu->device, ends[1], gpu->stream, &error), &error);
    check_ok(stg_event_synchronize(gpu->device, ends[1], &error), &error);
    check_ok(stg_event_elapsed_us(gpu->device, ends[0], ends[1], &us, &error), &error);
    best = repeat <= 1 || us < best ? us : best; /* the first one warms up */
  }
  for (int i = 0; i < 2; i++) {
    stg_event_destroy(gpu->device, ends[i]);
  }
  return best / LAUNCHES;
}

struct times launches_time(const struct launches *l) {
  struct stg_graph_kernel nodes[LAUNCHES];
  void *pointers[LAUNCHES];
  struct stg_graph *graph = NULL;
  struct times times = {.stream = shortest(l, NULL)};
  stg_error error = STG_ERROR_INIT;
  size_t count = 0;
  for (size_t i = 0; i < LAUNCHES; i++) {
    pointers[i] = l->args[i % l->n_sets];
    nodes[i] = (struct stg_graph_kernel){l->module, l->dims, &pointers[i]};
  }
  check_ok(stg_graph_create(l->gpu->device, nodes, LAUNCHES, l->gpu->stream, &graph, &error),
           &error);
  times.nodes = shortest(l, graph);
  stg_graph_destroy(l->gpu->device, graph);
  check_ok(stg_capture_begin(l->gpu->device, l->gpu->stream, &error), &error);
  launch_all(l);
  check_ok(stg_capture_end(l->gpu->device, l->gpu->stream, &graph, &count, &error), &error);
  assert_int_equal(count, LAUNCHES);
  times.captured = shortest(l, graph);
  stg_graph_destroy(l->gpu->device, graph);
  return times;
}

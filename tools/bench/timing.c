/*
 * timing.c: see timing.h.
 */
#include "tools/bench/timing.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"

#define MIN_BUFFERS 16
#define MAX_BUFFERS 4096
#define WARMUP 10
#define REPEATS 100

static stg_status fill_one(stg_engine *engine, size_t bytes, const void *content, void **ret_memory,
                           stg_error *reterr) {
  stg_status status = stg_mem_alloc(engine, bytes, ret_memory, reterr);
  return status == STG_OK ? stg_mem_upload(engine, *ret_memory, content, bytes, reterr) : status;
}

stg_status stg_bench_buffers_init(stg_engine *engine, size_t bytes, const void *content,
                                  const void *read_only, struct stg_bench_buffers *ret,
                                  stg_error *reterr) {
  const struct stg_device_info *info = stg_device_get_info(stg_mem_device(engine));
  size_t count = 2 * (size_t)info->l2_bytes / bytes + 1;
  count = count < MIN_BUFFERS ? MIN_BUFFERS : count > MAX_BUFFERS ? MAX_BUFFERS : count;
  struct stg_bench_buffers buffers = {.bytes = bytes,
                                      .memory = stg_calloc(count, sizeof(void *)),
                                      .read_only = stg_calloc(count, sizeof(void *))};
  stg_status status = buffers.memory != NULL && buffers.read_only != NULL
                          ? STG_OK
                          : stg_error_memory(reterr, "the list of buffers", count * sizeof(void *));
  for (; status == STG_OK && buffers.count < count; buffers.count++) {
    status = fill_one(engine, bytes, content, &buffers.memory[buffers.count], reterr);
    if (status == STG_OK && read_only != NULL) {
      status = fill_one(engine, bytes, read_only, &buffers.read_only[buffers.count], reterr);
    }
  }
  if (status != STG_OK) {
    stg_bench_buffers_finish(engine, &buffers);
    return status;
  }
  *ret = buffers;
  return STG_OK;
}

void stg_bench_buffers_finish(stg_engine *engine, struct stg_bench_buffers *buffers) {
  for (size_t i = 0; i < buffers->count; i++) {
    stg_mem_free(engine, buffers->memory[i]);
    stg_mem_free(engine, buffers->read_only[i]);
  }
  stg_free(buffers->memory);
  stg_free(buffers->read_only);
  *buffers = (struct stg_bench_buffers){0};
}

static stg_status capture(stg_engine *engine, const struct stg_bench_buffers *buffers,
                          stg_bench_launch launch, void *user, struct stg_graph **ret_graph,
                          stg_error *reterr) {
  struct stg_device *device = stg_mem_device(engine);
  stg_stream stream = stg_mem_stream(engine);
  stg_status status = stg_capture_begin(device, stream, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; status == STG_OK && i < buffers->count; i++) {
    status = launch(user, buffers, i, stream, reterr);
  }
  size_t nodes = 0;
  struct stg_graph *graph = NULL;
  stg_status ended =
      stg_capture_end(device, stream, &graph, &nodes, status == STG_OK ? reterr : NULL);
  if (status == STG_OK) {
    status = ended;
  }
  if (status == STG_OK && nodes != buffers->count) {
    status = stg_error_set(reterr, STG_E_CUDA, "bench: %zu launches captured as %zu nodes",
                           buffers->count, nodes);
  }
  if (status != STG_OK) {
    stg_graph_destroy(device, graph);
    return status;
  }
  *ret_graph = graph;
  return STG_OK;
}

static stg_status replay(struct stg_device *device, struct stg_graph *graph, stg_stream stream,
                         struct stg_event *const events[2], double *ret_us, stg_error *reterr) {
  stg_status status = stg_event_record(device, events[0], stream, reterr);
  if (status == STG_OK) {
    status = stg_graph_launch(device, graph, stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_event_record(device, events[1], stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_event_synchronize(device, events[1], reterr);
  }
  return status == STG_OK ? stg_event_elapsed_us(device, events[0], events[1], ret_us, reterr)
                          : status;
}

static stg_status replay_all(stg_engine *engine, struct stg_graph *graph, size_t count,
                             struct stg_times *ret_time, stg_error *reterr) {
  struct stg_device *device = stg_mem_device(engine);
  struct stg_event *events[2] = {NULL, NULL};
  double us[REPEATS];
  stg_status status = stg_event_create(device, true, &events[0], reterr);
  if (status == STG_OK) {
    status = stg_event_create(device, true, &events[1], reterr);
  }
  for (int i = 0; status == STG_OK && i < WARMUP + REPEATS; i++) {
    double line_us;
    status = replay(device, graph, stg_mem_stream(engine), events, &line_us, reterr);
    if (status == STG_OK && i >= WARMUP) {
      us[i - WARMUP] = line_us / (double)count;
    }
  }
  if (status == STG_OK) {
    *ret_time = stg_times_of(us, REPEATS);
  }
  stg_event_destroy(device, events[0]);
  stg_event_destroy(device, events[1]);
  return status;
}

stg_status stg_bench_time(stg_engine *engine, const struct stg_bench_buffers *buffers,
                          stg_bench_launch launch, void *user, struct stg_times *ret_time,
                          stg_error *reterr) {
  struct stg_graph *graph = NULL;
  stg_status status = capture(engine, buffers, launch, user, &graph, reterr);
  if (status == STG_OK) {
    status = replay_all(engine, graph, buffers->count, ret_time, reterr);
    stg_graph_destroy(stg_mem_device(engine), graph);
  }
  return status;
}

/*
 * pins_bed.h: a table, a frame and a graph that a host captured with them, as CUDA's own objects,
 * since it is their life that is under test. For cmocka.
 */
#ifndef STG_TESTS_GPU_PINS_BED_H
#define STG_TESTS_GPU_PINS_BED_H

#include <string.h>
#include <time.h>

#include "runtime/context.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/steer_batch.h"

#define HIDDEN 1024
#define ROWS 40
#define SLOTS 8
#define DEADLINE_MS 20000

/* An engine of the test's own, a table, a frame beside the bed's, and tensors. */
struct fixture {
  struct steer_env *env;
  stg_engine *engine;
  struct steer_bed *bed;
  struct stg_device *device;
  const struct stg_driver *driver;
  stg_stream stream;
  struct steer_batch *batch; /* of `frame` */
  stg_frame *frame;
};

/* What a host has of a capture; CUDA's own, since that is whose life is under test. */
struct host_graph {
  CUgraph graph;
  CUgraphExec exec;
};

static inline void cuda(const struct fixture *f, CUresult result, const char *call) {
  if (result != CUDA_SUCCESS) {
    fail_msg("%s: %s", call, stg_driver_error_name(f->driver, result));
  }
}

static inline void set_slots(struct steer_bed *bed, float by) {
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    const stg_vector v = steer_bed_direction(bed, 1000 + slot, 1);
    const stg_op_call calls[] = {steer_add(v, (float)slot + by), steer_cap_max(v, 1.5F)};
    steer_bed_set(bed, slot, calls, 1 + slot % 2);
  }
}

static inline void open_fixture(void **state, struct fixture *f) {
  const stg_steer_desc desc = {.hidden_size = HIDDEN,
                               .layers = 2,
                               .dtype = STG_BF16,
                               .max_rows = 64,
                               .max_slots = 2 * SLOTS}; /* three frames' records fit */
  stg_options options;
  stg_error error = STG_ERROR_INIT;
  *f = (struct fixture){.env = *state};
  stg_options_init(&options);
  options.backend = STG_BACKEND_CUDA;
  options.cache_path = f->env->cache_path;
  options.pack_path = "";
  options.compile = STG_COMPILE_BLOCK;
  f->engine = steer_engine(&options);
  f->bed = steer_bed_on(f->env, f->engine, &desc);
  f->device = stg_mem_device(f->engine);
  f->driver = f->device->driver;
  check_ok(stg_device_hold(f->device, &error), &error);
  check_ok(stg_stream_create(f->device, &f->stream, &error), &error);
  check_ok(stg_frame_create(f->bed->steer, &f->frame, &error), &error);
  set_slots(f->bed, -2);
  /* out of place, so that a replay may run any number of times */
  f->batch = steer_batch_create(f->bed, &(struct steer_layout){.rows = ROWS, .out_of_place = true});
  f->batch->stream = f->stream;
  f->batch->frame = f->frame;
  steer_batch_fill(f->batch, 1001, 1);
  for (int64_t r = 0; r < ROWS; r++) {
    f->batch->row_map[r] = (int32_t)(r / 4 % (SLOTS + 1)) - 1;
  }
  steer_batch_send(f->batch);
  steer_batch_step(f->batch);
}

/* All graphs are gone, or their destroy is on its way. */
static inline void close_fixture(struct fixture *f) {
  stg_frame_destroy(f->frame);
  steer_batch_destroy(f->batch);
  steer_bed_destroy(f->bed);
  stg_stream_destroy(f->device, f->stream);
  stg_device_let_go(f->device);
  steer_engine_close(f->engine);
}

static inline void destroy_frames(struct fixture *f) {
  stg_frame_destroy(f->frame);
  stg_frame_destroy(f->bed->frame);
  f->frame = f->batch->frame = f->bed->frame = NULL;
}

static inline void begin(const struct fixture *f) {
  cuda(f, f->driver->stream_begin_capture(f->stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
       "cuStreamBeginCapture");
}

static inline CUgraph end(const struct fixture *f) {
  CUgraph graph = NULL;
  cuda(f, f->driver->stream_end_capture(f->stream, &graph), "cuStreamEndCapture");
  return graph;
}

static inline size_t count_nodes(const struct fixture *f, CUgraph graph) {
  size_t nodes = 99;
  cuda(f, f->driver->graph_get_nodes(graph, NULL, &nodes), "cuGraphGetNodes");
  return nodes;
}

static inline CUgraphExec instantiate(const struct fixture *f, CUgraph graph) {
  CUgraphExec exec = NULL;
  cuda(f, f->driver->graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  return exec;
}

/* One apply per layer, instantiated. Layer 1 has no chains: what layer 0 wrote is what is left. */
static inline struct host_graph captured(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  stg_apply apply = steer_batch_args(f->batch);
  begin(f);
  stg_status first = stg_steer_apply(f->frame, &apply, f->stream, &error);
  apply.layer = 1;
  apply.hidden = apply.out;
  stg_status second =
      first == STG_OK ? stg_steer_apply(f->frame, &apply, f->stream, &error) : first;
  struct host_graph graph = {.graph = end(f)};
  check_ok(second, &error);
  assert_int_equal(2, count_nodes(f, graph.graph));
  graph.exec = instantiate(f, graph.graph);
  return graph;
}

static inline void destroy_graph(const struct fixture *f, struct host_graph *graph) {
  if (graph->exec != NULL) {
    cuda(f, f->driver->graph_exec_destroy(graph->exec), "cuGraphExecDestroy");
  }
  if (graph->graph != NULL) {
    cuda(f, f->driver->graph_destroy(graph->graph), "cuGraphDestroy");
  }
  *graph = (struct host_graph){NULL, NULL};
}

static inline void replay(const struct fixture *f, const struct host_graph *graph) {
  cuda(f, f->driver->graph_launch(graph->exec, f->stream), "cuGraphLaunch");
}

/* By the map and the slots of the frame's last step. */
static inline void expect_replay_ok(struct fixture *f, const struct host_graph *graph) {
  steer_batch_send(f->batch);
  replay(f, graph);
  steer_batch_fetch(f->batch);
  steer_batch_check(f->batch);
  assert_false(memcmp(steer_batch_row(f->batch, f->batch->hidden, 5),
                      steer_batch_row(f->batch, f->batch->result, 5),
                      f->batch->row_bytes) == 0); /* a row of slot 0 */
}

static inline void expect_busy(struct fixture *f, const char *part) {
  stg_error error = STG_ERROR_INIT;
  expect_error(STG_E_BUSY, part, stg_steer_destroy(f->bed->steer, &error), &error);
}

static inline void nap(long ms) {
  const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

#endif

/*
 * timing.c: see timing.h.
 *
 * Every way of timing restores the buffers before they are worked on a second time, outside of the
 * time.
 */
#include "tools/bench/timing.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/clock.h"
#include "tools/bench/suite.h"

/* Nodes that all replays of a line may have together: long lines need few replays. */
#define MAX_LINE_NODES 400000
#define MIN_REPEATS 10
/* Calls of one batch of stg_bench_time_cpu; the launch queue has room for about a thousand. */
#define CPU_BATCH 64

struct stg_bench_timer stg_bench_timer_of(stg_engine *engine, bool quick) {
  return (struct stg_bench_timer){.engine = engine,
                                  .warmup = quick ? 1 : STG_BENCH_WARMUP,
                                  .repeats = quick ? 3 : STG_BENCH_REPEATS};
}

static stg_status make_samples(size_t count, double **ret_us, stg_error *reterr) {
  double *us = stg_calloc(count, sizeof *us);
  if (us == NULL) {
    return stg_error_memory(reterr, "measured times", count * sizeof *us);
  }
  *ret_us = us;
  return STG_OK;
}

static stg_status capture(stg_engine *engine, const struct stg_bench_buffers *buffers,
                          stg_bench_launch launch, void *user, struct stg_graph **ret_graph,
                          size_t *ret_nodes, stg_error *reterr) {
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
  if (status == STG_OK && nodes < buffers->count) {
    status = stg_error_set(reterr, STG_E_CUDA, "bench: work over %zu buffers captured as %zu nodes",
                           buffers->count, nodes);
  }
  if (status != STG_OK) {
    stg_graph_destroy(device, graph);
    return status;
  }
  *ret_graph = graph;
  *ret_nodes = nodes;
  return STG_OK;
}

/* What is put between two events: a graph, or work that the host enqueues. */
struct timed {
  struct stg_graph *graph;
  const struct stg_bench_buffers *buffers;
  stg_bench_launch launch;
  void *user;
};

static stg_status enqueue(stg_engine *engine, const struct timed *timed, size_t index,
                          stg_error *reterr) {
  stg_stream stream = stg_mem_stream(engine);
  return timed->graph != NULL
             ? stg_graph_launch(stg_mem_device(engine), timed->graph, stream, reterr)
             : timed->launch(timed->user, timed->buffers, index, stream, reterr);
}

static stg_status time_between(stg_engine *engine, const struct timed *timed, size_t index,
                               struct stg_event *const events[2], double *ret_us,
                               stg_error *reterr) {
  struct stg_device *device = stg_mem_device(engine);
  stg_stream stream = stg_mem_stream(engine);
  stg_status status = stg_event_record(device, events[0], stream, reterr);
  if (status == STG_OK) {
    status = enqueue(engine, timed, index, reterr);
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

/* A graph works on every buffer, so that each launch of it needs them fresh. */
static stg_status restore_in_time(stg_engine *engine, const struct timed *timed, size_t index,
                                  stg_error *reterr) {
  if (timed->graph == NULL && index != 0) {
    return STG_OK;
  }
  stg_status status = stg_bench_buffers_restore(engine, timed->buffers, reterr);
  /* an eager host's first event must not wait for the copy; a line's start is little of it */
  return status == STG_OK && timed->graph == NULL ? stg_mem_synchronize(engine, reterr) : status;
}

static stg_status sample_events(const struct stg_bench_timer *timer, const struct timed *timed,
                                double divisor, struct stg_times *ret_time, stg_error *reterr) {
  stg_engine *engine = timer->engine;
  struct stg_device *device = stg_mem_device(engine);
  struct stg_event *events[2] = {NULL, NULL};
  double *us = NULL;
  stg_status status = make_samples(timer->repeats, &us, reterr);
  if (status == STG_OK) {
    status = stg_event_create(device, true, &events[0], reterr);
  }
  if (status == STG_OK) {
    status = stg_event_create(device, true, &events[1], reterr);
  }
  for (unsigned i = 0; status == STG_OK && i < timer->warmup + timer->repeats; i++) {
    const size_t index = i % timed->buffers->count;
    double total_us = 0;
    status = restore_in_time(engine, timed, index, reterr);
    if (status == STG_OK) {
      status = time_between(engine, timed, index, events, &total_us, reterr);
    }
    if (status == STG_OK && i >= timer->warmup) {
      us[i - timer->warmup] = total_us / divisor;
    }
  }
  if (status == STG_OK) {
    *ret_time = stg_times_of(us, timer->repeats);
  }
  stg_event_destroy(device, events[0]);
  stg_event_destroy(device, events[1]);
  stg_free(us);
  return status;
}

stg_status stg_bench_time(const struct stg_bench_timer *timer,
                          const struct stg_bench_buffers *buffers, stg_bench_launch launch,
                          void *user, struct stg_times *ret_time, stg_error *reterr) {
  struct timed timed = {.buffers = buffers};
  size_t nodes = 0;
  stg_status status = capture(timer->engine, buffers, launch, user, &timed.graph, &nodes, reterr);
  if (status == STG_OK) {
    struct stg_bench_timer bounded = *timer;
    const size_t affordable = MAX_LINE_NODES / nodes;
    if (affordable < bounded.repeats && bounded.repeats > MIN_REPEATS) {
      bounded.repeats = affordable < MIN_REPEATS ? MIN_REPEATS : (unsigned)affordable;
      bounded.warmup = 2;
    }
    status = sample_events(&bounded, &timed, (double)buffers->count, ret_time, reterr);
    stg_graph_destroy(stg_mem_device(timer->engine), timed.graph);
  }
  return status;
}

stg_status stg_bench_time_eager(const struct stg_bench_timer *timer,
                                const struct stg_bench_buffers *buffers, stg_bench_launch launch,
                                void *user, struct stg_times *ret_time, stg_error *reterr) {
  const struct timed timed = {.buffers = buffers, .launch = launch, .user = user};
  return sample_events(timer, &timed, 1.0, ret_time, reterr);
}

static double elapsed_us(uint64_t from_ns) {
  return (double)(stg_clock_ns() - from_ns) * 1e-3;
}

stg_status stg_bench_time_wall(const struct stg_bench_timer *timer,
                               const struct stg_bench_buffers *buffers, stg_bench_launch launch,
                               void *user, struct stg_times *ret_time, stg_error *reterr) {
  stg_engine *engine = timer->engine;
  const struct timed timed = {.buffers = buffers, .launch = launch, .user = user};
  double *us = NULL;
  stg_status status = make_samples(timer->repeats, &us, reterr);
  for (unsigned i = 0; status == STG_OK && i < timer->warmup + timer->repeats; i++) {
    const size_t index = i % buffers->count;
    status = restore_in_time(engine, &timed, index, reterr);
    const uint64_t from_ns = stg_clock_ns();
    if (status == STG_OK) {
      status = enqueue(engine, &timed, index, reterr);
    }
    if (status == STG_OK) {
      status = stg_mem_synchronize(engine, reterr);
    }
    if (status == STG_OK && i >= timer->warmup) {
      us[i - timer->warmup] = elapsed_us(from_ns);
    }
  }
  if (status == STG_OK) {
    *ret_time = stg_times_of(us, timer->repeats);
  }
  stg_free(us);
  return status;
}

stg_status stg_bench_time_cpu(const struct stg_bench_timer *timer,
                              const struct stg_bench_buffers *buffers, stg_bench_launch launch,
                              void *user, struct stg_times *ret_time, stg_error *reterr) {
  double *us = NULL;
  stg_status status = make_samples(timer->repeats, &us, reterr);
  for (unsigned i = 0; status == STG_OK && i < timer->warmup + timer->repeats; i++) {
    const uint64_t from_ns = stg_clock_ns();
    for (size_t k = 0; status == STG_OK && k < CPU_BATCH; k++) {
      status = launch(user, buffers, k % buffers->count, stg_mem_stream(timer->engine), reterr);
    }
    if (status == STG_OK && i >= timer->warmup) {
      us[i - timer->warmup] = elapsed_us(from_ns) / CPU_BATCH;
    }
    if (status == STG_OK) {
      status = stg_mem_synchronize(timer->engine, reterr);
    }
  }
  if (status == STG_OK) {
    *ret_time = stg_times_of(us, timer->repeats);
  }
  stg_free(us);
  return status;
}

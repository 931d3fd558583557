/*
 * bench/warmup_stalls.c: does a call ever wait for a compiler?
 *
 * stg_steer_create compiles in its caller, so the new tables are created on a second thread, as a
 * host does it that must go on serving. Calls come at a steady pace, as decode steps do, so that
 * their number spans the compiles.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/device.h"
#include "tools/bench/calls.h"
#include "tools/bench/figures.h"
#include "tools/bench/warmup.h"
#include "tools/workload_job.h"

#define TABLES 50
#define QUICK_TABLES 2
#define CALLS 10000
#define QUICK_CALLS 100
#define MOST_CALLS 200000
#define PACE_NS 1000000
#define STALL_US 2000.0 /* over the median */

/* Hidden sizes that no other part of the bench has; rows of 16-byte multiples. */
#define FIRST_HIDDEN 1000
#define HIDDEN_STEP 40

struct builder {
  stg_engine *engine;
  size_t count;
  stg_steer *tables[TABLES];
  stg_status status;
  stg_error err;
  atomic_bool stop, done;
};

struct stalls {
  struct stg_bench_calls calls;
  struct stg_bench_vectors vectors;
  int32_t row_map[STG_BENCH_REQUESTS];
  double *us; /* [MOST_CALLS] */
};

/* Every other table declares all built-ins, the rest two ops. */
static stg_steer_desc describe_table(size_t index) {
  static const char *const few[] = {"add", "ablation"};
  return (stg_steer_desc){
      .struct_size = sizeof(stg_steer_desc),
      .hidden_size = FIRST_HIDDEN + HIDDEN_STEP * (int64_t)index,
      .dtype = STG_BF16,
      .max_rows = 64,
      .max_slots = 8,
      .ops = index % 2 != 0 ? few : NULL,
      .n_ops = index % 2 != 0 ? 2 : 0,
  };
}

static void *build_tables(void *user) {
  struct builder *builder = user;
  for (size_t i = 0; i < builder->count && builder->status == STG_OK; i++) {
    const stg_steer_desc desc = describe_table(i);
    if (atomic_load(&builder->stop)) {
      break;
    }
    builder->status = stg_steer_create(builder->engine, &desc, &builder->tables[i], &builder->err);
  }
  atomic_store(&builder->done, true);
  return NULL;
}

static void destroy_tables(struct builder *builder) {
  for (size_t i = 0; i < builder->count; i++) {
    stg_bench_calls_close(&(struct stg_bench_calls){.steer = builder->tables[i]});
  }
}

static void wait_until(struct timespec *next) {
  next->tv_nsec += PACE_NS;
  if (next->tv_nsec >= 1000000000) {
    next->tv_nsec -= 1000000000;
    next->tv_sec++;
  }
  /* early by a signal or late by a stall, the next call starts at once */
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

/* At least `least` calls, and on until `done` (NULL: no more). */
static stg_status call_on(const struct stalls *stalls, size_t least, const atomic_bool *done,
                          size_t *ret_count, stg_error *reterr) {
  struct timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  stg_status status = STG_OK;
  size_t count = 0;
  while (status == STG_OK && count < MOST_CALLS &&
         (count < least || (done != NULL && !atomic_load(done)))) {
    wait_until(&next);
    status = stg_bench_call(&stalls->calls, false, &stalls->us[count], reterr);
    count++;
  }
  *ret_count = count;
  return status;
}

static struct stg_bench_row row_of(const struct stalls *stalls, size_t count, const char *name) {
  struct stg_bench_row row = {
      .suite = "warmup", .name = name, .series = STG_BENCH_OURS, .has_wall = true};
  row.wall = stg_times_of(stalls->us, count); /* sorts them */
  size_t over = 0;
  while (over < count && stalls->us[count - 1 - over] > row.wall.median_us + STALL_US) {
    over++;
  }
  stg_bench_row_extra(&row, "calls", (double)count);
  stg_bench_row_extra(&row, "p50_us", stg_bench_percentile(stalls->us, count, 0.5));
  stg_bench_row_extra(&row, "p99_us", stg_bench_percentile(stalls->us, count, 0.99));
  stg_bench_row_extra(&row, "p100_us", stg_bench_percentile(stalls->us, count, 1));
  stg_bench_row_extra(&row, "p100_over_p50_us", row.wall.max_us - row.wall.median_us);
  stg_bench_row_extra(&row, "calls_2ms_over_p50", (double)over);
  return row;
}

static stg_status measure_alone(const struct stalls *stalls, bool quick,
                                struct stg_bench_report *report, stg_error *reterr) {
  size_t count = 0;
  stg_status status = call_on(stalls, quick ? QUICK_CALLS : CALLS, NULL, &count, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_bench_row row = row_of(stalls, count, "calls, nothing beside them");
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status report_beside(const struct stalls *stalls, size_t count,
                                const struct builder *builder, const stg_stats *before,
                                struct stg_bench_report *report, stg_error *reterr) {
  stg_stats after = {.struct_size = sizeof after};
  stg_engine_stats(stalls->calls.engine, &after);
  char name[96];
  snprintf(name, sizeof name, "calls, a second thread creating %zu new tables", builder->count);
  struct stg_bench_row row = row_of(stalls, count, name);
  stg_bench_row_extra(&row, "kernels", (double)(after.kernel_compiles - before->kernel_compiles));
  stg_bench_row_extra(&row, "compile_ms", after.compile_ms - before->compile_ms);
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status measure_beside(const struct stalls *stalls, bool quick,
                                 struct stg_bench_report *report, stg_error *reterr) {
  struct builder builder = {.engine = stalls->calls.engine,
                            .count = quick ? QUICK_TABLES : TABLES,
                            .err = STG_ERROR_INIT};
  stg_stats before = {.struct_size = sizeof before};
  stg_engine_stats(builder.engine, &before);
  pthread_t thread;
  const int failed = pthread_create(&thread, NULL, build_tables, &builder);
  if (failed != 0) {
    return stg_error_io(reterr, failed, "start", "a thread that creates tables");
  }
  size_t count = 0;
  stg_status status = call_on(stalls, quick ? QUICK_CALLS : CALLS, &builder.done, &count, reterr);
  atomic_store(&builder.stop, status != STG_OK);
  pthread_join(thread, NULL);
  if (status == STG_OK && builder.status != STG_OK) {
    status = stg_error_set(reterr, builder.status, "%s", builder.err.message);
  }
  if (status == STG_OK) {
    status = report_beside(stalls, count, &builder, &before, report, reterr);
  }
  destroy_tables(&builder);
  return status;
}

/* A decode batch, one row of each request, on a stream of the host's own. */
static stg_status open_table(struct stalls *stalls, stg_error *reterr) {
  struct stg_bench_calls *calls = &stalls->calls;
  const stg_steer_desc desc = stg_bench_calls_desc();
  for (int32_t i = 0; i < STG_BENCH_REQUESTS; i++) {
    stalls->row_map[i] = i;
  }
  calls->step = (stg_step){
      .struct_size = sizeof calls->step, .rows = STG_BENCH_REQUESTS, .row_map = stalls->row_map};
  stg_status status = stg_bench_calls_hold(calls, reterr);
  if (status == STG_OK) {
    status = stg_stream_create(stg_mem_device(calls->engine), &calls->stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_vectors_init(STG_BENCH_REQUESTS, STG_BENCH_HIDDEN, &stalls->vectors, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_rows_alloc(calls->engine, STG_BENCH_REQUESTS, STG_BENCH_HIDDEN, &calls->rows,
                                  reterr);
  }
  return status == STG_OK ? stg_bench_calls_open(calls, &desc, &stalls->vectors, reterr) : status;
}

static void close_table(struct stalls *stalls) {
  struct stg_bench_calls *calls = &stalls->calls;
  stg_bench_calls_close(calls);
  stg_mem_free(calls->engine, calls->rows);
  stg_bench_vectors_finish(&stalls->vectors);
  if (calls->stream != NULL) {
    stg_stream_destroy(stg_mem_device(calls->engine), calls->stream);
  }
  stg_bench_calls_let_go(calls);
}

stg_status stg_warmup_stalls(const struct stg_bench_options *options,
                             struct stg_bench_report *report, stg_error *reterr) {
  struct stalls stalls = {.us = stg_calloc(MOST_CALLS, sizeof(double))};
  if (stalls.us == NULL) {
    return stg_error_memory(reterr, "the times of calls", MOST_CALLS * sizeof(double));
  }
  stg_status status = stg_bench_engine_open(STG_BACKEND_CUDA, &stalls.calls.engine, reterr);
  if (status == STG_OK) {
    size_t count;
    status = open_table(&stalls, reterr);
    if (status == STG_OK) {
      status = call_on(&stalls, STG_BENCH_WARMUP, NULL, &count, reterr);
    }
    if (status == STG_OK) {
      status = measure_alone(&stalls, options->quick, report, reterr);
    }
    if (status == STG_OK) {
      status = measure_beside(&stalls, options->quick, report, reterr);
    }
    close_table(&stalls);
    stg_job_close_engine(stalls.calls.engine);
  }
  stg_free(stalls.us);
  return status;
}

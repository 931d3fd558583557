/*
 * bench/warmup_pace.c: see warmup_pace.h.
 */
#include "tools/bench/warmup_pace.h"

#include <time.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/device.h"
#include "tools/bench/figures.h"
#include "tools/workload_job.h"

#define INTERVAL_NS 1000000
#define STALL_US 2000.0 /* over the median */

static void wait_until(struct timespec *next) {
  next->tv_nsec += INTERVAL_NS;
  if (next->tv_nsec >= 1000000000) {
    next->tv_nsec -= 1000000000;
    next->tv_sec++;
  }
  /* early by a signal or late by a stall, the next call starts at once */
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

stg_status stg_pace_run(struct stg_pace *pace, size_t least, const struct stg_pace_beside *beside,
                        size_t *ret_count, stg_error *reterr) {
  struct timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  stg_status status = STG_OK;
  size_t count = 0;
  while (status == STG_OK && count < STG_PACE_MOST_CALLS &&
         (count < least || (beside->goes_on != NULL && beside->goes_on(beside->user)))) {
    wait_until(&next);
    if (beside->before != NULL) {
      status = beside->before(beside->user, count, reterr);
    }
    if (status == STG_OK) {
      status = stg_bench_call(&pace->calls, false, &pace->us[count], reterr);
      count++;
    }
  }
  *ret_count = count;
  return status;
}

struct stg_bench_row stg_pace_row(struct stg_pace *pace, size_t count, const char *name) {
  struct stg_bench_row row = {
      .suite = "warmup", .name = name, .series = STG_BENCH_OURS, .has_wall = true};
  row.wall = stg_times_of(pace->us, count); /* sorts them */
  size_t over = 0;
  while (over < count && pace->us[count - 1 - over] > row.wall.median_us + STALL_US) {
    over++;
  }
  stg_bench_row_extra(&row, "calls", (double)count);
  stg_bench_row_extra(&row, "p50_us", stg_bench_percentile(pace->us, count, 0.5));
  stg_bench_row_extra(&row, "p99_us", stg_bench_percentile(pace->us, count, 0.99));
  stg_bench_row_extra(&row, "p100_us", stg_bench_percentile(pace->us, count, 1));
  stg_bench_row_extra(&row, "p100_over_p50_us", row.wall.max_us - row.wall.median_us);
  stg_bench_row_extra(&row, "calls_2ms_over_p50", (double)over);
  return row;
}

/* A decode batch, one row of each request, on a stream of the host's own. */
static stg_status open_table(struct stg_pace *pace, stg_error *reterr) {
  struct stg_bench_calls *calls = &pace->calls;
  const stg_steer_desc desc = stg_bench_calls_desc();
  for (int32_t i = 0; i < STG_BENCH_REQUESTS; i++) {
    pace->row_map[i] = i;
  }
  calls->step = (stg_step){
      .struct_size = sizeof calls->step, .rows = STG_BENCH_REQUESTS, .row_map = pace->row_map};
  stg_status status = stg_bench_calls_hold(calls, reterr);
  if (status == STG_OK) {
    status = stg_stream_create(stg_mem_device(calls->engine), &calls->stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_vectors_init(STG_BENCH_REQUESTS, STG_BENCH_HIDDEN, &pace->vectors, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_rows_alloc(calls->engine, STG_BENCH_REQUESTS, STG_BENCH_HIDDEN, &calls->rows,
                                  reterr);
  }
  return status == STG_OK ? stg_bench_calls_open(calls, &desc, &pace->vectors, reterr) : status;
}

static void close_table(struct stg_pace *pace) {
  struct stg_bench_calls *calls = &pace->calls;
  stg_bench_calls_close(calls);
  stg_mem_free(calls->engine, calls->rows);
  stg_bench_vectors_finish(&pace->vectors);
  if (calls->stream != NULL) {
    stg_stream_destroy(stg_mem_device(calls->engine), calls->stream);
  }
  stg_bench_calls_let_go(calls);
}

static bool is_compiling(void *user) {
  const struct stg_pace *pace = user;
  return stg_bench_engine_compiles(pace->calls.engine);
}

/* With the kernels that all calls will have. */
stg_status stg_pace_open(struct stg_pace *pace, stg_compile_mode compile, stg_error *reterr) {
  const struct stg_pace_beside until_still = {.goes_on = is_compiling, .user = pace};
  *pace = (struct stg_pace){.us = stg_calloc(STG_PACE_MOST_CALLS, sizeof(double))};
  if (pace->us == NULL) {
    return stg_error_memory(reterr, "the times of calls", STG_PACE_MOST_CALLS * sizeof(double));
  }
  stg_status status = stg_bench_engine_open(STG_BACKEND_CUDA, compile, &pace->calls.engine, reterr);
  if (status == STG_OK) {
    status = open_table(pace, reterr);
  }
  if (status == STG_OK) {
    size_t count;
    status = stg_pace_run(pace, STG_BENCH_WARMUP, &until_still, &count, reterr);
  }
  if (status != STG_OK) {
    stg_pace_close(pace);
  }
  return status;
}

void stg_pace_close(struct stg_pace *pace) {
  if (pace->calls.engine != NULL) {
    close_table(pace);
    stg_job_close_engine(pace->calls.engine);
  }
  stg_free(pace->us);
  *pace = (struct stg_pace){.us = NULL};
}

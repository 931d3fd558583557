/*
 * bench/calls.c: see calls.h.
 */
#include "tools/bench/calls.h"

#include "engine/hostmem.h"
#include "engine/offline.h"
#include "runtime/clock.h"
#include "runtime/device.h"
#include "tools/bench/suite.h"
#include "tools/report.h"

stg_steer_desc stg_bench_calls_desc(void) {
  return (stg_steer_desc){
      .struct_size = sizeof(stg_steer_desc),
      .hidden_size = STG_BENCH_HIDDEN,
      .dtype = STG_BF16,
      .max_rows = STG_BENCH_REQUESTS * STG_BENCH_ROWS_PER_REQUEST,
      .max_slots = STG_BENCH_REQUESTS,
  };
}

stg_status stg_bench_calls_hold(struct stg_bench_calls *calls, stg_error *reterr) {
  struct stg_device *device = stg_mem_device(calls->engine);
  stg_status status = device != NULL ? stg_device_hold(device, reterr) : STG_OK;
  calls->held = device != NULL && status == STG_OK;
  return status;
}

void stg_bench_calls_let_go(struct stg_bench_calls *calls) {
  if (calls->held) {
    stg_device_let_go(stg_mem_device(calls->engine));
    calls->held = false;
  }
}

stg_status stg_bench_calls_fill(struct stg_bench_calls *calls,
                                const struct stg_bench_vectors *vectors, stg_error *reterr) {
  stg_status status = stg_bench_mixture_set(calls->engine, calls->steer, vectors, reterr);
  return status == STG_OK ? stg_frame_create(calls->steer, &calls->frame, reterr) : status;
}

stg_status stg_bench_calls_open(struct stg_bench_calls *calls, const stg_steer_desc *desc,
                                const struct stg_bench_vectors *vectors, stg_error *reterr) {
  stg_status status = stg_steer_create(calls->engine, desc, &calls->steer, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_bench_calls_fill(calls, vectors, reterr);
  if (status != STG_OK) {
    stg_bench_calls_close(calls);
  }
  return status;
}

void stg_bench_calls_close(struct stg_bench_calls *calls) {
  stg_frame_destroy(calls->frame);
  calls->frame = NULL;
  stg_error err = STG_ERROR_INIT;
  if (calls->steer != NULL && stg_steer_destroy(calls->steer, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message);
  }
  calls->steer = NULL;
}

static stg_status wait_for(const struct stg_bench_calls *calls, stg_error *reterr) {
  struct stg_device *device = stg_mem_device(calls->engine);
  return device != NULL ? stg_stream_synchronize(device, calls->stream, reterr) : STG_OK;
}

stg_status stg_bench_call(const struct stg_bench_calls *calls, bool apply_only, double *ret_us,
                          stg_error *reterr) {
  const stg_apply apply = {.struct_size = sizeof apply, .hidden = calls->rows};
  const uint64_t from = stg_clock_ns();
  stg_status status =
      apply_only ? STG_OK : stg_steer_step(calls->frame, &calls->step, calls->stream, reterr);
  if (status == STG_OK) {
    status = stg_steer_apply(calls->frame, &apply, calls->stream, reterr);
  }
  if (status == STG_OK) {
    status = wait_for(calls, reterr);
  }
  if (status == STG_OK) {
    *ret_us = (double)(stg_clock_ns() - from) * 1e-3;
  }
  return status;
}

stg_status stg_bench_engine_open(stg_backend backend, stg_compile_mode compile,
                                 stg_engine **ret_engine, stg_error *reterr) {
  stg_options options;
  stg_status status = stg_options_for_command(&options, reterr);
  if (status != STG_OK) {
    return status;
  }
  options.backend = backend;
  options.cache_path = NULL;
  options.cache_mode = STG_CACHE_OFF;
  if (options.compile == STG_COMPILE_DEFAULT) {
    options.compile = compile;
  }
  options.log = stg_report_log;
  return stg_engine_create(&options, ret_engine, reterr);
}

bool stg_bench_engine_compiles(const stg_engine *engine) {
  stg_stats stats = {.struct_size = sizeof stats};
  stg_engine_stats(engine, &stats);
  return stats.compiles_queued + stats.compiles_running > 0;
}

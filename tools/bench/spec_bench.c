/*
 * spec_bench.c: see spec_bench.h.
 */
#include "tools/bench/spec_bench.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tools/bench/floor.h"
#include "tools/job_table.h"
#include "tools/workload_job.h"

/* What one launch works on. */
struct steer_launch {
  stg_frame *frame;
  stg_apply apply;
};

static stg_status launch_steer(void *user, const struct stg_bench_buffers *buffers, size_t index,
                               stg_stream stream, stg_error *reterr) {
  struct steer_launch *launch = user;
  launch->apply.hidden = buffers->memory[index];
  launch->apply.residual = buffers->read_only[index];
  return stg_steer_apply(launch->frame, &launch->apply, stream, reterr);
}

static stg_status add_plan(const stg_frame *frame, struct stg_bench_row *row, stg_error *reterr) {
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_status status = stg_frame_plan(frame, &plan, reterr);
  if (status == STG_OK) {
    stg_bench_row_extra(row, "tile_rows", plan.tile_rows);
    stg_bench_row_extra(row, "registers", plan.registers);
    stg_bench_row_extra(row, "local_bytes", plan.local_bytes);
    stg_bench_row_extra(row, "compile_ms", plan.compile_ms);
  }
  return status;
}

static stg_status time_job(struct stg_job *job, struct stg_job_table *table,
                           const struct stg_bench_buffers *buffers, bool quick,
                           struct stg_bench_row *row, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  struct steer_launch launch = {
      .frame = table->frame,
      .apply = {.struct_size = sizeof launch.apply, .layer = w->layer, .row_stride = w->row_stride},
  };
  const struct stg_bench_timer timer = stg_bench_timer_of(job->engine, quick);
  struct stg_bench_floor floor = {0};
  struct stg_times copy = {0};
  stg_status status = stg_bench_floor_init(job->engine, &floor, reterr);
  if (status == STG_OK) {
    status = stg_bench_time(&timer, buffers, launch_steer, &launch, &row->device, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_time_wall(&timer, buffers, launch_steer, &launch, &row->wall, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_floor_time(&floor, &timer, buffers, &copy, reterr);
  }
  stg_bench_floor_finish(&floor);
  row->has_device = row->has_wall = true;
  row->floor_us = copy.median_us;
  stg_bench_row_extra(row, "rows", (double)w->rows);
  return status == STG_OK ? add_plan(table->frame, row, reterr) : status;
}

/* The workload's tensors, as many times over as the timing rotates through. */
static stg_status with_tensors(struct stg_job *job, struct stg_job_table *table, bool quick,
                               struct stg_bench_row *row, stg_error *reterr) {
  const struct stg_workload *w = &job->workload;
  const size_t bytes = (size_t)w->rows * (size_t)w->row_stride * stg_dtype_bytes(w->dtype);
  struct stg_bench_buffers buffers = {0};
  void *hidden = stg_calloc(bytes, 1);
  void *residual = w->pair ? stg_calloc(bytes, 1) : NULL;
  stg_status status = hidden != NULL && (residual != NULL || !w->pair)
                          ? STG_OK
                          : stg_error_memory(reterr, "the batch's rows", bytes);
  if (status == STG_OK) {
    status = stg_workload_fill(w, &w->hidden, hidden, reterr);
  }
  if (status == STG_OK && w->pair) {
    status = stg_workload_fill(w, &w->residual, residual, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_buffers_init(job->engine, bytes, hidden, residual, &buffers, reterr);
  }
  if (status == STG_OK) {
    status = time_job(job, table, &buffers, quick, row, reterr);
  }
  stg_bench_buffers_finish(job->engine, &buffers);
  stg_free(hidden);
  stg_free(residual);
  return status;
}

static stg_status bench_spec(const char *path, bool in_use, const struct stg_bench_options *options,
                             struct stg_bench_report *report, stg_error *reterr) {
  const struct stg_job_options job_options = {.backend = STG_BACKEND_CUDA,
                                              .cache_path = options->cache,
                                              .allow_outside = options->allow_outside,
                                              .declare_used = in_use};
  struct stg_job job;
  stg_status status = stg_job_open(path, &job_options, &job, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_job_table table = {0};
  struct stg_bench_row row = {
      .suite = "steer", .name = path, .series = in_use ? STG_BENCH_OURS : STG_BENCH_OURS_EVERY_OP};
  status = stg_job_table_init(&job, &table, reterr);
  if (status == STG_OK) {
    status = with_tensors(&job, &table, options->quick, &row, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_report_add(report, &row, reterr);
  }
  stg_job_table_finish(&job, &table);
  stg_job_close(&job);
  return status;
}

stg_status stg_bench_specs(const struct stg_bench_options *options, struct stg_bench_report *report,
                           stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < 2 * options->n_words; i++) {
    status = bench_spec(options->words[i / 2], i % 2 != 0, options, report, reterr);
  }
  return status;
}

/*
 * spec_bench.c: see spec_bench.h.
 */
#include "tools/bench/spec_bench.h"

#include "tools/bench/bed.h"
#include "tools/bench/floor.h"
#include "tools/job_table.h"
#include "tools/run_tensors.h"

/* What one launch works on: the apply of a run, on a buffer in the place of its tensors. */
struct steer_launch {
  stg_frame *frame;
  stg_apply apply;
};

static stg_status launch_steer(void *user, const struct stg_bench_buffers *buffers, size_t index,
                               stg_stream stream, stg_error *reterr) {
  const struct steer_launch *launch = user;
  stg_apply apply = launch->apply;
  apply.hidden = buffers->memory[index];
  apply.residual = buffers->residual[index];
  return stg_steer_apply(launch->frame, &apply, stream, reterr);
}

static stg_status time_apply(struct steer_launch *launch, const struct stg_bench_timer *timer,
                             const struct stg_bench_buffers *buffers, struct stg_bench_row *row,
                             stg_error *reterr) {
  struct stg_bench_floor floor = {0};
  struct stg_times copy = {0};
  struct stg_times early = {0};
  stg_status status = stg_bench_floor_init(timer->engine, &floor, reterr);
  if (status == STG_OK) {
    status = stg_bench_time(timer, buffers, launch_steer, launch, &row->device, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_time_wall(timer, buffers, launch_steer, launch, &row->wall, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_floor_time(&floor, timer, buffers, STG_BENCH_ORDERED, &copy, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_floor_time(&floor, timer, buffers, STG_BENCH_EARLY, &early, reterr);
  }
  stg_bench_floor_finish(&floor);
  row->has_device = row->has_wall = true;
  row->floor_us = copy.median_us;
  stg_bench_row_extra(row, "floor_early_us", early.median_us);
  stg_bench_row_extra(row, "moved_mb", stg_bench_floor_mb(buffers));
  return status;
}

/* The tensors of a run, as many times over as the timing rotates through. */
static stg_status time_job(struct stg_job *job, const struct stg_job_table *table,
                           const struct stg_run_tensors *tensors, bool quick,
                           struct stg_bench_row *row, stg_error *reterr) {
  const struct stg_bench_content content = {.bytes = tensors->bytes,
                                            .hidden = tensors->before,
                                            .residual = tensors->residual,
                                            .writes_residual = job->workload.epilogue};
  const struct stg_bench_timer timer = stg_bench_timer_of(job->engine, quick);
  struct steer_launch launch = {.frame = table->frame,
                                .apply = stg_run_tensors_apply(job, tensors)};
  struct stg_bench_buffers buffers = {0};
  stg_status status = stg_bench_buffers_init(job->engine, &content, &buffers, reterr);
  if (status == STG_OK) {
    status = time_apply(&launch, &timer, &buffers, row, reterr);
    stg_bench_buffers_finish(job->engine, &buffers);
  }
  stg_bench_row_extra(row, "rows", (double)job->workload.rows);
  return status == STG_OK ? stg_bench_bed_plan(table->frame, row, reterr) : status;
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
  struct stg_run_tensors tensors = {0};
  struct stg_job_table table = {0};
  struct stg_bench_row row = {
      .suite = "steer", .name = path, .series = in_use ? STG_BENCH_OURS : STG_BENCH_OURS_EVERY_OP};
  status = stg_run_tensors_check(&job, reterr);
  if (status == STG_OK) {
    status = stg_job_table_init(&job, &table, reterr);
  }
  if (status == STG_OK) {
    status = stg_run_tensors_init(&job, &tensors, reterr);
  }
  if (status == STG_OK) {
    status = time_job(&job, &table, &tensors, options->quick, &row, reterr);
  }
  if (status == STG_OK) {
    status = stg_bench_report_add(report, &row, reterr);
  }
  stg_run_tensors_finish(&job, &tensors);
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

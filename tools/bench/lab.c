/*
 * lab.c: see lab.h.
 */
#include "tools/bench/lab.h"

#include "engine/hostmem.h"
#include "tools/workload_job.h"

stg_status stg_bench_lab_open(const struct stg_bench_options *options, stg_launch_mode launch,
                              struct stg_bench_lab *ret, stg_error *reterr) {
  const struct stg_job_options engine_options = {
      .backend = STG_BACKEND_CUDA, .launch = launch, .cache_path = options->cache};
  struct stg_bench_lab lab = {0};
  stg_status status = stg_job_open_engine(&engine_options, &lab.engine, reterr);
  if (status == STG_OK) {
    status = stg_device_hold(stg_mem_device(lab.engine), reterr);
  }
  if (status != STG_OK) {
    stg_job_close_engine(lab.engine);
    return status;
  }
  lab.timer = stg_bench_timer_of(lab.engine, options->quick);
  status = stg_bench_floor_init(lab.engine, &lab.floor, reterr);
  if (status == STG_OK) {
    status = stg_bench_rival_kernels_init(lab.engine, &lab.rivals, reterr);
  }
  if (status != STG_OK) {
    stg_bench_lab_close(&lab);
    return status;
  }
  *ret = lab;
  return STG_OK;
}

void stg_bench_lab_close(struct stg_bench_lab *lab) {
  stg_bench_rival_kernels_finish(&lab->rivals);
  stg_bench_floor_finish(&lab->floor);
  stg_device_let_go(stg_mem_device(lab->engine));
  stg_job_close_engine(lab->engine);
  *lab = (struct stg_bench_lab){0};
}

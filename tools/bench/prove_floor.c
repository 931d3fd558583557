/*
 * prove_floor.c: see prove_floor.h.
 */
#include "tools/bench/prove_floor.h"

#include "engine/hostmem.h"
#include "tools/bench/kernels.h"
#include "tools/bench/timing.h"

#define THREADS 256
#define WARP 32
#define BLOCKS_PER_MULTIPROCESSOR 8
#define TURNS 8192
#define FMA_OF_THREAD_TURN 16
#define MMA_OF_WARP_TURN 8
#define FLOP_OF_FMA 2.0
#define FLOP_OF_MMA (2.0 * 16 * 8 * 8)

struct peak_job {
  struct stg_device *device;
  const struct stg_module *module;
  void *never;
  uint32_t blocks;
};

static stg_status launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                         stg_stream stream, stg_error *reterr) {
  const struct peak_job *job = user;
  int32_t turns = TURNS;
  float factor = 0.5F;
  void *never = job->never;
  void *args[] = {&turns, &factor, &never};
  const struct stg_launch_dims dims = {.grid_x = job->blocks, .block_x = THREADS};
  (void)buffers;
  (void)index;
  return stg_launch(job->device, job->module, &dims, args, stream, reterr);
}

/* The fastest launch: a clock that had not risen yet is no peak. */
static stg_status time_peak(const struct stg_bench_timer *timer, struct peak_job *job,
                            const struct stg_module *module, double *ret_us, stg_error *reterr) {
  const struct stg_bench_buffers once = {.count = 1};
  struct stg_times time = {0};
  job->module = module;
  stg_status status = stg_bench_time(timer, &once, launch, job, &time, reterr);
  *ret_us = time.min_us;
  return status;
}

static stg_status time_peaks(const struct stg_bench_timer *timer, struct peak_job *job,
                             struct stg_module *const modules[STG_PROVE_PEAKS],
                             struct stg_prove_peaks *ret, stg_error *reterr) {
  const double turns = (double)job->blocks * THREADS * TURNS;
  double fma_us = 0;
  double tf32_us = 0;
  stg_status status = time_peak(timer, job, modules[0], &fma_us, reterr);
  if (status == STG_OK) {
    status = time_peak(timer, job, modules[1], &tf32_us, reterr);
  }
  if (status == STG_OK) {
    ret->fma = turns * FMA_OF_THREAD_TURN * FLOP_OF_FMA / fma_us;
    ret->tf32 = turns / WARP * MMA_OF_WARP_TURN * FLOP_OF_MMA / tf32_us;
  }
  return status;
}

stg_status stg_prove_peaks_measure(stg_engine *engine, bool quick, struct stg_prove_peaks *ret,
                                   stg_error *reterr) {
  static const char *const names[STG_PROVE_PEAKS] = {STG_PROVE_PEAK_NAMES};
  struct stg_module *modules[STG_PROVE_PEAKS];
  struct stg_device *device = stg_mem_device(engine);
  const struct stg_bench_timer timer = stg_bench_timer_of(engine, quick);
  struct peak_job job = {.device = device,
                         .blocks = (uint32_t)stg_device_get_info(device)->multiprocessors *
                                   BLOCKS_PER_MULTIPROCESSOR};
  stg_status status =
      stg_bench_kernels_load(engine, "peak", names, STG_PROVE_PEAKS, modules, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_mem_alloc(engine, sizeof(uint32_t), &job.never, reterr);
  if (status == STG_OK) {
    status = time_peaks(&timer, &job, modules, ret, reterr);
    stg_mem_free(engine, job.never);
  }
  stg_bench_kernels_unload(engine, modules, STG_PROVE_PEAKS);
  return status;
}

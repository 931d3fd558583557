/*
 * floor.c: see floor.h.
 */
#include "tools/bench/floor.h"

#include "engine/hostmem.h"
#include "tools/bench/kernels.h"

static const char *const names[STG_BENCH_N_FLOOR_KERNELS] = {STG_BENCH_FLOOR_NAMES};
/* 16-byte words per thread of each copy. */
static const uint32_t words_per_thread[STG_BENCH_N_COPIES] = {1, 2, 4};
static const uint32_t block_threads[] = {128, 256, 512};
#define N_SHAPES (STG_BENCH_N_COPIES * sizeof block_threads / sizeof block_threads[0])

/* Replays that choose among the shapes; the chosen one is then timed in full. */
#define TRIAL_REPEATS 10

struct copy_job {
  struct stg_device *device;
  const struct stg_module *module;
  uint32_t threads;
  uint32_t blocks;
  int64_t words;
  bool early;
};

stg_status stg_bench_floor_init(stg_engine *engine, struct stg_bench_floor *ret,
                                stg_error *reterr) {
  struct stg_bench_floor floor = {.engine = engine};
  stg_status status = stg_bench_kernels_load(engine, "copy", names, STG_BENCH_N_FLOOR_KERNELS,
                                             floor.kernels, reterr);
  if (status == STG_OK) {
    *ret = floor;
  }
  return status;
}

void stg_bench_floor_finish(struct stg_bench_floor *floor) {
  if (floor->engine != NULL) {
    stg_bench_kernels_unload(floor->engine, floor->kernels, STG_BENCH_N_FLOOR_KERNELS);
  }
  *floor = (struct stg_bench_floor){0};
}

static stg_status launch_copy(void *user, const struct stg_bench_buffers *buffers, size_t index,
                              stg_stream stream, stg_error *reterr) {
  const struct copy_job *job = user;
  void *rows = buffers->memory[index];
  void *residual = buffers->residual[index];
  int64_t words = job->words;
  uint32_t flip = 0;
  void *args[] = {&rows, &residual, &words, &flip};
  const struct stg_launch_dims dims = {.grid_x = job->blocks, .block_x = job->threads};
  return (job->early ? stg_launch_early : stg_launch)(job->device, job->module, &dims, args, stream,
                                                      reterr);
}

/* `begin`: of STG_BENCH_N_BEGINS; all but the first are for early launches. */
static struct copy_job copy_job_of(const struct stg_bench_floor *floor,
                                   const struct stg_bench_buffers *buffers, size_t begin,
                                   size_t copy, uint32_t threads) {
  const size_t first = (2 * begin + (buffers->writes_residual ? 1 : 0)) * STG_BENCH_N_COPIES;
  const int64_t words = (int64_t)((buffers->bytes + 15) / 16); /* pitches leave room */
  const int64_t per_block = (int64_t)threads * words_per_thread[copy];
  return (struct copy_job){.device = stg_mem_device(floor->engine),
                           .module = floor->kernels[first + copy],
                           .threads = threads,
                           .blocks = (uint32_t)((words + per_block - 1) / per_block),
                           .words = words,
                           .early = begin > 0};
}

stg_status stg_bench_floor_time(const struct stg_bench_floor *floor,
                                const struct stg_bench_timer *timer,
                                const struct stg_bench_buffers *buffers, enum stg_bench_order order,
                                struct stg_times *ret_time, stg_error *reterr) {
  const size_t from = order == STG_BENCH_ORDERED ? 0 : 1;
  const size_t end = order == STG_BENCH_ORDERED ? 1 : STG_BENCH_N_BEGINS;
  struct stg_bench_timer trial = *timer;
  trial.repeats = trial.repeats < TRIAL_REPEATS ? trial.repeats : TRIAL_REPEATS;
  trial.warmup = 2;
  struct copy_job best = {.blocks = 0};
  double best_us = 0;
  for (size_t i = from * N_SHAPES; i < end * N_SHAPES; i++) {
    const size_t shape = i % N_SHAPES;
    struct copy_job job = copy_job_of(floor, buffers, i / N_SHAPES, shape % STG_BENCH_N_COPIES,
                                      block_threads[shape / STG_BENCH_N_COPIES]);
    struct stg_times time;
    stg_status status = stg_bench_time(&trial, buffers, launch_copy, &job, &time, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (best.blocks == 0 || time.median_us < best_us) {
      best = job;
      best_us = time.median_us;
    }
  }
  return stg_bench_time(timer, buffers, launch_copy, &best, ret_time, reterr);
}

double stg_bench_floor_mb(const struct stg_bench_buffers *buffers) {
  const int tensors = buffers->residual[0] == NULL ? 2 : buffers->writes_residual ? 4 : 3;
  return (double)buffers->bytes * tensors * 1e-6;
}

stg_status stg_bench_floor_cpu(const struct stg_bench_floor *floor,
                               const struct stg_bench_timer *timer,
                               const struct stg_bench_buffers *buffers, struct stg_times *ret_time,
                               stg_error *reterr) {
  struct copy_job job = copy_job_of(floor, buffers, 0, 0, 256);
  job.module = floor->kernels[STG_BENCH_N_FLOOR_KERNELS - 1];
  return stg_bench_time_cpu(timer, buffers, launch_copy, &job, ret_time, reterr);
}

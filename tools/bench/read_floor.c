/*
 * read_floor.c: see read_floor.h.
 */
#include "tools/bench/read_floor.h"

#include "engine/hostmem.h"
#include "tools/bench/kernels.h"

/* kernels/read.cu: 16-byte words per thread of K, and as many of V. */
static const char *const names[STG_BENCH_N_READS] = {"stg_read_1", "stg_read_2", "stg_read_4",
                                                     "stg_read_8"};
static const uint32_t words_per_thread[STG_BENCH_N_READS] = {1, 2, 4, 8};

/* Replays that choose among the shapes; the chosen one is then timed in full. */
#define TRIAL_REPEATS 10

struct read_job {
  struct stg_device *device;
  const struct stg_module *module;
  void *never;
  uint32_t threads;
  uint32_t blocks;
  int64_t words;
};

stg_status stg_bench_read_floor_init(stg_engine *engine, struct stg_bench_read_floor *ret,
                                     stg_error *reterr) {
  struct stg_bench_read_floor floor = {.engine = engine};
  stg_status status =
      stg_bench_kernels_load(engine, "read", names, STG_BENCH_N_READS, floor.kernels, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_mem_alloc(engine, sizeof(uint32_t), &floor.never, reterr);
  if (status != STG_OK) {
    stg_bench_read_floor_finish(&floor);
    return status;
  }
  *ret = floor;
  return STG_OK;
}

void stg_bench_read_floor_finish(struct stg_bench_read_floor *floor) {
  if (floor->engine != NULL) {
    stg_bench_kernels_unload(floor->engine, floor->kernels, STG_BENCH_N_READS);
    stg_mem_free(floor->engine, floor->never);
  }
  *floor = (struct stg_bench_read_floor){0};
}

static stg_status launch_read(void *user, const struct stg_bench_buffers *buffers, size_t index,
                              stg_stream stream, stg_error *reterr) {
  const struct read_job *job = user;
  void *k = buffers->memory[index];
  void *v = buffers->residual[index];
  void *never = job->never;
  int64_t words = job->words;
  void *args[] = {&k, &v, &words, &never};
  const struct stg_launch_dims dims = {.grid_x = job->blocks, .block_x = job->threads};
  return stg_launch(job->device, job->module, &dims, args, stream, reterr);
}

stg_status stg_bench_read_floor_time(const struct stg_bench_read_floor *floor,
                                     const struct stg_bench_timer *timer,
                                     const struct stg_bench_buffers *buffers,
                                     struct stg_times *ret_time, stg_error *reterr) {
  static const uint32_t threads[] = {128, 256, 512};
  struct stg_bench_timer trial = *timer;
  trial.repeats = trial.repeats < TRIAL_REPEATS ? trial.repeats : TRIAL_REPEATS;
  trial.warmup = 2;
  struct read_job best = {.blocks = 0};
  double best_us = 0;
  for (size_t i = 0; i < STG_BENCH_N_READS * sizeof threads / sizeof threads[0]; i++) {
    const size_t kernel = i % STG_BENCH_N_READS;
    struct read_job job = {.device = stg_mem_device(floor->engine),
                           .module = floor->kernels[kernel],
                           .never = floor->never,
                           .threads = threads[i / STG_BENCH_N_READS],
                           .words = (int64_t)(buffers->bytes / 16)};
    const int64_t per_block = (int64_t)job.threads * words_per_thread[kernel];
    job.blocks = (uint32_t)((job.words + per_block - 1) / per_block);
    struct stg_times time;
    stg_status status = stg_bench_time(&trial, buffers, launch_read, &job, &time, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (best.blocks == 0 || time.median_us < best_us) {
      best = job;
      best_us = time.median_us;
    }
  }
  return stg_bench_time(timer, buffers, launch_read, &best, ret_time, reterr);
}

/*
 * read_floor.h: the least that attention can cost: its K and V read once, on the same card.
 */
#ifndef STG_TOOLS_BENCH_READ_FLOOR_H
#define STG_TOOLS_BENCH_READ_FLOOR_H

#include "tools/bench/timing.h"

#define STG_BENCH_N_READS 4

/* Kernels of one engine. {0} is none. */
struct stg_bench_read_floor {
  stg_engine *engine;
  struct stg_module *kernels[STG_BENCH_N_READS];
  void *never; /* what a kernel would write */
};

/** Needs NVRTC. Finish before the engine is closed. */
STG_NODISCARD stg_status stg_bench_read_floor_init(stg_engine *engine,
                                                   struct stg_bench_read_floor *ret,
                                                   stg_error *reterr);
void stg_bench_read_floor_finish(struct stg_bench_read_floor *floor);

/**
 * Time the read of every buffer's memory (K) and residual (V), `bytes` of each, in several launch
 * shapes, and keep the fastest.
 */
STG_NODISCARD stg_status stg_bench_read_floor_time(const struct stg_bench_read_floor *floor,
                                                   const struct stg_bench_timer *timer,
                                                   const struct stg_bench_buffers *buffers,
                                                   struct stg_times *ret_time, stg_error *reterr);

#endif

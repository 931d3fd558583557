/*
 * floor.h: the least that moving rows can cost: the same tensors read and written in place, on the
 * same card; and the least that a launch can cost its host.
 */
#ifndef STG_TOOLS_BENCH_FLOOR_H
#define STG_TOOLS_BENCH_FLOOR_H

#include "tools/bench/timing.h"

#define STG_BENCH_N_COPIES 3
/* The copies that write one tensor, those that write two, and a kernel that does nothing. */
#define STG_BENCH_N_FLOOR_KERNELS (2 * STG_BENCH_N_COPIES + 1)

/* Kernels of one engine. {0} is none. */
struct stg_bench_floor {
  stg_engine *engine;
  struct stg_module *kernels[STG_BENCH_N_FLOOR_KERNELS];
};

/** Needs NVRTC. Finish before the engine is closed. */
STG_NODISCARD stg_status stg_bench_floor_init(stg_engine *engine, struct stg_bench_floor *ret,
                                              stg_error *reterr);
void stg_bench_floor_finish(struct stg_bench_floor *floor);

/**
 * Time the in-place copy of every buffer, in several launch shapes, and keep the fastest. With a
 * residual it reads both tensors, and writes one, or both where the work writes both.
 */
STG_NODISCARD stg_status stg_bench_floor_time(const struct stg_bench_floor *floor,
                                              const struct stg_bench_timer *timer,
                                              const struct stg_bench_buffers *buffers,
                                              struct stg_times *ret_time, stg_error *reterr);
/** CPU time of one bare kernel launch. */
STG_NODISCARD stg_status stg_bench_floor_cpu(const struct stg_bench_floor *floor,
                                             const struct stg_bench_timer *timer,
                                             const struct stg_bench_buffers *buffers,
                                             struct stg_times *ret_time, stg_error *reterr);

#endif

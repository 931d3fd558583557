/*
 * lab.h: what every measurement of a suite shares: an engine, kernels of floors and baselines.
 */
#ifndef STG_TOOLS_BENCH_LAB_H
#define STG_TOOLS_BENCH_LAB_H

#include "tools/bench/baseline.h"
#include "tools/bench/floor.h"
#include "tools/bench/suite.h"

/* {0} is none. The engine's context is current on the thread that opened it. */
struct stg_bench_lab {
  stg_engine *engine;
  struct stg_bench_timer timer;
  struct stg_bench_floor floor;
  struct stg_bench_rival_kernels rivals;
};

/** Open an engine on the GPU and compile the bench's own kernels. Closed on the same thread. */
STG_NODISCARD stg_status stg_bench_lab_open(const struct stg_bench_options *options,
                                            stg_launch_mode launch, struct stg_bench_lab *ret,
                                            stg_error *reterr);
void stg_bench_lab_close(struct stg_bench_lab *lab);

#endif

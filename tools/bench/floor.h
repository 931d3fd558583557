/*
 * floor.h: the least that moving rows can cost: the same tensors read and written in place, on the
 * same card, by launches one after the other or by such as overlap; and the least that a launch can
 * cost its host.
 */
#ifndef STG_TOOLS_BENCH_FLOOR_H
#define STG_TOOLS_BENCH_FLOOR_H

#include "tools/bench/timing.h"

#define STG_BENCH_N_COPIES 3
/* When a copy lets the launch behind it begin: at its end, at its start, with its words asked for.
 */
#define STG_BENCH_N_BEGINS 3
/* Of each of these the copies that write one tensor, then those that write two; and a kernel that
 * does nothing. */
#define STG_BENCH_N_FLOOR_KERNELS (2 * STG_BENCH_N_COPIES * STG_BENCH_N_BEGINS + 1)

/* kernels/copy.cu, in that order. */
#define STG_BENCH_COPY_NAMES(begin)                                                                \
  "stg_copy_1" begin, "stg_copy_2" begin, "stg_copy_4" begin, "stg_copy_two_1" begin,              \
      "stg_copy_two_2" begin, "stg_copy_two_4" begin
#define STG_BENCH_FLOOR_NAMES                                                                      \
  STG_BENCH_COPY_NAMES(""), STG_BENCH_COPY_NAMES("_at_start"),                                     \
      STG_BENCH_COPY_NAMES("_when_asked"), "stg_nothing"

/* How the launches of a copy stand to each other. */
enum stg_bench_order {
  STG_BENCH_ORDERED, /* plain: each begins when the one ahead of it has ended */
  STG_BENCH_EARLY    /* as a captured apply: programmatic dependent launch, on sm_90 and later */
};

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
                                              enum stg_bench_order order,
                                              struct stg_times *ret_time, stg_error *reterr);
/** The bytes that the copy of one buffer reads and writes, in 10^6. */
double stg_bench_floor_mb(const struct stg_bench_buffers *buffers);
/** CPU time of one bare kernel launch. */
STG_NODISCARD stg_status stg_bench_floor_cpu(const struct stg_bench_floor *floor,
                                             const struct stg_bench_timer *timer,
                                             const struct stg_bench_buffers *buffers,
                                             struct stg_times *ret_time, stg_error *reterr);

#endif

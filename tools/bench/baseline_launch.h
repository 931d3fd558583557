/*
 * baseline_launch.h: the launches of each baseline; `user` is a struct stg_bench_rival.
 */
#ifndef STG_TOOLS_BENCH_BASELINE_LAUNCH_H
#define STG_TOOLS_BENCH_BASELINE_LAUNCH_H

#include "tools/bench/baseline.h"

/** Per request, one kernel per operator. */
STG_NODISCARD stg_status stg_bench_launch_eager(void *user, const struct stg_bench_buffers *buffers,
                                                size_t index, stg_stream stream, stg_error *reterr);
/** Per request, one fused kernel. */
STG_NODISCARD stg_status stg_bench_launch_slices(void *user,
                                                 const struct stg_bench_buffers *buffers,
                                                 size_t index, stg_stream stream,
                                                 stg_error *reterr);
/** Per distinct chain: gather its rows, one fused kernel on them, scatter them. */
STG_NODISCARD stg_status stg_bench_launch_gather(void *user,
                                                 const struct stg_bench_buffers *buffers,
                                                 size_t index, stg_stream stream,
                                                 stg_error *reterr);
/** The cheapest of: one kernel for a uniform batch, gather and scatter, the slice loop. */
STG_NODISCARD stg_status stg_bench_launch_adaptive(void *user,
                                                   const struct stg_bench_buffers *buffers,
                                                   size_t index, stg_stream stream,
                                                   stg_error *reterr);
/** One kernel for every row; one kind of op. */
STG_NODISCARD stg_status stg_bench_launch_fused(void *user, const struct stg_bench_buffers *buffers,
                                                size_t index, stg_stream stream, stg_error *reterr);

#endif

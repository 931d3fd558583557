/*
 * timing.h: what a launch costs: on the device, between events, and to the host.
 */
#ifndef STG_TOOLS_BENCH_TIMING_H
#define STG_TOOLS_BENCH_TIMING_H

#include "tools/bench/buffers.h"
#include "tools/times.h"

/* Who times, and how often. */
struct stg_bench_timer {
  stg_engine *engine;
  unsigned warmup, repeats;
};

/** The standard numbers of repeats, or few of them. */
struct stg_bench_timer stg_bench_timer_of(stg_engine *engine, bool quick);

/* Enqueues the work over buffer `index` on `stream`: one launch or many. */
typedef stg_status (*stg_bench_launch)(void *user, const struct stg_bench_buffers *buffers,
                                       size_t index, stg_stream stream, stg_error *reterr);

/**
 * Device time: capture the work over each buffer into one line, replay it; times are per buffer.
 * Nothing of the host's is in them but the start of the line.
 */
STG_NODISCARD stg_status stg_bench_time(const struct stg_bench_timer *timer,
                                        const struct stg_bench_buffers *buffers,
                                        stg_bench_launch launch, void *user,
                                        struct stg_times *ret_time, stg_error *reterr);
/**
 * Time between an event before and one after work that the host enqueues as it goes: what a host
 * that launches eagerly gets, gaps between its launches included.
 */
STG_NODISCARD stg_status stg_bench_time_eager(const struct stg_bench_timer *timer,
                                              const struct stg_bench_buffers *buffers,
                                              stg_bench_launch launch, void *user,
                                              struct stg_times *ret_time, stg_error *reterr);
/** Time of the host's clock between two synchronisations around the work over one buffer. */
STG_NODISCARD stg_status stg_bench_time_wall(const struct stg_bench_timer *timer,
                                             const struct stg_bench_buffers *buffers,
                                             stg_bench_launch launch, void *user,
                                             struct stg_times *ret_time, stg_error *reterr);
/**
 * CPU time per call in the steady state: batches that the launch queue has room for, on the host's
 * clock, the device drained between them.
 */
STG_NODISCARD stg_status stg_bench_time_cpu(const struct stg_bench_timer *timer,
                                            const struct stg_bench_buffers *buffers,
                                            stg_bench_launch launch, void *user,
                                            struct stg_times *ret_time, stg_error *reterr);

#endif

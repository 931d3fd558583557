/*
 * timing.h: device time of a launch, cold: a captured line of launches over rotating buffers.
 *
 * The buffers together exceed the card's L2 by far, so that each launch finds its rows in device
 * memory as it would between two layers of a model. The time is that of the whole line over its
 * length.
 */
#ifndef STG_TOOLS_BENCH_TIMING_H
#define STG_TOOLS_BENCH_TIMING_H

#include <steergraph/engine.h>

#include "runtime/launch.h"
#include "tools/times.h"

/* Equal buffers on the device: rows that are written, and beside each, in pair mode, rows that are
 * read. */
struct stg_bench_buffers {
  size_t count;
  size_t bytes;
  void **memory;
  void **read_only; /* NULL elements without a pair */
};

/**
 * As many buffers of `bytes` as exceed twice the L2, at least 16, filled from `content` and, in
 * pair mode, `read_only` (NULL otherwise).
 */
STG_NODISCARD stg_status stg_bench_buffers_init(stg_engine *engine, size_t bytes,
                                                const void *content, const void *read_only,
                                                struct stg_bench_buffers *ret, stg_error *reterr);
void stg_bench_buffers_finish(stg_engine *engine, struct stg_bench_buffers *buffers);

/* Enqueues the launch over buffer `index` on `stream`, which is capturing. */
typedef stg_status (*stg_bench_launch)(void *user, const struct stg_bench_buffers *buffers,
                                       size_t index, stg_stream stream, stg_error *reterr);

/** Capture one launch per buffer and replay the line; times are per launch. */
STG_NODISCARD stg_status stg_bench_time(stg_engine *engine, const struct stg_bench_buffers *buffers,
                                        stg_bench_launch launch, void *user,
                                        struct stg_times *ret_time, stg_error *reterr);

#endif

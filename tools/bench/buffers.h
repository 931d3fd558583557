/*
 * buffers.h: equal buffers on the device that timed launches rotate through.
 *
 * Cold buffers together exceed twice the L2, so that each launch finds its rows in device memory as
 * it would between two layers of a model. Warm ones together fit into it. Work in place changes
 * the data (a row that was capped is in bounds the next time), so that the content is restored
 * before each line of launches.
 */
#ifndef STG_TOOLS_BENCH_BUFFERS_H
#define STG_TOOLS_BENCH_BUFFERS_H

#include <steergraph/engine.h>

#include "runtime/launch.h"

/* Rows that are written, and beside each, in pair mode, rows that are only read. */
struct stg_bench_buffers {
  size_t count;
  size_t bytes;
  void **memory;
  void **read_only; /* NULL elements without a pair */
  size_t pitch;     /* bytes from one to the next */
  void *area, *pristine, *read_only_area;
};

/** Buffers of `bytes` filled from `content` and, in pair mode, `read_only` (NULL otherwise). */
STG_NODISCARD stg_status stg_bench_buffers_init(stg_engine *engine, size_t bytes,
                                                const void *content, const void *read_only,
                                                struct stg_bench_buffers *ret, stg_error *reterr);
void stg_bench_buffers_finish(stg_engine *engine, struct stg_bench_buffers *buffers);

/** The first of the buffers, as many as stay in the L2 after a restore. Borrows. */
struct stg_bench_buffers stg_bench_buffers_warm(stg_engine *engine,
                                                const struct stg_bench_buffers *buffers);
/** Queue the first content again on the engine's stream. */
STG_NODISCARD stg_status stg_bench_buffers_restore(stg_engine *engine,
                                                   const struct stg_bench_buffers *buffers,
                                                   stg_error *reterr);

#endif

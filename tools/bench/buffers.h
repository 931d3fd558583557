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

/* What every buffer begins with; borrowed. */
struct stg_bench_content {
  size_t bytes;         /* of each tensor */
  const void *hidden;   /* written by the work */
  const void *residual; /* NULL without one */
  bool writes_residual; /* an epilogue's work; otherwise the residual is only read */
};

/* Rows that are written, and beside each, where there is one, its residual. */
struct stg_bench_buffers {
  size_t count;
  size_t bytes;
  void **memory;
  void **residual; /* NULL elements without one */
  bool writes_residual;
  size_t pitch;                            /* bytes from one to the next */
  void *area, *pristine;                   /* NULL both: memory that is somebody else's, or none */
  void *residual_area, *residual_pristine; /* the second only where the residual is written */
};

STG_NODISCARD stg_status stg_bench_buffers_init(stg_engine *engine,
                                                const struct stg_bench_content *content,
                                                struct stg_bench_buffers *ret, stg_error *reterr);
void stg_bench_buffers_finish(stg_engine *engine, struct stg_bench_buffers *buffers);

/** The first of the buffers, as many as stay in the L2 after a restore. Borrows. */
struct stg_bench_buffers stg_bench_buffers_warm(stg_engine *engine,
                                                const struct stg_bench_buffers *buffers);
/** Queue the first content again on the engine's stream; nothing where there is none, as for work
 * whose result does not depend on how often it is done. */
STG_NODISCARD stg_status stg_bench_buffers_restore(stg_engine *engine,
                                                   const struct stg_bench_buffers *buffers,
                                                   stg_error *reterr);

#endif

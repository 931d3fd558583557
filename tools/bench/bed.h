/*
 * bed.h: a batch on an engine, ready to be applied: its steer table, filled, and a frame, stepped.
 */
#ifndef STG_TOOLS_BENCH_BED_H
#define STG_TOOLS_BENCH_BED_H

#include <steergraph/steer.h>

#include "tools/bench/batch.h"
#include "tools/bench/buffers.h"
#include "tools/bench/report.h"

/* {0} is none. */
struct stg_bench_bed {
  stg_engine *engine;
  stg_steer *steer;
  stg_frame *frame;
  /* in the engine's memory, or NULL: of a norm; what a probe gives out, float32 [rows, 1] */
  void *weight, *probes;
};

/**
 * Create the table, set a slot per request, step. `every_op` declares all built-in ops, otherwise
 * the three that batches use, and a probe where the mix has one. Finish before the engine is
 * closed.
 */
STG_NODISCARD stg_status stg_bench_bed_init(stg_engine *engine, const struct stg_bench_batch *batch,
                                            bool every_op, struct stg_bench_bed *ret,
                                            stg_error *reterr);
void stg_bench_bed_finish(struct stg_bench_bed *bed);

/** Buffers that a bed of this batch works on. */
STG_NODISCARD stg_status stg_bench_bed_buffers(stg_engine *engine,
                                               const struct stg_bench_batch *batch,
                                               struct stg_bench_buffers *ret, stg_error *reterr);

/** What serves a frame's step, as extras of a row. */
STG_NODISCARD stg_status stg_bench_bed_plan(const stg_frame *frame, struct stg_bench_row *row,
                                            stg_error *reterr);

/** Apply to a buffer (timing.h); `user` is the bed. */
STG_NODISCARD stg_status stg_bench_bed_launch(void *user, const struct stg_bench_buffers *buffers,
                                              size_t index, stg_stream stream, stg_error *reterr);

#endif

/*
 * attn_loop.h: a block that is stepped through every length of its cache, as a model that generates
 * does: what was compiled, what it costs, how far it is from float64.
 */
#ifndef STG_TOOLS_BENCH_ATTN_LOOP_H
#define STG_TOOLS_BENCH_ATTN_LOOP_H

#include "tools/bench/attn_bed.h"
#include "tools/bench/lab.h"

#define STG_ATTN_LOOP_MAX_BATCH 64

/* {0} is none. */
struct stg_attn_loop {
  struct stg_attn_bed bed;
  void *packed;                  /* [capacity, batch, packed], made up as one tensor */
  void *out;                     /* [capacity, batch, heads, dim], of the last pass */
  stg_stats before, first, last; /* before anything was made, behind the first step, behind all */
};

/** Make the block and go once through all lengths. Finish also after a failure. */
STG_NODISCARD stg_status stg_attn_loop_init(stg_engine *engine, const struct stg_attn_case *work,
                                            struct stg_attn_loop *ret, stg_error *reterr);
void stg_attn_loop_finish(struct stg_attn_loop *loop);

/** A pass over all lengths (timing.h); `user` is the loop. */
STG_NODISCARD stg_status stg_attn_loop_pass(void *user, const struct stg_bench_buffers *buffers,
                                            size_t index, stg_stream stream, stg_error *reterr);

/** The results of the steps that are looked at, [capacity / stride, batch, heads, dim], stg_free'd.
 */
STG_NODISCARD stg_status stg_attn_loop_fetch(const struct stg_attn_loop *loop, void **ret_out,
                                             stg_error *reterr);
/** Their mean distance from a cache in float64 that grows. STG_E_CORRUPT where it is 1e-6 or more.
 */
STG_NODISCARD stg_status stg_attn_loop_mae(const struct stg_attn_loop *loop, const void *out,
                                           double *ret_mae, stg_error *reterr);
/** Device memory that the block holds: cache, tables, partial sums, the tensors of one step. */
size_t stg_attn_loop_bytes(const struct stg_attn_loop *loop);

/** Add the row of stg_attn_loop_case. */
STG_NODISCARD stg_status stg_attn_loop_report(const struct stg_bench_lab *lab,
                                              struct stg_bench_report *report, stg_error *reterr);

#endif

/*
 * bench/padding.h: the parts of the suite `padding`: random batch shapes under several lists of
 * buckets, and the device cost of a captured launch over more rows than there are.
 */
#ifndef STG_TOOLS_BENCH_PADDING_H
#define STG_TOOLS_BENCH_PADDING_H

#include "tools/bench/calls.h"
#include "tools/bench/suite.h"

/** A row per way to meet 1 000 random shapes: kernels, graphs and, on cuda, time per step + apply.
 */
STG_NODISCARD stg_status stg_padding_shapes(stg_engine *engine,
                                            const struct stg_bench_options *options,
                                            struct stg_bench_report *report, stg_error *reterr);

/** On cuda: a capture over the bucket with n real rows in it, beside a capture of exactly n. */
STG_NODISCARD stg_status stg_padding_captures(stg_engine *engine,
                                              const struct stg_bench_options *options,
                                              struct stg_bench_report *report, stg_error *reterr);

#endif

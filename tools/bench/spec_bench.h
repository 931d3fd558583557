/*
 * spec_bench.h: `bench steer SPEC...`: the apply of workload files.
 */
#ifndef STG_TOOLS_BENCH_SPEC_BENCH_H
#define STG_TOOLS_BENCH_SPEC_BENCH_H

#include "tools/bench/suite.h"

/** Time each workload of options->words with both kernels that can serve it. */
STG_NODISCARD stg_status stg_bench_specs(const struct stg_bench_options *options,
                                         struct stg_bench_report *report, stg_error *reterr);

#endif

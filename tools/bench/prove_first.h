/*
 * prove_first.h: what a process pays before its first pool is proved: with an empty cache folder,
 * and with the one that such a process has left.
 */
#ifndef STG_TOOLS_BENCH_PROVE_FIRST_H
#define STG_TOOLS_BENCH_PROVE_FIRST_H

#include "tools/bench/suite.h"

/** Start a process for each, one behind the other, and add a row for each. */
STG_NODISCARD stg_status stg_prove_first_report(const struct stg_bench_options *options,
                                                struct stg_bench_report *report, stg_error *reterr);

/**
 * In the measured process: bring a pool to its end with the cache folder options->cache, and add
 * one row of facts.
 */
STG_NODISCARD stg_status stg_prove_first_child(const struct stg_bench_options *options,
                                               struct stg_bench_report *report, stg_error *reterr);

#endif

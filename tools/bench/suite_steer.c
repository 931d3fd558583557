/*
 * suite_steer.c: prefill shapes: mixtures, lengths, pairs, and what the host pays.
 */
#include "tools/bench/spec_bench.h"

stg_status stg_bench_suite_steer(const struct stg_bench_options *options,
                                 struct stg_bench_report *report, stg_error *reterr) {
  return stg_bench_specs(options, report, reterr);
}

/*
 * bench/figures.h: figures that follow from measured times. Pure arithmetic.
 */
#ifndef STG_TOOLS_BENCH_FIGURES_H
#define STG_TOOLS_BENCH_FIGURES_H

#include <stdbool.h>
#include <stddef.h>

/**
 * The smallest of `count` > 0 ascending values that at least `share` (0..1) of them do not exceed:
 * 0.5 the lower median, 0.99 p99, 1 the largest.
 */
double stg_bench_percentile(const double *ascending, size_t count, double share);

/**
 * The number of calls after which warming up has paid for itself: the least n for which the first
 * call and n - 1 later ones cost no more than n calls of the other way. False when that never
 * comes, because a later call costs no less than the other way's.
 */
bool stg_bench_amortise(double first_us, double later_us, double other_us, double *ret_calls);

#endif

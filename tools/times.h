/*
 * times.h: what is said of repeated measurements.
 */
#ifndef STG_TOOLS_TIMES_H
#define STG_TOOLS_TIMES_H

#include <stddef.h>

struct stg_times {
  double median_us, min_us, max_us;
};

/** Summarise `count` > 0 measurements; sorts them. */
struct stg_times stg_times_of(double *us, size_t count);

#endif

/*
 * times.h: what is said of repeated measurements.
 */
#ifndef STG_TOOLS_TIMES_H
#define STG_TOOLS_TIMES_H

#include <stddef.h>

#include "runtime/base/strbuf.h"

struct stg_times {
  double median_us, min_us, max_us;
};

/** Summarise `count` > 0 measurements; sorts them. */
struct stg_times stg_times_of(double *us, size_t count);
/** "7.20 ms median (6.81 ms to 11.17 ms, 100 applies)", of `repeats` of what is counted. */
void stg_times_print(const struct stg_times *times, unsigned repeats, const char *counted,
                     struct stg_strbuf *out);

#endif

/*
 * bench/figures.c: see figures.h.
 */
#include "tools/bench/figures.h"

#include <math.h>

double stg_bench_percentile(const double *ascending, size_t count, double share) {
  const double rank = ceil(share * (double)count);
  const size_t last = count - 1;
  const size_t index = rank < 1 ? 0 : (size_t)rank - 1;
  return ascending[index < last ? index : last];
}

bool stg_bench_amortise(double first_us, double later_us, double other_us, double *ret_calls) {
  const double gain = other_us - later_us;
  const double debt = first_us - later_us;
  if (first_us <= other_us) {
    *ret_calls = 1;
    return true;
  }
  if (gain <= 0) {
    return false;
  }
  *ret_calls = ceil(debt / gain);
  return true;
}

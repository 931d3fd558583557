/*
 * times.c: see times.h.
 */
#include "tools/times.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

struct stg_times stg_times_of(double *us, size_t count) {
  qsort(us, count, sizeof *us, compare_doubles);
  return (struct stg_times){
      .median_us = (us[(count - 1) / 2] + us[count / 2]) / 2,
      .min_us = us[0],
      .max_us = us[count - 1],
  };
}

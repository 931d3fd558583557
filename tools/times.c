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

void stg_times_print_one(double us, struct stg_strbuf *out) {
  if (us < 1000) {
    stg_strbuf_printf(out, "%.1f us", us);
  } else if (us < 1e7) {
    stg_strbuf_printf(out, "%.2f ms", us / 1000);
  } else {
    stg_strbuf_printf(out, "%.1f s", us / 1e6);
  }
}

void stg_times_print(const struct stg_times *times, unsigned repeats, const char *counted,
                     struct stg_strbuf *out) {
  stg_times_print_one(times->median_us, out);
  stg_strbuf_str(out, " median (");
  stg_times_print_one(times->min_us, out);
  stg_strbuf_str(out, " to ");
  stg_times_print_one(times->max_us, out);
  stg_strbuf_printf(out, ", %u %s)", repeats, counted);
}

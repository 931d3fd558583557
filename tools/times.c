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

/* Microseconds in the unit that reads best. */
static void append_time(struct stg_strbuf *out, double us) {
  if (us < 1000) {
    stg_strbuf_printf(out, "%.1f us", us);
  } else {
    stg_strbuf_printf(out, "%.2f ms", us / 1000);
  }
}

void stg_times_print(const struct stg_times *times, unsigned repeats, const char *counted,
                     struct stg_strbuf *out) {
  append_time(out, times->median_us);
  stg_strbuf_str(out, " median (");
  append_time(out, times->min_us);
  stg_strbuf_str(out, " to ");
  append_time(out, times->max_us);
  stg_strbuf_printf(out, ", %u %s)", repeats, counted);
}

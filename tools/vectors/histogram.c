/*
 * vectors/histogram.c: bars of '#', rounded to the nearest column.
 *
 * Layers that are missing, not read or not finite keep their line, so that lines can be counted.
 */
#include "tools/vectors/histogram.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#define OTHER_COLUMNS 20 /* number, norm, gaps, and some room */
#define USUAL_COLUMNS 40
#define LEAST_COLUMNS 8

bool stg_vectors_bar_counts(const struct stg_vectors_bar *bar) {
  return !bar->missing && bar->unread == NULL && isfinite(bar->norm);
}

static double largest(const struct stg_vectors_bar *bars, size_t n_bars) {
  double max = 0;
  for (size_t i = 0; i < n_bars; i++) {
    max = stg_vectors_bar_counts(&bars[i]) && bars[i].norm > max ? bars[i].norm : max;
  }
  return max;
}

static void print_bar(const struct stg_vectors_bar *bar, double max, size_t columns,
                      struct stg_strbuf *out) {
  stg_strbuf_printf(out, "%4d ", (int)bar->number);
  if (bar->missing) {
    stg_strbuf_printf(out, "%8s  missing", "-");
  } else if (bar->unread != NULL) {
    stg_strbuf_printf(out, "%8s  %.16s is not read", "-", bar->unread);
  } else if (bar->non_finite > 0) {
    stg_strbuf_printf(out, "%8s  ? %" PRIu64 " non-finite", "nan", bar->non_finite);
  } else {
    stg_strbuf_printf(out, "%8.4g", bar->norm);
    /* the quotient first: a norm times a width could overflow */
    const double share = stg_vectors_bar_counts(bar) && max > 0 ? bar->norm / max : 0;
    const size_t length = (size_t)floor(share * (double)columns + 0.5);
    for (size_t i = 0; i < length; i++) {
      stg_strbuf_str(out, i == 0 ? "  #" : "#");
    }
  }
  stg_strbuf_char(out, '\n');
}

void stg_vectors_histogram(const char *what, const struct stg_vectors_bar *bars, size_t n_bars,
                           size_t max_width, struct stg_strbuf *out) {
  const double max = largest(bars, n_bars);
  size_t columns = USUAL_COLUMNS;
  if (max_width > 0) {
    columns = max_width < OTHER_COLUMNS + LEAST_COLUMNS ? LEAST_COLUMNS : max_width - OTHER_COLUMNS;
  }
  stg_strbuf_printf(out, "norm by %s, 0 to %.4g\n", what, max);
  for (size_t i = 0; i < n_bars; i++) {
    print_bar(&bars[i], max, columns, out);
  }
}

/*
 * vectors/histogram.h: norms of layers as bars, so that one that stands out is seen.
 */
#ifndef STG_TOOLS_VECTORS_HISTOGRAM_H
#define STG_TOOLS_VECTORS_HISTOGRAM_H

#include "runtime/base/strbuf.h"

/* One line. */
struct stg_vectors_bar {
  int32_t number; /* of the layer or row */
  bool missing;
  const char *unread; /* the dtype, of which no norm is taken; NULL: `norm` is there */
  double norm;
  uint64_t non_finite; /* elements */
};

/** Whether the bar has a length: its norm is there and finite. */
bool stg_vectors_bar_counts(const struct stg_vectors_bar *bar);
/**
 * Append "norm by `what`, 0 to MAX" and a line for each bar. A bar of the largest norm takes
 * `max_width` columns but 20; 40 where max_width is 0.
 */
void stg_vectors_histogram(const char *what, const struct stg_vectors_bar *bars, size_t n_bars,
                           size_t max_width, struct stg_strbuf *out);

#endif

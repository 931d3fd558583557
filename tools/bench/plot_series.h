/*
 * bench/plot_series.h: the series of a whole plot, their colours and their legend.
 *
 * A series has one place and one colour in every panel: ours first, in blue, then the baselines in
 * C and CUDA, then PyTorch.
 */
#ifndef STG_TOOLS_BENCH_PLOT_SERIES_H
#define STG_TOOLS_BENCH_PLOT_SERIES_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/strbuf.h"

#define STG_PLOT_MAX_SERIES 48

/* {0} has none. Names are borrowed. */
struct stg_plot_series {
  const char *names[STG_PLOT_MAX_SERIES];
  size_t n;
};

/** Add a name behind those of its kind, unless it is there or there is no room. */
void stg_plot_series_add(struct stg_plot_series *series, const char *name);
/** Its index; series->n when it is not there. */
size_t stg_plot_series_find(const struct stg_plot_series *series, const char *name);
const char *stg_plot_series_colour(const struct stg_plot_series *series, size_t index);

/** The legend, in columns from `left` to `right`; `floors`: with the line of floors. */
void stg_plot_series_draw(const struct stg_plot_series *series, bool floors, double left,
                          double right, double top, struct stg_strbuf *out);
double stg_plot_series_height(const struct stg_plot_series *series, bool floors);

#endif

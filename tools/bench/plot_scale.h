/*
 * bench/plot_scale.h: from times to heights: linear, or logarithmic where times differ much.
 */
#ifndef STG_TOOLS_BENCH_PLOT_SCALE_H
#define STG_TOOLS_BENCH_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

/* Times that differ by more than this factor are drawn on a logarithmic scale. */
#define STG_PLOT_LINEAR_SPAN 20.0
#define STG_PLOT_MAX_TICKS 16

struct stg_plot_scale {
  bool logarithmic;
  double low_us, high_us; /* low is 0 when linear, and a power of ten otherwise */
  double ticks_us[STG_PLOT_MAX_TICKS];
  size_t n_ticks;
};

/** The scale for times from `least_us` > 0 to `most_us`. */
struct stg_plot_scale stg_plot_scale_for(double least_us, double most_us);
/** The share of the axis, 0 to 1, up to which a time reaches. */
double stg_plot_scale_share(const struct stg_plot_scale *scale, double us);

#define STG_PLOT_TIME_CHARS 32
/** "850 ns", "12.6 µs", "3.04 ms", "18.4 s". */
void stg_plot_time(double us, char ret_text[STG_PLOT_TIME_CHARS]);

#endif

/*
 * bench/plot_panel.h: one panel of a plot: groups of bars, a floor line across each group, a key.
 */
#ifndef STG_TOOLS_BENCH_PLOT_PANEL_H
#define STG_TOOLS_BENCH_PLOT_PANEL_H

#include "tools/bench/report.h"

/* Which rows of a report a panel shows. */
struct stg_plot_choice {
  const char *title;
  const char *axis; /* "device time per apply" */
  const char *suite;
  const char *suffixes[2]; /* of the rows' names, NULL: none; both NULL: any name */
  bool wall;               /* draw wall times, not device times */
};

#define STG_PLOT_MAX_GROUPS 32
#define STG_PLOT_MAX_SERIES 16

/* What a panel is made of; texts and rows are the report's. */
struct stg_plot_panel {
  const struct stg_plot_choice *choice;
  const char *groups[STG_PLOT_MAX_GROUPS];
  size_t n_groups;
  const char *series[STG_PLOT_MAX_SERIES];
  size_t n_series;
  double floors_us[STG_PLOT_MAX_GROUPS];               /* 0: none */
  double us[STG_PLOT_MAX_GROUPS][STG_PLOT_MAX_SERIES]; /* 0: not measured */
};

/** Collect the rows of a choice in the order of the report; what is past the limits is left out. */
void stg_plot_panel_init(const struct stg_bench_report *report,
                         const struct stg_plot_choice *choice, struct stg_plot_panel *ret_panel);
double stg_plot_panel_width(const struct stg_plot_panel *panel);
double stg_plot_panel_height(const struct stg_plot_panel *panel);
/** Draw it with its upper left corner at (0, top). */
void stg_plot_panel_draw(const struct stg_plot_panel *panel, double top, struct stg_strbuf *out);

#endif

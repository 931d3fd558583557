/*
 * bench/plot_panel.h: one panel of a plot: groups of bars, and a floor line across each group.
 */
#ifndef STG_TOOLS_BENCH_PLOT_PANEL_H
#define STG_TOOLS_BENCH_PLOT_PANEL_H

#include "tools/bench/plot_series.h"
#include "tools/bench/report.h"

#define STG_PLOT_MAX_SUFFIXES 4

/* Which rows of a report a panel shows. Rows with warm buffers are shown by none. */
struct stg_plot_choice {
  const char *title;
  const char *axis; /* "device time per apply" */
  const char *suite;
  const char *suffixes[STG_PLOT_MAX_SUFFIXES]; /* of the rows' names; all NULL: any name */
  bool wall;                                   /* draw wall times, not device times */
  const char *prefix;                          /* of the rows' names, NULL: none */
  const char *without; /* the beginning of series that are not drawn, NULL: none */
};

#define STG_PLOT_MAX_GROUPS 32

/* What a panel is made of; texts and rows are the report's. */
struct stg_plot_panel {
  const struct stg_plot_choice *choice;
  const struct stg_plot_series *series; /* of the whole plot */
  const char *groups[STG_PLOT_MAX_GROUPS];
  size_t n_groups;
  double floors_us[STG_PLOT_MAX_GROUPS];               /* 0: none */
  double us[STG_PLOT_MAX_GROUPS][STG_PLOT_MAX_SERIES]; /* 0: not measured */
};

/** Add the series of the rows of a choice, in the order of the report. */
void stg_plot_panel_series(const struct stg_bench_report *report,
                           const struct stg_plot_choice *choice, struct stg_plot_series *series);
/** Collect the rows of a choice in the order of the report; what is past the limits is left out.
 * `series` has all that are to be drawn and outlives the panel. */
void stg_plot_panel_init(const struct stg_bench_report *report,
                         const struct stg_plot_choice *choice, const struct stg_plot_series *series,
                         struct stg_plot_panel *ret_panel);
bool stg_plot_panel_has_floor(const struct stg_plot_panel *panel);
/** The least width at which its bars can be told apart. */
double stg_plot_panel_width(const struct stg_plot_panel *panel);
/** Its height when it is drawn `width` wide. */
double stg_plot_panel_height(const struct stg_plot_panel *panel, double width);
/** Draw it from 0 to `width`, with its upper edge at `top`. */
void stg_plot_panel_draw(const struct stg_plot_panel *panel, double width, double top,
                         struct stg_strbuf *out);

#endif

/*
 * bench/show.h: give out the rows of a report: on stdout, and as a plot.
 */
#ifndef STG_TOOLS_BENCH_SHOW_H
#define STG_TOOLS_BENCH_SHOW_H

#include "tools/bench/report.h"

/**
 * Print the rows, as JSON or as a table, and then draw them.
 * @param plot the SVG file to write; NULL: none
 * @return an exit status; what failed has been said
 */
int stg_bench_show(const struct stg_bench_report *report, const struct stg_bench_machine *machine,
                   bool as_json, const char *plot);

#endif

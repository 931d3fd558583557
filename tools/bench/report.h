/*
 * bench/report.h: the measured lines of a bench, as a table for people and as JSON for scripts.
 *
 * A row says who did what (suite, name, series), what it cost and the least it could have cost. In
 * JSON each row is one object with the keys suite, name, series, card, driver, cuda, median_us,
 * min_us, max_us, wall_us, floor_us, ratio, then driver_release where it is known, and then the
 * row's extras; a key that was not measured is null. `ratio` is the device time over the floor.
 */
#ifndef STG_TOOLS_BENCH_REPORT_H
#define STG_TOOLS_BENCH_REPORT_H

#include "runtime/base/arena.h"
#include "runtime/base/strbuf.h"
#include "tools/times.h"

#define STG_BENCH_MAX_EXTRAS 20

/* Series that several suites have. */
#define STG_BENCH_OURS "steergraph" /* a table that declares the ops in use */
#define STG_BENCH_OURS_EVERY_OP "steergraph, every op"

/* A number that only some rows have. */
struct stg_bench_extra {
  const char *key; /* with its unit: "compile_ms", "tile_rows", "steergraph_x" */
  double value;
};

/* One measured line; {0} and then what was measured. */
struct stg_bench_row {
  const char *suite;
  const char *name;        /* the workload: "8 ops", "rows 543" */
  const char *series;      /* who did it: STG_BENCH_OURS, "copy", "slice loop" */
  struct stg_times device; /* on the device, per call */
  struct stg_times wall;   /* between two synchronisations of the host, per call */
  bool has_device, has_wall;
  double floor_us;            /* 0: none */
  const char *card;           /* NULL: the card of the run, as report.c is told it */
  const char *cuda;           /* NULL: the NVRTC of the run */
  const char *driver_release; /* "580.159.04"; NULL: not known */
  struct stg_bench_extra extras[STG_BENCH_MAX_EXTRAS];
  size_t n_extras;
};

/** Add an extra; asserts that there is room. `key` is borrowed. */
void stg_bench_row_extra(struct stg_bench_row *row, const char *key, double value);
/** The value of an extra, borrowed from the row, or NULL where it has none of that key. */
const double *stg_bench_row_find_extra(const struct stg_bench_row *row, const char *key);

/* Rows in the order in which they were added. {0} is an empty report. */
struct stg_bench_report {
  struct stg_bench_row *rows;
  size_t n_rows, capacity;
  struct stg_arena texts; /* of the rows */
};

/** Copy a row with its texts. STG_E_NO_MEMORY only. */
STG_NODISCARD stg_status stg_bench_report_add(struct stg_bench_report *report,
                                              const struct stg_bench_row *row, stg_error *reterr);
/** The first row of this suite, name and series, or NULL; borrowed until the next add. */
const struct stg_bench_row *stg_bench_report_find(const struct stg_bench_report *report,
                                                  const char *suite, const char *name,
                                                  const char *series);
void stg_bench_report_finish(struct stg_bench_report *report);

/* What a run was measured on; texts borrowed, NULL where there is none. */
struct stg_bench_machine {
  const char *card;
  int driver;       /* 13000 for 13.0; 0: none */
  const char *cuda; /* version of NVRTC, "13.0.88" */
  const char *driver_release;
};

/* What a run says of itself: how long its suites, its peers and all of it took, and, as its last
 * row, that it was not done when something failed. */
#define STG_BENCH_RUN "run"
#define STG_BENCH_UNFINISHED "ended by a failure"

/** Append one aligned line per row. */
void stg_bench_report_print(const struct stg_bench_report *report,
                            const struct stg_bench_machine *machine, struct stg_strbuf *out);
/** Append one JSON array. */
void stg_bench_report_json(const struct stg_bench_report *report,
                           const struct stg_bench_machine *machine, struct stg_strbuf *out);

#endif

/*
 * suite.h: the suites of `steergraph bench`: one file suite_NAME.c each, one row each in the table
 * of cmd_bench.c.
 *
 * A suite measures and adds rows to the report. It fails when something could not be measured or
 * when a baseline's result differs from ours, never because of a time. Suites print nothing but
 * progress (stg_report_progress), and run one after another in one process.
 */
#ifndef STG_TOOLS_BENCH_SUITE_H
#define STG_TOOLS_BENCH_SUITE_H

#include "tools/bench/peer_try.h"
#include "tools/bench/report.h"

/* Of the command; words are those after the suite's name, none when `all` runs. */
struct stg_bench_options {
  const char *cache;  /* cache folders RO:RW for engines; NULL: from the environment */
  bool allow_outside; /* paths of a spec may leave its folder */
  bool quick;         /* few iterations: for tests, not for numbers */
  const char *peers;  /* folder of the peer scripts; NULL: the one that is found */
  const char *const *words;
  size_t n_words;
};

/* The first word of a process that a suite starts to measure it. */
#define STG_BENCH_CHILD "child"

/* The standard configuration. */
#define STG_BENCH_REQUESTS 32
#define STG_BENCH_ROWS_PER_REQUEST 64
#define STG_BENCH_HIDDEN 4096
#define STG_BENCH_WARMUP 10
#define STG_BENCH_REPEATS 100

typedef stg_status stg_bench_suite_fn(const struct stg_bench_options *options,
                                      struct stg_bench_report *report, stg_error *reterr);

stg_bench_suite_fn stg_bench_suite_steer;      /* prefill shapes, mixtures, and their baselines */
stg_bench_suite_fn stg_bench_suite_decode;     /* one row per request */
stg_bench_suite_fn stg_bench_suite_rope;       /* split, rotate, append */
stg_bench_suite_fn stg_bench_suite_attend;     /* attention over a cache, and layers of both */
stg_bench_suite_fn stg_bench_suite_prove;      /* pools of proof searches; needs no GPU */
stg_bench_suite_fn stg_bench_suite_components; /* masked low-rank components, both ways */
stg_bench_suite_fn stg_bench_suite_warmup;     /* first result, compile times, calls to amortise */
stg_bench_suite_fn stg_bench_suite_padding;    /* what padding costs, and the compiles it avoids */
stg_bench_suite_fn stg_bench_suite_rpc;        /* bytes in, steered rows out */
stg_bench_suite_fn stg_bench_suite_numerics;   /* worst ratio to the bound; needs no GPU */
stg_bench_suite_fn stg_bench_suite_cache;      /* hits, folders of many entries; needs no GPU */

/**
 * Run the PyTorch peers of the named suites (tools/bench/peers/) and add their rows. A peer that
 * cannot be imported, fails, or whose result differs is counted in `failures` (peer_try.h), and the
 * others go on; the status is that of all else.
 */
STG_NODISCARD stg_status stg_bench_peers_run(const struct stg_bench_options *options,
                                             const char *const *suites, size_t n_suites,
                                             struct stg_bench_report *report,
                                             struct stg_peer_failures *failures, stg_error *reterr);
/** Whether the named suites have peers and their scripts are there; nothing is run. */
STG_NODISCARD stg_status stg_bench_peers_check(const struct stg_bench_options *options,
                                               const char *const *suites, size_t n_suites,
                                               stg_error *reterr);
/**
 * Whether a file can be made at `path`, as far as that can be seen without making one.
 * @return STG_E_IO
 */
STG_NODISCARD stg_status stg_bench_plot_check(const char *path, stg_error *reterr);
/** Draw the rows as an SVG file: bars by name and series, floors as lines. */
STG_NODISCARD stg_status stg_bench_plot_write(const struct stg_bench_report *report,
                                              const struct stg_bench_machine *machine,
                                              const char *path, stg_error *reterr);

#endif

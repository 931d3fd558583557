/*
 * bench/peer_run.h: run one peer script and read the rows that it hands back.
 */
#ifndef STG_TOOLS_BENCH_PEER_RUN_H
#define STG_TOOLS_BENCH_PEER_RUN_H

#include "tools/bench/report.h"

#define STG_PEER_MAX_CASES 40

/* One case as a script is told it. */
struct stg_peer_arg {
  const char *suite, *name, *folder;
};

/* A script and what it is to do. Everything is borrowed. */
struct stg_peer_call {
  const char *script; /* path of the file; its last part names the peer in messages */
  const struct stg_peer_arg *cases;
  size_t n_cases;  /* at most STG_PEER_MAX_CASES */
  const char *out; /* file for the rows; what the script says goes to out.log */
  double limit_s;
  bool quick; /* few repeats */
};

/**
 * Run `python3 SCRIPT` and add its rows to the report. A row takes floor_us from the row of
 * STG_BENCH_OURS of the same suite and name, and gets the extra "steergraph_x": its device time
 * over ours. A peer that fails may have written rows before it did: they are added too. Rows of
 * which one is wrong are not.
 * @return STG_E_IO when the script cannot be started, fails, is killed, or exceeds its limit, with
 * the peer's name and the last line that it said; STG_E_FORMAT when its rows are none.
 */
STG_NODISCARD stg_status stg_peer_run(const struct stg_peer_call *call,
                                      struct stg_bench_report *report, stg_error *reterr);

#endif

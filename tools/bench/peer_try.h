/*
 * bench/peer_try.h: run peers of which one may fail while the others go on.
 */
#ifndef STG_TOOLS_BENCH_PEER_TRY_H
#define STG_TOOLS_BENCH_PEER_TRY_H

#include "tools/bench/peer_run.h"

/* Of a run; {0} has none. */
struct stg_peer_failures {
  size_t count;
  stg_error first;
};

/**
 * stg_peer_run, and where the peer fails go on: the failure is counted and said on stderr, and a
 * row of the suite STG_BENCH_RUN, "peer NAME failed", says that rows of it may be missing.
 * @return what stg_peer_run does where a signal waits that is to end us; STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_peer_try(const struct stg_peer_call *call,
                                      struct stg_bench_report *report,
                                      struct stg_peer_failures *failures, stg_error *reterr);

#endif

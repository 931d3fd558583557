/*
 * attn_peers.h: `bench --peers` of the suites rope and attend: their cases as files, and which
 * PyTorch peers run on which.
 */
#ifndef STG_TOOLS_BENCH_ATTN_PEERS_H
#define STG_TOOLS_BENCH_ATTN_PEERS_H

#include "tools/bench/peer_try.h"
#include "tools/bench/suite.h"

/* A run over temporary case folders; all borrowed. */
struct stg_attn_peers {
  const struct stg_bench_options *options;
  const char *const *suites;
  size_t n_suites;
  const char *scripts; /* folder */
  const char *folder;  /* temporary */
  struct stg_peer_failures *failures;
};

/**
 * Write the cases of the suites, with our results once the oracle has agreed with them, run their
 * peers and add the rows. A peer that fails is counted, and others go on.
 * @return STG_E_NOT_FOUND when the report has no row of ours of a case; else as stg_peer_try and
 * stg_attn_check.
 */
STG_NODISCARD stg_status stg_attn_peers_run(const struct stg_attn_peers *run,
                                            struct stg_bench_report *report, stg_error *reterr);

#endif

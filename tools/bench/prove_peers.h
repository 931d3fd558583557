/*
 * prove_peers.h: `bench --peers` of the suite prove: its bases as files, and the PyTorch peer that
 * runs on them.
 */
#ifndef STG_TOOLS_BENCH_PROVE_PEERS_H
#define STG_TOOLS_BENCH_PROVE_PEERS_H

#include "tools/bench/peer_try.h"
#include "tools/bench/suite.h"

/* A run over temporary case folders; all borrowed. */
struct stg_prove_peers {
  const struct stg_bench_options *options;
  const char *scripts; /* folder */
  const char *folder;  /* temporary */
  struct stg_peer_failures *failures;
};

/**
 * Prove the candidates of the peer's rows, let the oracle judge, write all as files, run the peer
 * and add its rows. A peer that fails is counted.
 * @return STG_E_NOT_FOUND when the report has none of these rows of ours; else as stg_peer_try and
 * stg_prove_bed_check.
 */
STG_NODISCARD stg_status stg_prove_peers_run(const struct stg_prove_peers *run,
                                             struct stg_bench_report *report, stg_error *reterr);

#endif

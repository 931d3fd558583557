/*
 * components_peers.h: `bench --peers` of the suite components: its cases as files, and the PyTorch
 * peer that runs on them.
 */
#ifndef STG_TOOLS_BENCH_COMPONENTS_PEERS_H
#define STG_TOOLS_BENCH_COMPONENTS_PEERS_H

#include "tools/bench/components_check.h"
#include "tools/bench/peer_try.h"

/* Files of a case folder. */
#define STG_COMPONENTS_PEER_CASE "case.json"
#define STG_COMPONENTS_PEER_EXPECTED "expected.safetensors"
#define STG_COMPONENTS_PEER_SCRIPT "components.py"

/** Whether the suite is among these. */
bool stg_components_peers_wanted(const char *const *suites, size_t n_suites);

/** Write a case, and what float64 says of it as float32, into an existing folder. */
STG_NODISCARD stg_status
stg_components_peer_case_write(const struct stg_bench_components *work,
                               const struct stg_bench_components_references *references,
                               const char *folder, stg_error *reterr);

/* A run over temporary case folders; all borrowed. */
struct stg_components_peers {
  const char *scripts; /* folder */
  const char *folder;  /* temporary */
  bool quick;
  struct stg_peer_failures *failures;
};
/**
 * Write the cases, run the peer over all of them, and add its rows. What is expected is float64's,
 * which our rows were held against too: a size of which we have no kernel has peers as well.
 * @return STG_E_NOT_FOUND when the report has no row of ours of a case; else as stg_peer_try.
 */
STG_NODISCARD stg_status stg_components_peers_run(const struct stg_components_peers *run,
                                                  struct stg_bench_report *report,
                                                  stg_error *reterr);

#endif

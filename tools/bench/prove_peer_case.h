/*
 * prove_peer_case.h: a base of the suite `prove` as files, which peers/prove_case.py reads.
 */
#ifndef STG_TOOLS_BENCH_PROVE_PEER_CASE_H
#define STG_TOOLS_BENCH_PROVE_PEER_CASE_H

#include "tools/bench/prove_cases.h"

/* A row that PyTorch is measured beside. */
struct stg_prove_peer_row {
  enum stg_prove_base base;
  size_t pool;                    /* 0: of the published ones */
  enum stg_prove_published which; /* of these */
};
/* In the order in which a peer runs them: those of a base side by side, and what is compiled last.
 */
#define STG_PROVE_PEER_ROWS 12
extern const struct stg_prove_peer_row stg_prove_peer_rows[STG_PROVE_PEER_ROWS];

/** Its name in the report, of STG_PROVE_NAME_BYTES. */
void stg_prove_peer_row_name(const struct stg_prove_peer_row *row, char *name);
/** How many candidates it has. */
size_t stg_prove_peer_row_count(const struct stg_prove_peer_row *row);

/* What is written of a base. Borrowed. */
struct stg_prove_peer_case {
  enum stg_prove_base base;
  const struct stg_prover_workload *workload;
  const struct stg_prove_policy *policy;
  const stg_atom *queries; /* [n] */
  const stg_proof *proofs; /* [n] */
  size_t n;
};

/**
 * Write the files of a base into a folder that is there: its text, candidates, policy, and proofs.
 * @return STG_E_IO, STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_prove_peer_case_write(const struct stg_prove_peer_case *c,
                                                   const char *folder, stg_error *reterr);

#endif

/*
 * prove/sides.h: what proofs say of a policy: ranks of queries among their corruptions, side by
 * side and of all.
 */
#ifndef STG_TOOLS_PROVE_SIDES_H
#define STG_TOOLS_PROVE_SIDES_H

#include <steergraph/prover.h>

#include "engine/oracle/rank.h"
#include "specs/prover_pool.h"

struct stg_prove_side {
  const char *name;          /* "head", "tail", "both" */
  enum stg_prover_side side; /* of one that is a side */
  struct stg_oracle_ranking ranking;
  size_t queries, corruptions;
  size_t proved, proved_corruptions; /* of these */
  uint64_t steps;                    /* of both */
};

#define STG_PROVE_MAX_SIDES (STG_PROVER_SIDES + 1)

/* The sides of the workload in its order, then both where there are two. */
struct stg_prove_sides {
  struct stg_prove_side of[STG_PROVE_MAX_SIDES];
  size_t n;
};

/**
 * Count. `proofs` are those of the pool's candidates.
 * @param ret_ranks [pool->n_groups].
 * @return STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_prove_sides_count(const struct stg_prover_pool *pool,
                                               const stg_proof *proofs, float *ret_ranks,
                                               struct stg_prove_sides *ret_sides,
                                               stg_error *reterr);

/** "head" or "tail". */
const char *stg_prove_side_name(enum stg_prover_side side);

#endif

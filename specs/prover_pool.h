/*
 * prover_pool.h: what a workload of the family "prover" has to prove: each query, and corruptions
 * of it, in which a constant stands instead of its own.
 *
 * A group is a query on a side: the query itself, then its corruptions as they were drawn. Groups
 * come side by side in the order of the workload, and in a side query by query. A candidate's place
 * in the pool is its number, also for whoever samples.
 */
#ifndef STG_SPECS_PROVER_POOL_H
#define STG_SPECS_PROVER_POOL_H

#include "specs/prover_workload.h"

struct stg_prover_group {
  uint32_t query; /* of the workload's */
  enum stg_prover_side side;
  size_t first;   /* the query among the candidates; corruptions are behind it */
  uint32_t count; /* of corruptions: fewer than asked for where there are no more */
};

/* {0} is empty. */
struct stg_prover_pool {
  struct stg_kb_atoms candidates;
  struct stg_prover_group *groups;
  size_t n_groups; /* sides * queries */
};

/**
 * Draw. The corruptions of a group are different constants, none of them the query's own, in an
 * order that depends on the seed, the query's number and the side alone, besides the base.
 * STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_prover_pool_make(const struct stg_prover_workload *workload,
                                              struct stg_prover_pool *ret_pool, stg_error *reterr);
void stg_prover_pool_finish(struct stg_prover_pool *pool);

#endif

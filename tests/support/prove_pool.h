/*
 * prove_pool.h: a pool of queries of a generated base, with a random policy, on the CPU; and the
 * reference as its judge.
 */
#ifndef STG_TESTS_SUPPORT_PROVE_POOL_H
#define STG_TESTS_SUPPORT_PROVE_POOL_H

#include "engine/cpu/prover.h"
#include "engine/oracle/search.h"
#include "tests/support/prove_bases.h"

#define PROVE_POOL_MOST 320

struct prove_pool {
  struct stg_kb kb;
  struct stg_prove_tables tables;
  struct prove_policy policy;
  struct stg_cpu_policy *cpu_policy;
  struct stg_kb_atom candidates[PROVE_POOL_MOST];
  struct stg_prove_atom queries[PROVE_POOL_MOST];
  struct stg_cpu_pool pool;
  struct stg_prove_result results[PROVE_POOL_MOST];
  struct stg_prove_counts counts;
};

/** `n` candidates: queries of the base, and each with other constants in the place of one; limits
 * 6, 120 and 20, two threads. */
void prove_pool_open(enum stg_kb_kind kind, struct stg_prove_net net, size_t n,
                     struct prove_pool *pool);
/** Every ground atom of a small random base, which are sampled; a net of 6 to 8 and 2 blocks,
 * limits 3, 5 and 9, which much is cut by, one thread. Without candidates, so not to be judged. */
void prove_pool_open_random(uint64_t seed, struct prove_pool *pool);
void prove_pool_close(struct prove_pool *pool);
/** Run the pool as it is; fails the test where that fails. */
void prove_pool_run(struct prove_pool *pool);

/* What the reference says of results. */
struct prove_verdict {
  size_t wrong; /* queries with a pick that it would not make, or another depth or outcome */
  size_t off;   /* and with another logp */
  double most;  /* by how much at most */
  size_t outcomes[STG_PROVE_OUT_OF_STEPS + 1];
};

/** Let the reference go the way of each query. */
struct prove_verdict prove_pool_judge(const struct prove_pool *pool);
/** The same counters, counted by the reference, without its own counts of steps. */
struct stg_prove_counts prove_pool_recount(const struct prove_pool *pool);

#endif

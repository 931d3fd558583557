/*
 * cpu/prover.h: the proof search on the CPU: queries of a pool, over threads.
 *
 * A thread takes a query, goes its way to the end, and takes the next. What becomes of a query
 * depends on its number and on the seed, not on the pool it is in or on the threads.
 */
#ifndef STG_ENGINE_CPU_PROVER_H
#define STG_ENGINE_CPU_PROVER_H

#include "codegen/prover_args.h"
#include "engine/cpu/prover_derive.h"
#include "engine/cpu/prover_policy.h"

/* One run. All borrowed. */
struct stg_cpu_pool {
  const struct stg_prove_base *base;
  const struct stg_cpu_policy *policy;
  struct stg_prove_limits limits;
  const struct stg_prove_atom *queries; /* ground, of the base's predicates and constants */
  size_t n;
  uint64_t first; /* the number of queries[0] */
  size_t threads; /* at least 1, the caller's among them */
  bool sample;    /* else the largest logit, of equal ones the first */
  uint64_t seed;
  size_t traced;                                       /* the index whose steps are written down */
  struct stg_prove_step *steps;                        /* [limits.depth]; NULL: none are */
  void (*progress)(void *user, size_t done, size_t n); /* in the caller's thread; NULL */
  void *user;
};

/**
 * Run: ret_results[n]. Where a thread cannot be started, the others do its work. STG_E_NO_MEMORY,
 * before any result.
 */
STG_NODISCARD stg_status stg_cpu_prove(const struct stg_cpu_pool *pool,
                                       struct stg_prove_result *ret_results,
                                       struct stg_prove_counts *ret_counts, stg_error *reterr);

#endif

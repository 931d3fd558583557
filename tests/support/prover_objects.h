/*
 * prover_objects.h: a prover of a pool's base and weights (prove_pool.h), made by the public calls;
 * its proofs before the reference. For cmocka.
 */
#ifndef STG_TESTS_SUPPORT_PROVER_OBJECTS_H
#define STG_TESTS_SUPPORT_PROVER_OBJECTS_H

#include <steergraph/prover.h>

#include "tests/support/prove_pool.h"

/* A net that is quickly evaluated. */
extern const struct stg_prove_net prover_small_net;

struct prover_objects {
  struct prove_pool pool;
  stg_engine *engine;
  stg_prover *prover;
  stg_atom *facts, *bodies;
  stg_prover_rule *rules;
  float *blocks[4]; /* weight, bias, gain, shift of all */
  stg_atom queries[PROVE_POOL_MOST];
  stg_proof proofs[PROVE_POOL_MOST];
  /* What it is made of, and how it runs all queries. */
  stg_prover_desc desc;
  stg_prover_weights weights;
  stg_prover_run_desc run;
};

/** An engine without a cache, whose kernels are waited for. */
stg_engine *prover_engine(stg_backend backend);

/** Describe all, and open an engine; the prover is made by prover_objects_create. */
void prover_objects_open(struct prover_objects *all, stg_backend backend, enum stg_kb_kind kind,
                         struct stg_prove_net net, size_t n);
/** Make the prover, and give it its weights. */
void prover_objects_create(struct prover_objects *all);
/** Destroy what there is; the engine too. */
void prover_objects_close(struct prover_objects *all);
/** Run as `all->run` says; fails the test where that fails. */
void prover_objects_run(struct prover_objects *all);

/** Hold proofs and counters of the last run against the reference. */
void prover_objects_judge(struct prover_objects *all);
/** Of the same bits. */
bool prover_is_same(const stg_proof *a, const stg_proof *b);

#endif

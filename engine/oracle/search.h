/*
 * oracle/search.h: the reference of a whole query: steps until it is done, and its score.
 *
 * A step takes the child with the largest logit, of equal ones the first; or, where it samples, of
 * logit + g, g = -log(-log(u)) and u = ((w >> 9) + 1/2) * 2^-23, with w the word `child % 4` of
 * Philox4x32-10 under the seed, of the counter {query, query >> 32, depth, child / 4}. The log of
 * its softmax among the children, without g, is added to the query's. A child that is alone is
 * taken as it is, and adds 0.
 */
#ifndef STG_ENGINE_ORACLE_SEARCH_H
#define STG_ENGINE_ORACLE_SEARCH_H

#include "engine/oracle/policy.h"

/* Two children may be taken for one another where they are so near. */
#define STG_ORACLE_CLOSE 1e-4
/* The same where products are made in TF32, of logits that differ by about 1; and how far the
 * logarithms of all picks may be off then. */
#define STG_ORACLE_CLOSE_TF32 2e-2
#define STG_ORACLE_LOGP_TF32 5e-2

struct stg_oracle_search {
  const struct stg_kb *kb;
  const struct stg_prove_net *net;
  const struct stg_prove_weights *weights;
  struct stg_prove_limits limits;
  bool sample;
  uint64_t seed;
  double slack; /* by how much a pick that is followed may be worse than the best; 0:
                   STG_ORACLE_CLOSE */
};

/* A query's way. */
struct stg_oracle_proof {
  enum stg_prove_outcome outcome;
  uint32_t depth; /* steps */
  double logp;
  uint32_t states;    /* children that there were */
  uint32_t close;     /* steps whose two best children are STG_ORACLE_CLOSE */
  uint32_t overflows; /* steps at which the policy leaves the range of float32 */
  uint32_t wrong; /* steps, counted from 1, up to the first with another pick; 0: there is none */
  uint8_t actions[STG_PROVE_MAX_DEPTH];
};

/**
 * Search. `query` has the number `index` in its pool. With `follow`, the picks that somebody else
 * made, those are taken as far as they are no worse than the best by the slack; `wrong` says
 * which one is not, and the search ends there. Of `n_follow` picks none may be missing.
 */
void stg_oracle_prove(const struct stg_oracle_search *search, struct stg_kb_atom query,
                      uint64_t index, const uint8_t *follow, uint32_t n_follow,
                      struct stg_oracle_proof *ret_proof);

/** Its logp, less 100 where it is not proved. */
double stg_oracle_score(const struct stg_oracle_proof *proof);

#endif

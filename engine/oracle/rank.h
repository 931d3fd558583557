/*
 * oracle/rank.h: where a query stands among its corruptions, and what many such ranks say of a
 * policy.
 *
 * The rank is 1 + those above + half of those that are equal, so that K corruptions of the same
 * score give (K + 2) / 2. A score that is NaN is as one of -inf: below all numbers, and equal to
 * others that are NaN.
 */
#ifndef STG_ENGINE_ORACLE_RANK_H
#define STG_ENGINE_ORACLE_RANK_H

#include <stddef.h>

/* Hits@K: the share of ranks that are at most K. */
#define STG_ORACLE_HITS 3
extern const int stg_oracle_hits_at[STG_ORACLE_HITS]; /* 1, 3, 10 */

/* Ranks so far; {0} is none. */
struct stg_oracle_ranking {
  size_t n;
  double inverses; /* the sum of 1 / rank */
  size_t hits[STG_ORACLE_HITS];
  size_t tied; /* queries with a corruption that is equal */
};

/** The rank of a score among those of its `n` corruptions; 1 where there are none. */
double stg_oracle_rank(double score, const double *others, size_t n);
/** Count a query. Returns its rank. */
double stg_oracle_ranking_add(struct stg_oracle_ranking *ranking, double score,
                              const double *others, size_t n);
/** The mean of 1 / rank; 0 of no ranks. */
double stg_oracle_mrr(const struct stg_oracle_ranking *ranking);
/** Hits@K of stg_oracle_hits_at[which]; 0 of no ranks. */
double stg_oracle_hits(const struct stg_oracle_ranking *ranking, size_t which);

#endif

/*
 * oracle/rank.c: see rank.h.
 */
#include "engine/oracle/rank.h"

#include <math.h>

const int stg_oracle_hits_at[STG_ORACLE_HITS] = {1, 3, 10};

static double without_nan(double score) {
  return isnan(score) ? -(double)INFINITY : score;
}

/* Twice what stands above, an equal one counting once; so that nothing is rounded. */
static size_t count_halves(double score, const double *others, size_t n, size_t *ret_equal) {
  const double own = without_nan(score);
  size_t above = 0;
  *ret_equal = 0;
  for (size_t i = 0; i < n; i++) {
    const double other = without_nan(others[i]);
    above += other > own;
    *ret_equal += other == own;
  }
  return 2 * above + *ret_equal;
}

double stg_oracle_rank(double score, const double *others, size_t n) {
  size_t equal = 0;
  return 1 + (double)count_halves(score, others, n, &equal) / 2;
}

double stg_oracle_ranking_add(struct stg_oracle_ranking *ranking, double score,
                              const double *others, size_t n) {
  size_t equal = 0;
  const double rank = 1 + (double)count_halves(score, others, n, &equal) / 2;
  ranking->n++;
  ranking->inverses += 1 / rank;
  ranking->tied += equal > 0;
  for (size_t i = 0; i < STG_ORACLE_HITS; i++) {
    ranking->hits[i] += rank <= stg_oracle_hits_at[i];
  }
  return rank;
}

double stg_oracle_mrr(const struct stg_oracle_ranking *ranking) {
  return ranking->n > 0 ? ranking->inverses / (double)ranking->n : 0;
}

double stg_oracle_hits(const struct stg_oracle_ranking *ranking, size_t which) {
  return ranking->n > 0 ? (double)ranking->hits[which] / (double)ranking->n : 0;
}

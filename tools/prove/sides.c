/*
 * prove/sides.c: see sides.h. The formulas are the reference's.
 */
#include "tools/prove/sides.h"

#include "engine/oracle/search.h"
#include "runtime/base/alloc.h"

const char *stg_prove_side_name(enum stg_prover_side side) {
  return side == STG_PROVER_HEAD ? "head" : "tail";
}

static double score_of(const stg_proof *proof) {
  const struct stg_oracle_proof same = {.outcome = (enum stg_prove_outcome)proof->outcome,
                                        .logp = (double)proof->logp};
  return stg_oracle_score(&same);
}

/* The side's place, a new one where it has none: groups of a side stand together. */
static struct stg_prove_side *find_side(struct stg_prove_sides *sides, enum stg_prover_side side) {
  if (sides->n == 0 || sides->of[sides->n - 1].side != side) {
    sides->of[sides->n++] =
        (struct stg_prove_side){.name = stg_prove_side_name(side), .side = side};
  }
  return &sides->of[sides->n - 1];
}

static void add_group(const struct stg_prover_group *group, const stg_proof *proofs,
                      struct stg_prove_side *side) {
  side->queries++;
  side->corruptions += group->count;
  for (size_t i = 0; i <= group->count; i++) {
    const bool is_proved = proofs[group->first + i].outcome == STG_OUTCOME_PROVED;
    side->steps += proofs[group->first + i].depth;
    side->proved += i == 0 && is_proved;
    side->proved_corruptions += i > 0 && is_proved;
  }
}

static void add_both(struct stg_prove_sides *sides) {
  struct stg_prove_side both = {.name = "both"};
  if (sides->n < 2) {
    return;
  }
  for (size_t i = 0; i < sides->n; i++) {
    const struct stg_prove_side *side = &sides->of[i];
    both.ranking.n += side->ranking.n;
    both.ranking.inverses += side->ranking.inverses;
    both.ranking.tied += side->ranking.tied;
    for (size_t k = 0; k < STG_ORACLE_HITS; k++) {
      both.ranking.hits[k] += side->ranking.hits[k];
    }
    both.queries += side->queries;
    both.corruptions += side->corruptions;
    both.proved += side->proved;
    both.proved_corruptions += side->proved_corruptions;
    both.steps += side->steps;
  }
  sides->of[sides->n++] = both;
}

stg_status stg_prove_sides_count(const struct stg_prover_pool *pool, const stg_proof *proofs,
                                 float *ret_ranks, struct stg_prove_sides *ret_sides,
                                 stg_error *reterr) {
  const size_t n = pool->candidates.n;
  double *scores = stg_calloc(n, sizeof *scores);
  struct stg_prove_sides sides = {.n = 0};
  if (scores == NULL) {
    return stg_error_memory(reterr, "the scores of candidates", n * sizeof *scores);
  }
  for (size_t i = 0; i < n; i++) {
    scores[i] = score_of(&proofs[i]);
  }
  for (size_t i = 0; i < pool->n_groups; i++) {
    const struct stg_prover_group *group = &pool->groups[i];
    struct stg_prove_side *side = find_side(&sides, group->side);
    add_group(group, proofs, side);
    ret_ranks[i] = (float)stg_oracle_ranking_add(&side->ranking, scores[group->first],
                                                 &scores[group->first + 1], group->count);
  }
  add_both(&sides);
  *ret_sides = sides;
  stg_free(scores);
  return STG_OK;
}

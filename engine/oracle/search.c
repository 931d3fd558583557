/*
 * oracle/search.c: see search.h.
 */
#include "engine/oracle/search.h"

#include <math.h>

#include "specs/random.h"

/* One step: the children, and what the policy says of each. */
struct step {
  struct stg_oracle_children children;
  double logits[STG_PROVE_MAX_CHILDREN];
  double keys[STG_PROVE_MAX_CHILDREN]; /* what the largest of is taken */
  uint32_t best;
  double lead; /* over the next one */
  bool overflows;
};

static double gumbel(const struct stg_oracle_search *search, uint64_t index, uint32_t depth,
                     uint32_t child) {
  const uint32_t key[2] = {(uint32_t)search->seed, (uint32_t)(search->seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), depth, child / 4};
  uint32_t words[4];
  stg_philox4x32(counter, key, words);
  const double u = ((words[child % 4] >> 9) + 0.5) / 8388608.0;
  return -log(-log(u));
}

static void judge(const struct stg_oracle_search *search, const struct stg_oracle_state *state,
                  uint64_t index, uint32_t depth, struct step *step) {
  double current[STG_ORACLE_MAX_WIDTH];
  double child[STG_ORACLE_MAX_WIDTH];
  const uint32_t atoms = search->limits.atoms;
  bool fits = stg_oracle_policy(search->net, search->weights, atoms, state, current);
  for (uint32_t i = 0; i < step->children.n; i++) {
    fits &=
        stg_oracle_policy(search->net, search->weights, atoms, &step->children.states[i], child);
    step->logits[i] = stg_oracle_logit(search->net, current, child);
    step->keys[i] = step->logits[i] + (search->sample ? gumbel(search, index, depth, i) : 0.0);
  }
  step->overflows = !fits || !stg_oracle_fits(step->logits, step->children.n);
}

static void find_best(struct step *step) {
  double next = -(double)INFINITY;
  step->best = 0;
  for (uint32_t i = 1; i < step->children.n; i++) {
    if (step->keys[i] > step->keys[step->best]) {
      next = step->keys[step->best];
      step->best = i;
    } else if (step->keys[i] > next) {
      next = step->keys[i];
    }
  }
  step->lead = step->keys[step->best] - next;
}

static double log_softmax(const struct step *step, uint32_t pick) {
  double most = -(double)INFINITY;
  double sum = 0;
  for (uint32_t i = 0; i < step->children.n; i++) {
    most = fmax(most, step->logits[i]);
  }
  for (uint32_t i = 0; i < step->children.n; i++) {
    sum += exp(step->logits[i] - most);
  }
  return step->logits[pick] - most - log(sum);
}

static enum stg_prove_outcome outcome_of(const struct stg_oracle_search *search,
                                         const struct stg_oracle_state *state, uint32_t depth) {
  if (stg_oracle_is_word(search->kb, state, STG_PROVE_TRUE)) {
    return STG_PROVE_PROVED;
  }
  if (stg_oracle_is_word(search->kb, state, STG_PROVE_FALSE)) {
    return STG_PROVE_FAILED;
  }
  if (stg_oracle_is_word(search->kb, state, STG_PROVE_ENDF)) {
    return STG_PROVE_GAVE_UP;
  }
  return depth == search->limits.depth ? STG_PROVE_OUT_OF_STEPS : STG_PROVE_RUNNING;
}

/* Whether somebody's pick may stand beside the best. */
static bool is_right(const struct stg_oracle_search *search, const struct step *step,
                     uint32_t pick) {
  const double slack = search->slack > 0 ? search->slack : STG_ORACLE_CLOSE;
  return pick < step->children.n &&
         (pick == step->best || step->keys[step->best] - step->keys[pick] <= slack);
}

void stg_oracle_prove(const struct stg_oracle_search *search, struct stg_kb_atom query,
                      uint64_t index, const uint8_t *follow, uint32_t n_follow,
                      struct stg_oracle_proof *ret_proof) {
  struct stg_oracle_proof proof = {.outcome = STG_PROVE_RUNNING};
  struct stg_oracle_state state = {.n = 1, .atoms = {query}};
  struct stg_oracle_path path = {0};
  struct step step;
  stg_oracle_path_add(&path, &state);
  while (proof.outcome == STG_PROVE_RUNNING && proof.wrong == 0) {
    stg_oracle_derive(search->kb, &search->limits, query, &path, &state, &step.children);
    step.keys[0] = step.logits[0] = 0;
    step.overflows = false;
    if (step.children.n > 1) {
      judge(search, &state, index, proof.depth, &step);
    }
    proof.overflows += step.overflows;
    find_best(&step);
    uint32_t pick = step.best;
    if (follow != NULL) {
      pick = proof.depth < n_follow ? follow[proof.depth] : STG_PROVE_MAX_CHILDREN;
    }
    if (!is_right(search, &step, pick)) {
      proof.wrong = proof.depth + 1;
      break;
    }
    proof.close += step.lead <= STG_ORACLE_CLOSE;
    proof.states += step.children.n;
    proof.logp += step.children.n > 1 ? log_softmax(&step, pick) : 0;
    proof.actions[proof.depth++] = (uint8_t)pick;
    state = step.children.states[pick];
    stg_oracle_path_add(&path, &state);
    proof.outcome = outcome_of(search, &state, proof.depth);
  }
  *ret_proof = proof;
}

double stg_oracle_score(const struct stg_oracle_proof *proof) {
  return proof->logp - (proof->outcome == STG_PROVE_PROVED ? 0 : STG_PROVE_NOT_PROVED);
}

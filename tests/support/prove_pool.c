/*
 * prove_pool.c: see prove_pool.h.
 */
#include "tests/support/prove_pool.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "specs/kb_index.h"
#include "specs/random.h"

static void make_candidates(size_t n, struct prove_pool *pool) {
  for (size_t i = 0; i < n; i++) {
    struct stg_kb_atom atom = pool->kb.queries.list[i / 4 % pool->kb.queries.n];
    const int32_t other = (int32_t)stg_random_between(5, 1, i, 1, (int64_t)pool->kb.constants.n);
    atom.arg1 = i % 4 == 1 || i % 4 == 2 ? other : atom.arg1;
    atom.arg0 = i % 4 == 3 ? other : atom.arg0;
    pool->candidates[i] = atom;
    pool->queries[i] = prove_atom_of(atom);
  }
}

void prove_pool_open(enum stg_kb_kind kind, struct stg_prove_net net, size_t n,
                     struct prove_pool *pool) {
  const struct stg_prove_limits limits = {.atoms = 6, .children = 120, .depth = 20};
  assert_in_range(n, 0, PROVE_POOL_MOST);
  *pool = (struct prove_pool){.cpu_policy = NULL};
  prove_base_generate(kind, 1, &pool->kb);
  prove_base_tables(&pool->kb, &pool->tables);
  prove_policy_random(&pool->kb, 1, limits.atoms, net, &pool->policy);
  assert_int_equal(stg_cpu_policy_create(&net, &pool->policy.weights, &pool->tables.base,
                                         limits.atoms, &pool->cpu_policy, NULL),
                   STG_OK);
  make_candidates(n, pool);
  pool->pool = (struct stg_cpu_pool){.base = &pool->tables.base,
                                     .policy = pool->cpu_policy,
                                     .limits = limits,
                                     .queries = pool->queries,
                                     .n = n,
                                     .threads = 2,
                                     .seed = 7};
}

void prove_pool_open_random(uint64_t seed, struct prove_pool *pool) {
  const struct stg_prove_limits limits = {.atoms = 3, .children = 5, .depth = 9};
  const struct stg_prove_net net = {.embed = 6, .hidden = 8, .blocks = 2, .epsilon = 1e-5f};
  const int32_t n = PROVE_RANDOM_CONSTANTS;
  size_t n_queries = 0;
  *pool = (struct prove_pool){.cpu_policy = NULL};
  prove_base_random(seed, &pool->kb);
  prove_base_tables(&pool->kb, &pool->tables);
  prove_policy_random(&pool->kb, seed, limits.atoms, net, &pool->policy);
  assert_int_equal(stg_cpu_policy_create(&net, &pool->policy.weights, &pool->tables.base,
                                         limits.atoms, &pool->cpu_policy, NULL),
                   STG_OK);
  for (int32_t p = 1; p <= (int32_t)pool->kb.predicates.n; p++) {
    for (int32_t pair = 0; pair < n * n; pair++) {
      pool->queries[n_queries++] = (struct stg_prove_atom){p, 1 + pair / n, 1 + pair % n};
    }
  }
  pool->pool = (struct stg_cpu_pool){.base = &pool->tables.base,
                                     .policy = pool->cpu_policy,
                                     .limits = limits,
                                     .queries = pool->queries,
                                     .n = n_queries,
                                     .threads = 1,
                                     .sample = true,
                                     .seed = seed};
}

void prove_pool_close(struct prove_pool *pool) {
  stg_cpu_policy_destroy(pool->cpu_policy);
  prove_policy_finish(&pool->policy);
  stg_prove_tables_finish(&pool->tables);
  stg_kb_finish(&pool->kb);
}

void prove_pool_run(struct prove_pool *pool) {
  stg_error err = STG_ERROR_INIT;
  memset(pool->results, 0, sizeof pool->results);
  if (stg_cpu_prove(&pool->pool, pool->results, &pool->counts, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
}

struct prove_verdict prove_pool_judge(const struct prove_pool *pool) {
  const struct stg_oracle_search search = {.kb = &pool->kb,
                                           .net = &pool->policy.net,
                                           .weights = &pool->policy.weights,
                                           .limits = pool->pool.limits,
                                           .sample = pool->pool.sample,
                                           .seed = pool->pool.seed};
  struct prove_verdict verdict = {0};
  for (size_t i = 0; i < pool->pool.n; i++) {
    const struct stg_prove_result *result = &pool->results[i];
    struct stg_oracle_proof proof;
    stg_oracle_prove(&search, pool->candidates[i], i, result->actions, result->depth, &proof);
    verdict.wrong += proof.wrong != 0 || proof.depth != result->depth ||
                     proof.outcome != (enum stg_prove_outcome)result->outcome;
    const double off = fabs((double)result->logp - proof.logp);
    verdict.off += proof.wrong == 0 && !(off <= 1e-4);
    verdict.most = proof.wrong == 0 && off > verdict.most ? off : verdict.most;
    verdict.outcomes[result->outcome]++;
  }
  return verdict;
}

/* What the index of the specification has for a goal. */
struct indices {
  struct stg_kb_index sides[STG_KB_SIDES];
};

static uint64_t count_pairs(const struct prove_pool *pool, const struct indices *indices,
                            struct stg_kb_atom goal) {
  const int32_t n = (int32_t)pool->kb.constants.n;
  uint64_t pairs = 0;
  for (size_t i = 0; i < pool->kb.n_rules; i++) {
    pairs += pool->kb.rules[i].head.pred == goal.pred;
  }
  if (goal.arg0 <= n && goal.arg1 <= n) {
    return pairs + (stg_kb_find_fact(&pool->kb, goal) != SIZE_MAX);
  }
  const enum stg_kb_side side = goal.arg0 <= n   ? STG_KB_BY_ARG0
                                : goal.arg1 <= n ? STG_KB_BY_ARG1
                                                 : STG_KB_BY_PRED;
  const int32_t arg = side == STG_KB_BY_ARG0 ? goal.arg0 : side == STG_KB_BY_ARG1 ? goal.arg1 : 0;
  const struct stg_kb_bucket *bucket = stg_kb_index_find(&indices->sides[side], goal.pred, arg);
  return pairs + (bucket != NULL ? bucket->count : 0);
}

static void recount_query(const struct prove_pool *pool, const struct indices *indices, size_t i,
                          struct stg_prove_counts *counts) {
  static struct stg_oracle_children children;
  const uint32_t most = pool->pool.limits.children;
  struct stg_oracle_state state = {.n = 1, .atoms = {pool->candidates[i]}};
  struct stg_oracle_path path = {0};
  bool judged = false;
  stg_oracle_path_add(&path, &state);
  for (uint32_t step = 0; step < pool->results[i].depth; step++) {
    stg_oracle_derive(&pool->kb, &pool->pool.limits, pool->candidates[i], &path, &state, &children);
    counts->query_steps++;
    counts->children += children.n;
    counts->states += children.n == 1 ? 0 : children.n + !judged;
    judged = judged || children.n > 1;
    counts->pairs += count_pairs(pool, indices, state.atoms[0]);
    if (!stg_oracle_is_word(&pool->kb, &children.states[0], STG_PROVE_TRUE)) {
      counts->cut += children.unified > most ? children.unified - most : 0;
      counts->rejected += children.rejected;
      counts->seen += children.seen;
    }
    state = children.states[pool->results[i].actions[step]];
    stg_oracle_path_add(&path, &state);
  }
  counts->proofs += stg_oracle_is_word(&pool->kb, &state, STG_PROVE_TRUE);
  counts->close += pool->results[i].close;
}

struct stg_prove_counts prove_pool_recount(const struct prove_pool *pool) {
  struct stg_prove_counts counts = {0};
  struct indices indices;
  for (int side = 0; side < STG_KB_SIDES; side++) {
    assert_int_equal(
        stg_kb_index_init(&pool->kb, (enum stg_kb_side)side, &indices.sides[side], NULL), STG_OK);
  }
  for (size_t i = 0; i < pool->pool.n; i++) {
    recount_query(pool, &indices, i, &counts);
  }
  for (int side = 0; side < STG_KB_SIDES; side++) {
    stg_kb_index_finish(&indices.sides[side]);
  }
  counts.slot_steps = counts.query_steps;
  return counts;
}

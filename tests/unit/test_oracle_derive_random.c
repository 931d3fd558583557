/*
 * test_oracle_derive_random.c: on random bases, what the reference of the proof search can prove
 * follows from their facts bottom up, and what follows by one rule it can prove.
 */
#include "engine/oracle/derive.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/prove_bases.h"

#define PREDICATES PROVE_RANDOM_PREDICATES
#define CONSTANTS PROVE_RANDOM_CONSTANTS
#define BASES 300
#define SEARCH_DEPTH 4

static const struct stg_prove_limits limits = {.atoms = 6, .children = 120, .depth = 20};

/* Which ground atoms hold. */
typedef bool truth[PREDICATES][CONSTANTS][CONSTANTS];

static bool holds(truth known, struct stg_kb_atom atom, const uint32_t *values) {
  const uint32_t a = atom.arg0 < 0 ? values[-atom.arg0 - 1] : (uint32_t)atom.arg0 - 1;
  const uint32_t b = atom.arg1 < 0 ? values[-atom.arg1 - 1] : (uint32_t)atom.arg1 - 1;
  return known[atom.pred - 1][a][b];
}

/* What follows by one rule from what is known, under any values of its variables. */
static bool follow_once(const struct stg_kb *kb, truth known, truth next) {
  bool changed = false;
  for (size_t i = 0; i < kb->n_rules; i++) {
    const struct stg_kb_rule *rule = &kb->rules[i];
    for (uint32_t code = 0; code < CONSTANTS * CONSTANTS * CONSTANTS; code++) {
      const uint32_t values[] = {code % CONSTANTS, code / CONSTANTS % CONSTANTS,
                                 code / CONSTANTS / CONSTANTS};
      bool all = true;
      for (uint32_t k = 0; k < rule->n_body; k++) {
        all = all && holds(known, rule->body[k], values);
      }
      if (all && !holds(next, rule->head, values)) {
        const struct stg_kb_atom head = rule->head;
        const uint32_t a = head.arg0 < 0 ? values[-head.arg0 - 1] : (uint32_t)head.arg0 - 1;
        const uint32_t b = head.arg1 < 0 ? values[-head.arg1 - 1] : (uint32_t)head.arg1 - 1;
        next[head.pred - 1][a][b] = true;
        changed = true;
      }
    }
  }
  return changed;
}

/* A state on the way, its children, and which of them is tried next. */
struct level {
  struct stg_oracle_path path;
  struct stg_oracle_children children;
  uint32_t next;
};

/* True: this is a proof. */
static bool enter(const struct stg_kb *kb, struct stg_kb_atom query,
                  const struct stg_oracle_state *state, struct level *level) {
  stg_oracle_path_add(&level->path, state);
  stg_oracle_derive(kb, &limits, query, &level->path, state, &level->children);
  level->next = 0;
  return stg_oracle_is_word(kb, &level->children.states[0], STG_PROVE_TRUE);
}

/* Whether any choice of children leads to True. */
static bool search(const struct stg_kb *kb, struct stg_kb_atom query) {
  static struct level levels[SEARCH_DEPTH];
  const struct stg_oracle_state start = {.n = 1, .atoms = {query}};
  uint32_t depth = 1; /* levels that are open */
  levels[0].path.n = 0;
  if (enter(kb, query, &start, &levels[0])) {
    return true;
  }
  while (depth > 0) {
    struct level *level = &levels[depth - 1];
    if (depth == SEARCH_DEPTH || level->next == level->children.n) {
      depth--;
      continue;
    }
    const uint32_t child = level->next++;
    if (level->children.sources[child] != STG_SOURCE_NONE) {
      levels[depth].path = level->path;
      if (enter(kb, query, &level->children.states[child], &levels[depth++])) {
        return true;
      }
    }
  }
  return false;
}

struct tally {
  int proved;
  int at_once; /* by one rule from facts */
};

/* All ground atoms of a base as queries. */
static void check_queries(const struct stg_kb *kb, uint64_t seed, struct tally *tally) {
  for (uint32_t code = 0; code < PREDICATES * CONSTANTS * CONSTANTS; code++) {
    const uint32_t p = code / CONSTANTS / CONSTANTS;
    const uint32_t a = code / CONSTANTS % CONSTANTS;
    const uint32_t b = code % CONSTANTS;
    const struct stg_kb_atom query = {(int32_t)p + 1, (int32_t)a + 1, (int32_t)b + 1};
    truth facts = {0};
    truth once = {0};
    for (size_t i = 0; i < kb->facts.n; i++) {
      const struct stg_kb_atom fact = kb->facts.list[i];
      facts[fact.pred - 1][fact.arg0 - 1][fact.arg1 - 1] = true;
    }
    facts[p][a][b] = false; /* the query itself is none */
    follow_once(kb, facts, once);
    truth all;
    memcpy(all, facts, sizeof all);
    while (follow_once(kb, all, all)) {
    }
    const bool proved = search(kb, query);
    if ((proved && !all[p][a][b]) || (once[p][a][b] && !proved)) {
      fail_msg("base %d: p%u(c%u,c%u) is %s", (int)seed, p, a, b, proved ? "proved" : "missed");
    }
    tally->proved += proved;
    tally->at_once += once[p][a][b];
  }
}

static void what_is_proved_follows_from_the_facts_and_what_follows_at_once_is_proved(void **state) {
  struct tally tally = {0};
  (void)state;
  for (uint64_t seed = 0; seed < BASES; seed++) {
    struct stg_kb kb = {0};
    prove_base_random(seed, &kb);
    assert_int_equal(kb.constants.n, CONSTANTS);
    assert_int_equal(kb.predicates.n, PREDICATES);
    check_queries(&kb, seed, &tally);
    stg_kb_finish(&kb);
  }
  assert_true(tally.at_once > BASES && tally.proved > tally.at_once);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_proved_follows_from_the_facts_and_what_follows_at_once_is_proved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

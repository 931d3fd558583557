/*
 * cpu/prover_derive.c: see prover_derive.h.
 *
 * It must not know of policies, of pools or of threads.
 */
#include "engine/cpu/prover_derive.h"

#include <assert.h>
#include <stddef.h>

_Static_assert(STG_UNIFY_STATE_VARS >= 2 * STG_PROVE_MAX_ATOMS, "a rule's variables are apart");

struct derivation {
  const struct stg_prove_base *base;
  const struct stg_prove_limits *limits;
  struct stg_prove_atom query;
  const struct stg_cpu_path *path;
  struct stg_prove_state state; /* without holes */
  struct stg_cpu_children *out;
  uint32_t unified;
  bool proved;
};

static bool is_seen(const struct stg_cpu_path *path, const struct stg_prove_state *state) {
  const uint64_t hash = stg_unify_hash(state);
  for (uint32_t i = 0; i < path->n; i++) {
    if (path->hashes[i] == hash) {
      return true;
    }
  }
  return false;
}

/* What unified becomes a child, unless it comes too late; `rule` is NULL where it was a fact. */
static void take(struct derivation *d, const struct stg_prove_bindings *bindings,
                 const struct stg_prove_template *rule) {
  struct stg_cpu_children *out = d->out;
  if (d->unified++ >= d->limits->children) {
    return;
  }
  struct stg_prove_state *child = &out->states[out->n];
  const enum stg_prove_fate fate =
      stg_unify_child(d->base, d->query, d->limits->atoms, bindings, rule, &d->state, child);
  if (fate == STG_PROVE_EMPTY) {
    d->proved = true;
  } else if (fate == STG_PROVE_TOO_LONG) {
    out->rejected++;
  } else if (is_seen(d->path, child)) {
    out->seen++;
  } else {
    out->n++;
  }
}

static void try_facts(struct derivation *d) {
  const struct stg_prove_atom goal = d->state.atoms[0];
  const struct stg_prove_span span = stg_atom_find_facts(d->base, goal);
  d->out->pairs += span.count;
  for (unsigned i = 0; i < span.count && !d->proved; i++) {
    const struct stg_prove_atom fact = stg_atom_fact(d->base, &span, i);
    struct stg_prove_bindings bindings;
    if (!stg_atom_is_equal(fact, d->query) && stg_unify_fact(d->base, goal, fact, &bindings)) {
      take(d, &bindings, NULL);
    }
  }
}

static void try_rules(struct derivation *d) {
  const struct stg_prove_atom goal = d->state.atoms[0];
  const unsigned first = d->base->rule_first[goal.pred - 1];
  const unsigned end = d->base->rule_first[goal.pred];
  d->out->pairs += end - first;
  for (unsigned i = first; i < end && !d->proved; i++) {
    const struct stg_prove_template *rule = &d->base->rules[i];
    struct stg_prove_bindings bindings;
    if (stg_unify_head(d->base, goal, rule->arg0, rule->arg1, &bindings)) {
      take(d, &bindings, rule);
    }
  }
}

static void set_word(struct derivation *d, enum stg_prove_word word) {
  d->out->states[0] = stg_cpu_word(d->base, word);
  d->out->n = 1;
}

static void finish_children(struct derivation *d) {
  struct stg_cpu_children *out = d->out;
  const uint32_t most = d->limits->children;
  if (d->proved) {
    set_word(d, STG_PROVE_TRUE);
    out->rejected = out->seen = 0;
    return;
  }
  out->cut = d->unified > most ? d->unified - most : 0;
  if (out->n == 0) {
    set_word(d, STG_PROVE_FALSE);
    return;
  }
  out->n = out->n < most ? out->n : most - 1;
  out->states[out->n++] = stg_cpu_word(d->base, STG_PROVE_ENDF);
}

void stg_cpu_derive(const struct stg_prove_base *base, const struct stg_prove_limits *limits,
                    struct stg_prove_atom query, const struct stg_cpu_path *path,
                    const struct stg_prove_state *state, struct stg_cpu_children *ret_children) {
  struct derivation d = {
      .base = base, .limits = limits, .query = query, .path = path, .out = ret_children};
  assert(limits->atoms >= 1 && limits->atoms <= STG_PROVE_MAX_ATOMS);
  assert(limits->children >= 2 && limits->children <= STG_PROVE_MAX_CHILDREN);
  ret_children->n = ret_children->pairs = 0;
  ret_children->cut = ret_children->rejected = ret_children->seen = 0;
  for (uint32_t i = 0; i < state->n; i++) {
    if (state->atoms[i].pred != 0) {
      d.state.atoms[d.state.n++] = state->atoms[i];
    }
  }
  const int pred = d.state.n > 0 ? d.state.atoms[0].pred : 0;
  if (pred == base->predicates + STG_PROVE_TRUE) {
    set_word(&d, STG_PROVE_TRUE);
  } else if (pred < 1 || pred > base->predicates) {
    set_word(&d, STG_PROVE_FALSE);
  } else {
    try_facts(&d);
    try_rules(&d);
    finish_children(&d);
  }
}

struct stg_prove_state stg_cpu_word(const struct stg_prove_base *base, enum stg_prove_word word) {
  return (struct stg_prove_state){.n = 1, .atoms = {{.pred = base->predicates + (int)word}}};
}

void stg_cpu_path_add(struct stg_cpu_path *path, const struct stg_prove_state *state) {
  assert(path->n <= STG_PROVE_MAX_DEPTH);
  path->hashes[path->n++] = stg_unify_hash(state);
}

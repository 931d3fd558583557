/*
 * oracle/derive.c: see derive.h. Speed is no aim here; being read beside the text is.
 */
#include "engine/oracle/derive.h"

#include <assert.h>

_Static_assert(STG_PROVE_MAX_BODY >= STG_KB_MAX_BODY, "any rule that is read can be applied");

/* Variables of a state, then those of a rule. */
#define STATE_VARS (2 * STG_PROVE_MAX_ATOMS)
#define ALL_VARS (STATE_VARS + STG_KB_MAX_RULE_VARS)
#define LONG_ATOMS (STG_KB_MAX_BODY + STG_PROVE_MAX_ATOMS)

/* A child as it comes, before anything is dropped. */
struct long_state {
  uint32_t n;
  struct stg_kb_atom atoms[LONG_ATOMS];
};

struct derivation {
  const struct stg_kb *kb;
  const struct stg_prove_limits *limits;
  struct stg_kb_atom query;
  const struct stg_oracle_path *path;
  struct stg_oracle_state state; /* without holes */
  struct stg_oracle_children *out;
  uint32_t kept; /* of those that unified */
  bool proved;
  int32_t bound[ALL_VARS]; /* what variable n + 1 + i stands for, 0: nothing yet */
};

static int32_t first_variable(const struct derivation *d) {
  return (int32_t)d->kb->constants.n + 1;
}

static bool is_variable(const struct derivation *d, int32_t term) {
  return term >= first_variable(d);
}

static int32_t follow(const struct derivation *d, int32_t term) {
  while (is_variable(d, term) && d->bound[term - first_variable(d)] != 0) {
    term = d->bound[term - first_variable(d)];
  }
  return term;
}

static bool unify(struct derivation *d, int32_t a, int32_t b) {
  a = follow(d, a);
  b = follow(d, b);
  if (a == b) {
    return true;
  }
  if (is_variable(d, a)) {
    d->bound[a - first_variable(d)] = b;
    return true;
  }
  if (is_variable(d, b)) {
    d->bound[b - first_variable(d)] = a;
    return true;
  }
  return false;
}

/* An argument of a rule: its variables come behind those of the state. */
static int32_t fresh(const struct derivation *d, int32_t arg) {
  return arg < 0 ? first_variable(d) + STATE_VARS - arg - 1 : arg;
}

/* With nothing bound before. */
static bool unify_goal(struct derivation *d, int32_t arg0, int32_t arg1) {
  for (size_t i = 0; i < ALL_VARS; i++) {
    d->bound[i] = 0;
  }
  return unify(d, d->state.atoms[0].arg0, arg0) && unify(d, d->state.atoms[0].arg1, arg1);
}

static bool is_equal(struct stg_kb_atom a, struct stg_kb_atom b) {
  return a.pred == b.pred && a.arg0 == b.arg0 && a.arg1 == b.arg1;
}

/* A ground fact that may be used. */
static bool is_given(const struct derivation *d, struct stg_kb_atom atom) {
  if (is_variable(d, atom.arg0) || is_variable(d, atom.arg1) || is_equal(atom, d->query)) {
    return false;
  }
  return stg_kb_find_fact(d->kb, atom) != SIZE_MAX;
}

static void append(const struct derivation *d, struct long_state *child, struct stg_kb_atom atom) {
  atom.arg0 = follow(d, fresh(d, atom.arg0));
  atom.arg1 = follow(d, fresh(d, atom.arg1));
  if (!is_given(d, atom)) {
    child->atoms[child->n++] = atom;
  }
}

/* Numbers for variables, in the order of their first occurrence. */
static void give_numbers(const struct derivation *d, struct stg_oracle_state *state) {
  int32_t numbers[ALL_VARS] = {0};
  int32_t next = first_variable(d);
  for (uint32_t i = 0; i < state->n; i++) {
    int32_t *args[] = {&state->atoms[i].arg0, &state->atoms[i].arg1};
    for (size_t k = 0; k < 2; k++) {
      if (is_variable(d, *args[k])) {
        int32_t *number = &numbers[*args[k] - first_variable(d)];
        *number = *number == 0 ? next++ : *number;
        *args[k] = *number;
      }
    }
  }
}

static bool is_seen(const struct stg_oracle_path *path, const struct stg_oracle_state *state) {
  const uint64_t hash = stg_oracle_hash(state);
  for (uint32_t i = 0; i < path->n; i++) {
    if (path->hashes[i] == hash) {
      return true;
    }
  }
  return false;
}

static void add_child(struct derivation *d, const struct long_state *child,
                      enum stg_oracle_source source, size_t index) {
  struct stg_oracle_state state = {.n = child->n};
  if (child->n == 0) {
    d->proved = true;
    return;
  }
  if (child->n > d->limits->atoms) {
    d->out->rejected++;
    return;
  }
  for (uint32_t i = 0; i < child->n; i++) {
    state.atoms[i] = child->atoms[i];
  }
  give_numbers(d, &state);
  if (is_seen(d->path, &state)) {
    d->out->seen++;
    return;
  }
  d->out->sources[d->out->n] = source;
  d->out->indices[d->out->n] = index;
  d->out->states[d->out->n++] = state;
}

/* Body and rest under the substitution; `body` is empty where a fact unified. */
static void keep(struct derivation *d, const struct stg_kb_atom *body, uint32_t n_body,
                 enum stg_oracle_source source, size_t index) {
  struct long_state child = {0};
  d->out->unified++;
  if (d->kept == d->limits->children) {
    return;
  }
  d->kept++;
  for (uint32_t i = 0; i < n_body; i++) {
    append(d, &child, body[i]);
  }
  for (uint32_t i = 1; i < d->state.n; i++) {
    append(d, &child, d->state.atoms[i]);
  }
  add_child(d, &child, source, index);
}

static void try_facts(struct derivation *d) {
  for (size_t i = 0; i < d->kb->facts.n; i++) {
    const struct stg_kb_atom fact = d->kb->facts.list[i];
    if (fact.pred == d->state.atoms[0].pred && !is_equal(fact, d->query) &&
        unify_goal(d, fact.arg0, fact.arg1)) {
      keep(d, NULL, 0, STG_SOURCE_FACT, i);
    }
  }
}

static void try_rules(struct derivation *d) {
  for (size_t i = 0; i < d->kb->n_rules; i++) {
    const struct stg_kb_rule *rule = &d->kb->rules[i];
    if (rule->head.pred == d->state.atoms[0].pred &&
        unify_goal(d, fresh(d, rule->head.arg0), fresh(d, rule->head.arg1))) {
      keep(d, rule->body, rule->n_body, STG_SOURCE_RULE, i);
    }
  }
}

static void set_word(struct derivation *d, enum stg_prove_word word) {
  d->out->states[0] = stg_oracle_word(d->kb, word);
  d->out->sources[0] = STG_SOURCE_NONE;
  d->out->n = 1;
}

static void finish_children(struct derivation *d) {
  struct stg_oracle_children *out = d->out;
  if (d->proved) {
    set_word(d, STG_PROVE_TRUE);
  } else if (out->n == 0) {
    set_word(d, STG_PROVE_FALSE);
  } else {
    out->n = out->n < d->limits->children ? out->n : d->limits->children - 1;
    out->states[out->n] = stg_oracle_word(d->kb, STG_PROVE_ENDF);
    out->sources[out->n++] = STG_SOURCE_NONE;
  }
}

void stg_oracle_derive(const struct stg_kb *kb, const struct stg_prove_limits *limits,
                       struct stg_kb_atom query, const struct stg_oracle_path *path,
                       const struct stg_oracle_state *state,
                       struct stg_oracle_children *ret_children) {
  struct derivation d = {
      .kb = kb, .limits = limits, .query = query, .path = path, .out = ret_children};
  assert(limits->atoms >= 1 && limits->atoms <= STG_PROVE_MAX_ATOMS);
  assert(limits->children >= 2 && limits->children <= STG_PROVE_MAX_CHILDREN);
  ret_children->n = ret_children->unified = ret_children->rejected = ret_children->seen = 0;
  for (uint32_t i = 0; i < state->n; i++) {
    if (state->atoms[i].pred != 0) {
      d.state.atoms[d.state.n++] = state->atoms[i];
    }
  }
  if (stg_oracle_is_word(kb, &d.state, STG_PROVE_TRUE)) {
    set_word(&d, STG_PROVE_TRUE);
    return;
  }
  if (d.state.n == 0 || d.state.atoms[0].pred > (int32_t)kb->predicates.n) {
    set_word(&d, STG_PROVE_FALSE);
    return;
  }
  try_facts(&d);
  try_rules(&d);
  finish_children(&d);
}

struct stg_oracle_state stg_oracle_word(const struct stg_kb *kb, enum stg_prove_word word) {
  return (struct stg_oracle_state){.n = 1,
                                   .atoms = {{.pred = (int32_t)kb->predicates.n + (int32_t)word}}};
}

bool stg_oracle_is_word(const struct stg_kb *kb, const struct stg_oracle_state *state,
                        enum stg_prove_word word) {
  return state->n > 0 && state->atoms[0].pred == (int32_t)kb->predicates.n + (int32_t)word;
}

uint64_t stg_oracle_hash(const struct stg_oracle_state *state) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < state->n; i++) {
    hash += stg_kb_mix(state->atoms[i]);
  }
  return hash;
}

void stg_oracle_path_add(struct stg_oracle_path *path, const struct stg_oracle_state *state) {
  assert(path->n <= STG_PROVE_MAX_DEPTH);
  path->hashes[path->n++] = stg_oracle_hash(state);
}

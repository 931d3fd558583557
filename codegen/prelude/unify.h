/*
 * prelude/unify.h: one fact or one rule against a goal, and the state that comes of it.
 *
 * As atoms.h, which it needs: plain enough to be CUDA as well. Arguments are constants and
 * variables alone, so a goal binds at most two variables and a head two more, and whatever they are
 * bound to is followed once when they are. A child is built atom by atom, never longer than a state
 * may be: what is a fact is dropped as it comes.
 * It must not know of lists of children, of paths or of policies.
 */
#ifndef STG_CODEGEN_PRELUDE_UNIFY_H
#define STG_CODEGEN_PRELUDE_UNIFY_H

#ifndef __CUDACC__
#include "codegen/prelude/atoms.h"
#include "codegen/prover.h"

/* How many atoms a state has room for; a kernel says how many its limit is. */
#define STG_UNIFY_ATOMS STG_PROVE_MAX_ATOMS
#endif

/* Variables that a state can have, at least. Those of a rule come behind them. */
#define STG_UNIFY_STATE_VARS 16

/* Atoms without holes, variables numbered by first occurrence. */
struct stg_prove_state {
  unsigned n;
  struct stg_prove_atom atoms[STG_UNIFY_ATOMS];
};

/* What the two arguments of a goal and of a head stand for; a constant stands for itself. */
struct stg_prove_bindings {
  int goal0, goal1; /* arguments of the goal */
  int to0, to1;
  int head0, head1; /* arguments of the head, below 0 where they are variables */
  int as0, as1;
};

enum stg_prove_fate {
  STG_PROVE_KEPT,
  STG_PROVE_EMPTY,   /* nothing is left to be proved */
  STG_PROVE_TOO_LONG /* rejected */
};

/** A goal against a fact. */
STG_ATOM bool stg_unify_fact(const struct stg_prove_base *base, struct stg_prove_atom goal,
                             struct stg_prove_atom fact, struct stg_prove_bindings *ret) {
  const bool open0 = stg_atom_is_variable(base, goal.arg0);
  const bool open1 = stg_atom_is_variable(base, goal.arg1);
  if ((!open0 && goal.arg0 != fact.arg0) || (!open1 && goal.arg1 != fact.arg1) ||
      (goal.arg0 == goal.arg1 && fact.arg0 != fact.arg1)) {
    return false;
  }
  ret->goal0 = goal.arg0;
  ret->goal1 = goal.arg1;
  ret->to0 = fact.arg0;
  ret->to1 = fact.arg1;
  ret->head0 = ret->head1 = ret->as0 = ret->as1 = 0;
  return true;
}

/** A goal against a rule's head; a variable of the rule becomes what the goal has there. */
STG_ATOM bool stg_unify_head(const struct stg_prove_base *base, struct stg_prove_atom goal,
                             int head0, int head1, struct stg_prove_bindings *ret) {
  int to0 = goal.arg0;
  int to1 = goal.arg1;
  int second; /* what the goal's second argument has to be */
  if (head0 > 0 && head0 != to0) {
    if (!stg_atom_is_variable(base, to0)) {
      return false;
    }
    to1 = to1 == to0 ? head0 : to1;
    to0 = head0;
  }
  second = head1 > 0 ? head1 : head1 == head0 ? to0 : to1;
  if (second != to1) {
    if (stg_atom_is_variable(base, to1)) {
      to0 = to0 == to1 ? second : to0;
      to1 = second;
    } else if (stg_atom_is_variable(base, second)) {
      to0 = to1; /* it is p(X,a) against p(Z,Z) */
    } else {
      return false;
    }
  }
  ret->goal0 = goal.arg0;
  ret->goal1 = goal.arg1;
  ret->to0 = to0;
  ret->to1 = to1;
  ret->head0 = head0;
  ret->head1 = head1;
  ret->as0 = to0;
  ret->as1 = to1;
  return true;
}

/* An argument of the goal's state. */
STG_ATOM int stg_unify_rest(const struct stg_prove_bindings *bindings, int arg) {
  return arg == bindings->goal0 ? bindings->to0 : arg == bindings->goal1 ? bindings->to1 : arg;
}

/* An argument of the rule's body. */
STG_ATOM int stg_unify_body(const struct stg_prove_base *base,
                            const struct stg_prove_bindings *bindings, int arg) {
  if (arg > 0) {
    return arg;
  }
  return arg == bindings->head0   ? bindings->as0
         : arg == bindings->head1 ? bindings->as1
                                  : base->constants + STG_UNIFY_STATE_VARS - arg;
}

/* Append to a child what is left to be proved. False: there is no room. */
STG_ATOM bool stg_unify_push(const struct stg_prove_base *base, struct stg_prove_atom query,
                             unsigned limit, struct stg_prove_atom atom,
                             struct stg_prove_state *child) {
  if (!stg_atom_is_variable(base, atom.arg0) && !stg_atom_is_variable(base, atom.arg1) &&
      !stg_atom_is_equal(atom, query) && stg_atom_find_fact(base, atom) != STG_ATOM_NO_FACT) {
    return true;
  }
  if (child->n == limit) {
    return false;
  }
  child->atoms[child->n++] = atom;
  return true;
}

/* Argument `i` of a state: those of an atom are neighbours. */
STG_ATOM int *stg_unify_argument(struct stg_prove_state *state, unsigned i) {
  return i % 2 == 0 ? &state->atoms[i / 2].arg0 : &state->atoms[i / 2].arg1;
}

/** Number variables from the first one on, in the order of their first occurrence. */
STG_ATOM void stg_unify_number(const struct stg_prove_base *base, struct stg_prove_state *state) {
  int n = 0;
  /* below 0 until all are numbered; where they were is all the memory that it takes */
  for (unsigned i = 0; i < 2 * state->n; i++) {
    const int before = *stg_unify_argument(state, i);
    if (!stg_atom_is_variable(base, before)) {
      continue;
    }
    n++;
    for (unsigned k = i; k < 2 * state->n; k++) {
      int *arg = stg_unify_argument(state, k);
      *arg = *arg == before ? -n : *arg;
    }
  }
  for (unsigned i = 0; i < 2 * state->n; i++) {
    int *arg = stg_unify_argument(state, i);
    *arg = *arg < 0 ? base->constants - *arg : *arg;
  }
}

/**
 * Build the child: the body, `n_body` rows of it, then the state without its first atom, under the
 * bindings, without the facts among them. `limit`: of its atoms, at most STG_UNIFY_ATOMS. `query`
 * does not count as a fact. The child is good where it is kept.
 */
STG_ATOM enum stg_prove_fate
stg_unify_child(const struct stg_prove_base *base, struct stg_prove_atom query, unsigned limit,
                const struct stg_prove_bindings *bindings, const struct stg_prove_template *rule,
                const struct stg_prove_state *state, struct stg_prove_state *ret_child) {
  const unsigned n_body = rule != 0 ? rule->n_body : 0;
  ret_child->n = 0;
  for (unsigned i = 0; i < n_body; i++) {
    const struct stg_prove_row row = base->bodies[rule->first_body + i];
    struct stg_prove_atom atom;
    atom.pred = row.pred;
    atom.arg0 = stg_unify_body(base, bindings, row.arg0);
    atom.arg1 = stg_unify_body(base, bindings, row.arg1);
    if (!stg_unify_push(base, query, limit, atom, ret_child)) {
      return STG_PROVE_TOO_LONG;
    }
  }
  for (unsigned i = 1; i < state->n; i++) {
    struct stg_prove_atom atom = state->atoms[i];
    atom.arg0 = stg_unify_rest(bindings, atom.arg0);
    atom.arg1 = stg_unify_rest(bindings, atom.arg1);
    if (!stg_unify_push(base, query, limit, atom, ret_child)) {
      return STG_PROVE_TOO_LONG;
    }
  }
  if (ret_child->n == 0) {
    return STG_PROVE_EMPTY;
  }
  stg_unify_number(base, ret_child);
  return STG_PROVE_KEPT;
}

/** 64 bits of a state, from its atoms in any order but with the numbers that its variables have. */
STG_ATOM unsigned long long stg_unify_hash(const struct stg_prove_state *state) {
  unsigned long long hash = 0;
  for (unsigned i = 0; i < state->n; i++) {
    hash += stg_atom_mix(state->atoms[i].pred, state->atoms[i].arg0, state->atoms[i].arg1);
  }
  return hash;
}

#endif

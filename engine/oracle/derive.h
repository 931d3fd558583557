/*
 * oracle/derive.h: the reference of one step of the proof search: what can be derived from a state.
 *
 * Deliberately naive: every fact and every rule is tried, in the order of the file; a substitution
 * is a list that is followed. derive(state), with q its first atom and rest the others:
 *
 *   1. q is no atom, False or Endf -> {False}; q is True -> {True}.
 *   2. Facts that unify with q, but for the one that equals the query: child = rest.
 *   3. Rules whose head unifies with q: child = body ++ rest.
 *   4. Facts before rules; the first `children` of both that unify are kept.
 *   5. In each, atoms that are ground facts are dropped, again but for the query. A child with
 *      nothing left is a proof: the children are {True}.
 *   6. A child with more than `atoms` atoms is rejected, never cut.
 *   7. A child that the path has seen is dropped. With none left the children are {False}.
 *   8. Behind children that are neither True nor False, all but the last of `children` of them,
 *      comes Endf.
 */
#ifndef STG_ENGINE_ORACLE_DERIVE_H
#define STG_ENGINE_ORACLE_DERIVE_H

#include "codegen/prover.h"
#include "specs/kb.h"

/* Atoms without holes, variables from n + 1 on in the order of their first occurrence. */
struct stg_oracle_state {
  uint32_t n;
  struct stg_kb_atom atoms[STG_PROVE_MAX_ATOMS];
};

/* The states of a query so far, the first among them. */
struct stg_oracle_path {
  uint64_t hashes[STG_PROVE_MAX_DEPTH + 1];
  uint32_t n;
};

/* Where a child is from: a fact or a rule of the base by its index, or none. */
enum stg_oracle_source { STG_SOURCE_NONE, STG_SOURCE_FACT, STG_SOURCE_RULE };

struct stg_oracle_children {
  uint32_t n; /* at least 1 */
  struct stg_oracle_state states[STG_PROVE_MAX_CHILDREN];
  enum stg_oracle_source sources[STG_PROVE_MAX_CHILDREN];
  size_t indices[STG_PROVE_MAX_CHILDREN];
  uint32_t unified;  /* facts and rules that did */
  uint32_t rejected; /* for too many atoms */
  uint32_t seen;     /* on the path */
};

/** True, False or Endf as a state. */
struct stg_oracle_state stg_oracle_word(const struct stg_kb *kb, enum stg_prove_word word);
bool stg_oracle_is_word(const struct stg_kb *kb, const struct stg_oracle_state *state,
                        enum stg_prove_word word);

/** 64 bits of a state, from its atoms in any order but with the numbers that its variables have. */
uint64_t stg_oracle_hash(const struct stg_oracle_state *state);
/** Remember a state of the path, which is not full. */
void stg_oracle_path_add(struct stg_oracle_path *path, const struct stg_oracle_state *state);

/**
 * Derive. `state` may have holes, atoms with predicate 0, which do not count; its variables are of
 * the first 2 * STG_PROVE_MAX_ATOMS.
 */
void stg_oracle_derive(const struct stg_kb *kb, const struct stg_prove_limits *limits,
                       struct stg_kb_atom query, const struct stg_oracle_path *path,
                       const struct stg_oracle_state *state,
                       struct stg_oracle_children *ret_children);

#endif

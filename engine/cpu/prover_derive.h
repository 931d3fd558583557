/*
 * cpu/prover_derive.h: what can be derived from a state, on the CPU: the text of the kernel, over
 * one candidate after the other.
 */
#ifndef STG_ENGINE_CPU_PROVER_DERIVE_H
#define STG_ENGINE_CPU_PROVER_DERIVE_H

#include <stdint.h>

#include "codegen/prelude/unify.h"

/* The states of a query so far, the first among them. */
struct stg_cpu_path {
  uint64_t hashes[STG_PROVE_MAX_DEPTH + 1];
  uint32_t n;
};

struct stg_cpu_children {
  uint32_t n; /* at least 1 */
  struct stg_prove_state states[STG_PROVE_MAX_CHILDREN];
  uint32_t pairs; /* facts and rules that the tables have for the goal */
  /* of a derivation that is no proof: */
  uint32_t cut;      /* unified, but too late */
  uint32_t rejected; /* for too many atoms */
  uint32_t seen;     /* on the path */
};

/** True, False or Endf as a state. */
struct stg_prove_state stg_cpu_word(const struct stg_prove_base *base, enum stg_prove_word word);

void stg_cpu_path_add(struct stg_cpu_path *path, const struct stg_prove_state *state);

/**
 * Derive, as oracle/derive.h says. `state` may have holes, which do not count; its variables are of
 * the first STG_UNIFY_STATE_VARS.
 */
void stg_cpu_derive(const struct stg_prove_base *base, const struct stg_prove_limits *limits,
                    struct stg_prove_atom query, const struct stg_cpu_path *path,
                    const struct stg_prove_state *state, struct stg_cpu_children *ret_children);

#endif

/*
 * prove/dense.h: what the derived states of a batch take where each step is one call for all of its
 * queries, as the search was published: a tensor [batch, children, 26, 3] of int64.
 *
 * 26 atoms are what a state has room for there before it is cut, and an atom is a predicate and two
 * arguments.
 */
#ifndef STG_TOOLS_PROVE_DENSE_H
#define STG_TOOLS_PROVE_DENSE_H

#include <stdint.h>

#define STG_PROVE_DENSE_BATCH 512

static inline uint64_t stg_prove_dense_bytes(uint64_t batch, uint32_t children) {
  const uint64_t atoms = 26;
  const uint64_t numbers = 3;
  return batch * children * atoms * numbers * sizeof(int64_t);
}

#endif

/*
 * prove_bases.h: knowledge bases to search proofs in: small random ones, and those that the
 * generators make, as they were read and as tables; policies of any size.
 */
#ifndef STG_TESTS_SUPPORT_PROVE_BASES_H
#define STG_TESTS_SUPPORT_PROVE_BASES_H

#include "codegen/prove_tables.h"
#include "codegen/prover.h"
#include "specs/kb_generate.h"
#include "specs/prove_policy.h"

/* Of a random base: p0 to p2, c0 to c3, each number 1 more than its name says. */
#define PROVE_RANDOM_PREDICATES 3
#define PROVE_RANDOM_CONSTANTS 4

/** Read texts; fails the test where they are none. */
void prove_base_read(struct stg_kb *kb, const char *facts, const char *rules);
/** At most 10 facts and four rules of at most two atoms. */
void prove_base_random(uint64_t seed, struct stg_kb *kb);
/** As `steergraph kb generate` does, with its queries. */
void prove_base_generate(enum stg_kb_kind kind, uint64_t seed, struct stg_kb *kb);

/** The same as tables. */
void prove_base_tables(const struct stg_kb *kb, struct stg_prove_tables *tables);
struct stg_prove_atom prove_atom_of(struct stg_kb_atom atom);

#define PROVE_POLICY_BLOCKS 8
#define PROVE_POLICY_WIDTH 256

/* A random policy of a base, with biases, gains and shifts that are not 0 and 1. */
struct prove_policy {
  float vectors[PROVE_POLICY_BLOCKS + 3][3][PROVE_POLICY_WIDTH];
  struct stg_prove_net net;
  struct stg_prove_weights weights;
  struct stg_prove_layer blocks[PROVE_POLICY_BLOCKS];
  struct stg_prove_policy tensors;
};

/** Of at most PROVE_POLICY_BLOCKS and _WIDTH. */
void prove_policy_random(const struct stg_kb *kb, uint64_t seed, uint32_t atoms,
                         struct stg_prove_net net, struct prove_policy *policy);
void prove_policy_finish(struct prove_policy *policy);

#endif

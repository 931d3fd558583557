/*
 * prover.h: what the proof search is: its words, its limits.
 *
 * A state is a list of atoms that are still to be proved, without holes. Arguments are constants
 * 1..n, variables from n + 1 on, numbered by first occurrence from the left, or 0, which is no
 * argument. Predicates 1..P are those of the knowledge base, and three follow.
 */
#ifndef STG_CODEGEN_PROVER_H
#define STG_CODEGEN_PROVER_H

#include <stdint.h>

/* Predicates behind those of the base. Their atoms have no arguments and stand alone. */
enum stg_prove_word {
  STG_PROVE_TRUE = 1, /* proved */
  STG_PROVE_FALSE,    /* nothing can be derived */
  STG_PROVE_ENDF      /* given up */
};

#define STG_PROVE_MAX_ATOMS 8
#define STG_PROVE_MAX_CHILDREN 128
#define STG_PROVE_MAX_DEPTH 64
#define STG_PROVE_MAX_BODY 8 /* atoms in the body of a rule */

struct stg_prove_limits {
  uint32_t atoms;    /* of a state: 1 to STG_PROVE_MAX_ATOMS */
  uint32_t children; /* of a derivation: 2 to STG_PROVE_MAX_CHILDREN */
  uint32_t depth;    /* steps of a query: 1 to STG_PROVE_MAX_DEPTH */
};

#endif

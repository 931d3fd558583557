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

/* How a query ended. */
enum stg_prove_outcome {
  STG_PROVE_RUNNING,
  STG_PROVE_PROVED,
  STG_PROVE_FAILED,      /* nothing could be derived */
  STG_PROVE_GAVE_UP,     /* it picked Endf */
  STG_PROVE_OUT_OF_STEPS /* as many as `depth` */
};
#define STG_PROVE_NOT_PROVED 100 /* what the score of such a query lacks */

/* Picks whose best two are so near may go either way; they are counted. */
#define STG_PROVE_CLOSE 1e-4f

/* A query's way. */
struct stg_prove_result {
  float logp;
  uint32_t depth;   /* steps */
  uint32_t outcome; /* enum stg_prove_outcome */
  uint32_t close;   /* steps whose best two children are STG_PROVE_CLOSE */
  uint8_t actions[STG_PROVE_MAX_DEPTH];
};

/* What a run did. The last three are of derivations that are no proofs. */
struct stg_prove_counts {
  uint64_t slot_steps;  /* steps that were executed */
  uint64_t query_steps; /* steps that queries took: the sum of their depths */
  uint64_t children;    /* that there were to pick from */
  uint64_t states;      /* that the policy evaluated */
  uint64_t pairs;       /* facts and rules that the tables had for a goal */
  uint64_t proofs;
  uint64_t close;
  uint64_t cut;      /* children behind the last that there is room for */
  uint64_t rejected; /* for too many atoms */
  uint64_t seen;     /* on the path of their query */
};

/* The policy. An atom is E_pred + E_arg0 - E_arg1, a state the mean of `atoms` of them, those that
 * are not there being zeros; f(state) = out(relu(head(blocks(norm(relu(in(state))))))), with
 * block(x) = x + norm(relu(linear(x))). The logit of a child is f(state) . f(child) / sqrt(embed).
 */
struct stg_prove_net {
  uint32_t embed;
  uint32_t hidden;
  uint32_t blocks;
  float epsilon; /* of the norms */
};

/* A linear map, rows of `weight` are outputs; `gain` and `shift` are of the norm behind it. */
struct stg_prove_layer {
  const float *weight; /* [out, in] */
  const float *bias;   /* [out] */
  const float *gain;   /* [out]; NULL: no norm */
  const float *shift;
};

struct stg_prove_weights {
  const float *predicates; /* [P + 3, embed]: of predicate p at p - 1 */
  const float *arguments;  /* [n + 2 * atoms, embed]: constants, then variables */
  struct stg_prove_layer in;
  const struct stg_prove_layer *blocks;
  struct stg_prove_layer head;
  struct stg_prove_layer out;
};

#endif

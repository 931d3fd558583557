/*
 * prover_args.h: what the kernel of the proof search is given, and what it keeps and writes down.
 *
 * prelude/prover_args.cuh and derive.cuh say the same to the device; they change together.
 */
#ifndef STG_CODEGEN_PROVER_ARGS_H
#define STG_CODEGEN_PROVER_ARGS_H

#include <stddef.h>

#include "codegen/prelude/unify.h"
#include "codegen/prover.h"

/* On the device, all of it zeros before the first launch. A launch leaves the first three zeros
 * behind, so that another can follow it at once, and adds to the counters. */
struct stg_prover_words {
  uint32_t taken, done, left, unused;
  struct stg_prove_counts counts;
};

/* Addresses are of the device. */
struct stg_prover_args {
  struct stg_prove_base base;     /* stg_prove_tables_at */
  uint64_t predicates, arguments; /* as struct stg_prove_weights has them, in float32 */
  uint64_t layers;                /* stg_prover_pack; by 16 bytes */
  uint64_t queries;               /* struct stg_prove_atom [n], ground */
  uint64_t results;               /* struct stg_prove_result [n] */
  uint64_t n;                     /* uint32: how many; those past `capacity` are left out */
  uint64_t words;                 /* struct stg_prover_words, by 8 bytes */
  uint64_t scratch;               /* stg_prover_extents.slot_bytes of each slot; by 128 bytes */
  uint64_t trace; /* struct stg_prove_step [depth] of query `traced`; 0: none is written down */
  uint64_t done;  /* uint32 in memory of the host that is mapped: how many have ended, every 64, not
                     always in order, and all at the end; 0: nobody asks */
  uint64_t first; /* number of the first query, which what is drawn for it depends on */
  uint64_t traced; /* a number */
  uint64_t seed;
  uint32_t capacity; /* that queries and results have room for */
  uint32_t depth;    /* struct stg_prove_limits */
  float epsilon;     /* struct stg_prove_net */
  uint32_t flags;
};
#define STG_PROVER_SAMPLE                                                                          \
  1U /* a pick is a sample; else the largest logit, of equal ones the first */

/* A step that was written down: as many children and logits as there are, of states as many atoms;
 * the rest is not written. */
struct stg_prove_step {
  struct stg_prove_state state;
  struct stg_prove_state children[STG_PROVE_MAX_CHILDREN];
  float logits[STG_PROVE_MAX_CHILDREN]; /* 0 where a child is alone */
  uint32_t n_children;
  uint32_t action;
};

_Static_assert(sizeof(void *) != 8 || sizeof(struct stg_prove_base) == 152,
               "prover_args.cuh has the same");
_Static_assert(sizeof(void *) != 8 || sizeof(struct stg_prover_args) == 272,
               "prover_args.cuh has the same");
_Static_assert(sizeof(struct stg_prove_result) == 80, "prover_args.cuh has the same");
_Static_assert(sizeof(struct stg_prover_words) == 96, "prover_args.cuh has the same");
_Static_assert(offsetof(struct stg_prove_counts, seen) == 72, "prover_args.cuh has the same");
_Static_assert(sizeof(struct stg_prove_step) == 13420, "derive.cuh has the same");

#endif

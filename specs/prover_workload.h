/*
 * prover_workload.h: a workload of the family "prover": queries of a knowledge base to be proved,
 * each among corruptions of itself, and the policy that searches.
 *
 * Knows no device, and not how a proof is searched for.
 */
#ifndef STG_SPECS_PROVER_WORKLOAD_H
#define STG_SPECS_PROVER_WORKLOAD_H

#include "specs/kb.h"
#include "specs/prove_policy.h"

/* As codegen/prover.h has them, which specs may not see; a test holds the two together. */
#define STG_PROVER_MAX_ATOMS 8
#define STG_PROVER_MIN_CHILDREN 2
#define STG_PROVER_MAX_CHILDREN 128
#define STG_PROVER_MAX_DEPTH 64

#define STG_PROVER_MAX_WIDTH 256 /* of embeddings and of hidden layers */
#define STG_PROVER_MAX_BLOCKS 64
#define STG_PROVER_MAX_CAPACITY 1048576
#define STG_PROVER_MAX_CORRUPTIONS 1000000
#define STG_PROVER_MAX_POOL (1 << 24)
#define STG_PROVER_SIDES 2

enum stg_prover_side { STG_PROVER_HEAD /* arg0 is replaced */, STG_PROVER_TAIL };
enum stg_prover_arithmetic { STG_PROVER_F32, STG_PROVER_TF32X3, STG_PROVER_TF32 };

struct stg_prover_corruptions {
  uint32_t count; /* of a query and a side, where there are as many */
  uint64_t seed;
  enum stg_prover_side sides[STG_PROVER_SIDES];
  uint32_t n_sides;
  bool of_argument; /* constants that facts of the predicate have there; else all constants */
  bool filter;      /* none that is a fact or a query */
};

struct stg_prover_workload {
  const char *file;
  struct stg_kb kb;                  /* its queries: all that are known to be true */
  struct stg_kb_paths paths;         /* of what it was read from; NULL: made up, or in the text */
  const struct stg_kb_atom *queries; /* those that are asked, of the base's */
  size_t n_queries;
  struct stg_prove_sizes sizes; /* of the policy; atoms are the limit of a state too */
  float epsilon;                /* of its norms */
  const char *weights_path;     /* NULL: they are made up */
  uint64_t weights_seed;
  struct stg_prove_policy policy; /* of the file until it is taken */
  uint32_t children;
  uint32_t depth;
  struct stg_prover_corruptions corruptions;
  bool sample; /* else the best child is picked */
  uint64_t sample_seed;
  enum stg_prover_arithmetic arithmetic;
  uint32_t capacity; /* a power of two */
  uint32_t warmup;   /* default 1 */
  uint32_t repeats;  /* default 3 */
  struct stg_arena arena;
};

void stg_prover_finish(struct stg_prover_workload *workload);

/** The policy: that of the file, once, or one made up. The caller finishes it. STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_prover_take_policy(struct stg_prover_workload *workload,
                                                struct stg_prove_policy *ret_policy,
                                                stg_error *reterr);

#endif

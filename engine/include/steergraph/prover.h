/*
 * prover.h: proof search over a knowledge base: queries, and a policy that picks what to derive.
 *
 * Life: create a prover from facts and rules, give it weights, run pools of queries. On CUDA a pool
 * is one launch of one kernel, or several where it is larger than `capacity`; the kernel serves
 * pools of any size and bases of any contents. A query is a ground atom; step by step the policy
 * picks one of the states that can be derived from its own, until nothing is left to be proved,
 * nothing can be derived, it gives up, or it is out of steps. What becomes of a query depends on
 * its number in the pool and on the seed, not on the others.
 *
 * Predicates are 1 to P, constants 1 to n. A state's variables are n + 1 and above, in the order of
 * their first occurrence; P + 1 is the state that is proved, P + 2 the one of which nothing can be
 * derived, P + 3 that of giving up.
 *
 * Every call may return STG_E_FORKED and, where it allocates, STG_E_NO_MEMORY.
 */
#ifndef STEERGRAPH_PROVER_H
#define STEERGRAPH_PROVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <steergraph/engine.h>
#include <steergraph/steer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STG_PROVER_MAX_ATOMS 8
#define STG_PROVER_MAX_CHILDREN 128
#define STG_PROVER_MAX_DEPTH 64
#define STG_PROVER_MAX_CAPACITY 1048576

typedef struct stg_prover stg_prover; /* one thread at a time */

/* pred(arg0, arg1). In a rule an argument below 0 is its variable number -arg - 1. */
typedef struct stg_atom {
  int32_t pred, arg0, arg1;
} stg_atom;

/* body[0], ..., body[n_body - 1] -> head. */
typedef struct stg_prover_rule {
  stg_atom head;
  const stg_atom *body;
  uint32_t n_body; /* 1 to 8 */
  uint32_t n_vars; /* at most 18 */
} stg_prover_rule;

/* How products of the policy are made on CUDA, and what one loses at most. Sums are in float32, as
 * is all of it on the CPU. */
typedef enum stg_arithmetic {
  STG_ARITHMETIC_F32 = 0,
  STG_ARITHMETIC_TF32X3 = 1, /* as three of TF32: 2^-21 */
  STG_ARITHMETIC_TF32 = 2    /* 2^-11 */
} stg_arithmetic;

/* A knowledge base, limits, the sizes of a policy. Zero means default. Arrays are read during the
 * call; facts and rules are tried in their order. */
typedef struct stg_prover_desc {
  size_t struct_size;    /* sizeof(stg_prover_desc) */
  int32_t predicates;    /* 1 to 1048576, and one more for each atom of facts and rules */
  int32_t constants;     /* at least 1 */
  const stg_atom *facts; /* ground, each once */
  size_t n_facts;
  const stg_prover_rule *rules;
  size_t n_rules;
  uint32_t atoms;    /* of a state, 1 to 8; 0: 6. A derived state with more is rejected */
  uint32_t children; /* of a derivation, 2 to 128; 0: 120 */
  uint32_t depth;    /* steps of a query, 1 to 64; 0: 20 */
  uint32_t embed;    /* 0: 250; even, at most `hidden` */
  uint32_t hidden;   /* 0: 256; even, at most 256 */
  uint32_t blocks;   /* 0: 8; at most 64 */
  float epsilon;     /* of the norms; 0: 1e-5 */
  stg_arithmetic arithmetic;
  uint32_t capacity; /* queries of one launch, at most STG_PROVER_MAX_CAPACITY; 0: 16384. Larger
                        pools are several launches, one after the other */
} stg_prover_desc;

/**
 * Sort the knowledge base into tables, and on CUDA have the kernel ready, which is compiled where
 * no cache has it. Weights are given after that.
 * @return STG_E_INVALID names the field, or the fact or rule, and the value; STG_E_UNSUPPORTED for
 * sizes of a policy that there are no kernels for; STG_E_NOT_WARM, STG_E_COMPILE as
 * stg_steer_create.
 */
STG_API STG_NODISCARD stg_status stg_prover_create(stg_engine *engine, const stg_prover_desc *desc,
                                                   stg_prover **ret_prover, stg_error *reterr);
/**
 * Free the prover, and steps that are borrowed from it. What was launched must have ended. NULL is
 * fine.
 * @return STG_E_BUSY while a graph is alive that a host captured with it.
 */
STG_API STG_NODISCARD stg_status stg_prover_destroy(stg_prover *prover, stg_error *reterr);

/*
 * Weights of a policy, on the host, read during the call. An atom is E_pred + E_arg0 - E_arg1, a
 * state x the mean over `atoms` of them; f(x) = out(relu(head(blocks(norm(relu(in(x))))))), where
 * block(x) = x + norm(relu(linear(x))). The logit of a child is f(state) . f(child) / sqrt(embed).
 */
typedef struct stg_prover_weights {
  size_t struct_size;      /* sizeof(stg_prover_weights) */
  const float *predicates; /* [P + 3, embed] */
  const float *entities;   /* [n + 2 * atoms, embed]: constants, then variables */
  const float *in_weight, *in_bias, *in_gain, *in_shift; /* [hidden, embed], [hidden] thrice */
  /* [blocks, hidden, hidden], [blocks, hidden] thrice */
  const float *block_weight, *block_bias, *block_gain, *block_shift;
  const float *head_weight, *head_bias; /* [hidden, hidden], [hidden] */
  const float *out_weight, *out_bias;   /* [embed, hidden], [embed] */
} stg_prover_weights;

/**
 * Take the weights of the runs to come, and of replays of graphs that were captured; none may be on
 * its way. Weights that are refused change nothing; where a copy to the device fails there are none
 * then.
 * @return STG_E_INVALID for a tensor that is NULL, STG_E_NON_FINITE for a value, with the tensor
 * and the element.
 */
STG_API STG_NODISCARD stg_status stg_prover_set_weights(stg_prover *prover,
                                                        const stg_prover_weights *weights,
                                                        stg_error *reterr);

/* How a query ended. */
typedef enum stg_outcome {
  STG_OUTCOME_PROVED = 1,
  STG_OUTCOME_FAILED = 2,      /* nothing could be derived */
  STG_OUTCOME_GAVE_UP = 3,     /* it picked to */
  STG_OUTCOME_OUT_OF_STEPS = 4 /* as many as `depth` */
} stg_outcome;

typedef struct stg_proof {
  float logp;     /* the sum of the logarithms of its picks' probabilities; no number is one of a
                     policy that leaves the range of float32, whose picks mean nothing */
  uint32_t depth; /* steps */
  stg_outcome outcome;
  uint32_t close; /* steps whose best two children are within 1e-4: they may go either way */
  uint8_t actions[STG_PROVER_MAX_DEPTH]; /* which child each step picked */
} stg_proof;

/* A pool of queries. */
typedef struct stg_prover_run_desc {
  size_t struct_size;      /* sizeof(stg_prover_run_desc) */
  const stg_atom *queries; /* [n], ground; read during the call */
  size_t n;
  bool sample; /* pick a sample of the softmax; else the largest logit, of equal ones the first */
  uint64_t seed;
  uint32_t threads; /* on the CPU; 0: as many as processors */
  bool trace;       /* write down the steps of query `traced` */
  size_t traced;
  void (*progress)(void *user, size_t done, size_t n); /* in the caller's thread, or NULL */
  void *user;
} stg_prover_run_desc;

/**
 * Run a pool of any size to its end. On CUDA on a stream of the prover's own, which it waits for.
 * @param ret_proofs host array [n].
 * @return STG_E_INVALID names the field or the query and the value, or says that there are no
 * weights.
 */
STG_API STG_NODISCARD stg_status stg_prover_run(stg_prover *prover, const stg_prover_run_desc *desc,
                                                stg_proof *ret_proofs, stg_error *reterr);

/* A pool on the device. Addresses are the device's, and are read and written as the launch runs. */
typedef struct stg_prover_launch_desc {
  size_t struct_size; /* sizeof(stg_prover_launch_desc) */
  /* [capacity], of which the first *n are proved: ground, of the base. Any other atom is undefined
   * behaviour. */
  const stg_atom *queries;
  const uint32_t *n;
  stg_proof *proofs; /* [capacity], of which the first *n are written */
  uint32_t capacity; /* what is beyond it is left out; 0: the prover's */
  bool sample;       /* as of a run */
  uint64_t seed;
  uint64_t first; /* the number of queries[0] in its pool, which samples depend on */
} stg_prover_launch_desc;

/**
 * Prove a pool that is on the device: one launch, one node in a capture, whose replays prove what
 * is there then. Does not synchronise. Launches, replays and runs of one prover must not overlap.
 * @return STG_E_INVALID names the field and the value, or says that there are no weights;
 * STG_E_UNSUPPORTED on the CPU; STG_E_NOT_WARM in a capture, as stg_steer_apply.
 */
STG_API STG_NODISCARD stg_status stg_prover_launch(stg_prover *prover,
                                                   const stg_prover_launch_desc *desc,
                                                   stg_stream stream, stg_error *reterr);

typedef struct stg_prover_state {
  uint32_t n;
  stg_atom atoms[STG_PROVER_MAX_ATOMS];
} stg_prover_state;

typedef struct stg_prover_step {
  stg_prover_state state;
  uint32_t n_children, action;
  const stg_prover_state *children; /* [n_children] */
  const float *logits;              /* [n_children]; 0 of a child that is alone */
} stg_prover_step;

/** The steps that the last run wrote down, none where it did not, nor of NULL: borrowed until the
 * next run. */
STG_API void stg_prover_get_trace(const stg_prover *prover, const stg_prover_step **ret_steps,
                                  size_t *ret_n);

/* What the last run did; launches are not among it. */
typedef struct stg_prover_counts {
  size_t struct_size;  /* in: sizeof(stg_prover_counts) */
  uint64_t slot_steps; /* steps that were executed; those of queries over these are useful ones */
  uint64_t query_steps;
  uint64_t children; /* that there were to pick from */
  uint64_t states;   /* that the policy evaluated */
  uint64_t pairs;    /* facts and rules that were there for a goal */
  uint64_t proofs;
  uint64_t close;
  /* of derivations that are no proofs: children beyond the last, with too many atoms, and such that
   * their query had been at */
  uint64_t cut, rejected, seen;
} stg_prover_counts;
/** Fills nothing when struct_size is not that of this version, nor of or into NULL. */
STG_API void stg_prover_get_counts(const stg_prover *prover, stg_prover_counts *counts);

/* What a prover holds: on the device, or on the CPU of the host. */
typedef struct stg_prover_memory {
  size_t struct_size;    /* in: sizeof(stg_prover_memory) */
  uint64_t base_bytes;   /* facts, rules, and where to find them */
  uint64_t policy_bytes; /* weights */
  uint64_t states_bytes; /* what is derived of the queries that are at work; 0 on the CPU, where
                            each thread of a run has its own */
  uint64_t slots;        /* how many these can be; 0 on the CPU */
  uint64_t pool_bytes;   /* queries and proofs of a launch; 0 on the CPU */
} stg_prover_memory;
/** Fills nothing when struct_size is not that of this version, nor of or into NULL. */
STG_API void stg_prover_get_memory(const stg_prover *prover, stg_prover_memory *memory);

/**
 * The one plan of a prover, whatever pools it runs: "prover v1 | ... | sm_90 | batch<=1 seq<=1
 * rows<=16384", the rows being its capacity in a bucket. Text is borrowed from the prover.
 */
STG_API STG_NODISCARD stg_status stg_prover_plan(const stg_prover *prover, stg_plan_info *ret_info,
                                                 stg_error *reterr);

#ifdef __cplusplus
}
#endif

#endif

/*
 * prove_policy.h: the weights of a proof search's policy: from a file of tensors, or from a seed.
 *
 * Their names and shapes are those of the same net in PyTorch, rows of a weight being outputs:
 *
 *   predicate.weight  [predicates + 3, embed]    the three are True, False and giving up
 *   entity.weight     [constants + 2 * atoms, embed]    constants, then variables
 *   in.weight [hidden, embed], in.bias, in_norm.weight, in_norm.bias [hidden]
 *   blocks.K.weight [hidden, hidden], blocks.K.bias, blocks.K.norm.weight, blocks.K.norm.bias
 *   head.weight [hidden, hidden], head.bias;  out.weight [embed, hidden], out.bias [embed]
 */
#ifndef STG_SPECS_PROVE_POLICY_H
#define STG_SPECS_PROVE_POLICY_H

#include "runtime/base/arena.h"
#include "specs/vector_file.h"

/* All at least 1. */
struct stg_prove_sizes {
  uint32_t predicates;
  uint32_t constants;
  uint32_t atoms;
  uint32_t embed;
  uint32_t hidden;
  uint32_t blocks;
};

/* Where the tensors of a policy are in its list; those of block k begin at BLOCKS + 4 * k, and
 * behind them all come head and out. */
enum stg_prove_tensor {
  STG_PROVE_PREDICATE,
  STG_PROVE_ENTITY,
  STG_PROVE_IN, /* weight; then bias, gain and shift */
  STG_PROVE_BLOCKS = STG_PROVE_IN + 4
};
#define STG_PROVE_OUTER_TENSORS 10 /* all but those of blocks */

/* {0} is empty. All float32 and finite. */
struct stg_prove_policy {
  struct stg_arena arena;
  struct stg_tensor_out *tensors;
  size_t n_tensors; /* STG_PROVE_OUTER_TENSORS + 4 * blocks */
};

/**
 * Read a policy of those sizes. Other tensors of the file do not matter.
 * @return what stg_tensor_file_open returns; STG_E_NOT_FOUND for a tensor that is missing;
 *         STG_E_FORMAT for another shape; STG_E_NON_FINITE, with the element's index.
 */
STG_NODISCARD stg_status stg_prove_policy_load(const char *path,
                                               const struct stg_prove_sizes *sizes,
                                               struct stg_prove_policy *ret_policy,
                                               stg_error *reterr);
/**
 * Make one up: normal values from stg_random_normal, tensor i of the list from stream i; tables at
 * scale 1, weights at 1 / sqrt(inputs). Biases and shifts are 0, gains 1. STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_prove_policy_random(uint64_t seed, const struct stg_prove_sizes *sizes,
                                                 struct stg_prove_policy *ret_policy,
                                                 stg_error *reterr);
void stg_prove_policy_finish(struct stg_prove_policy *policy);

#endif

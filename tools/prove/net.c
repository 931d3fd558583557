/*
 * prove/net.c: see net.h. A file has a tensor for each block, the library wants those of all blocks
 * behind each other.
 */
#include "tools/prove/net.h"

#include <string.h>

#include "runtime/base/alloc.h"

static const float *tensor(const struct stg_prove_job_net *net, size_t index) {
  return (const float *)net->tensors.tensors[index].data;
}

static size_t block_tensor(size_t block) {
  return STG_PROVE_BLOCKS + 4 * block;
}

/* Four tensors from `first` on: weight, bias, gain, shift. */
static struct stg_prove_layer normed_layer(const struct stg_prove_job_net *net, size_t first) {
  return (struct stg_prove_layer){.weight = tensor(net, first),
                                  .bias = tensor(net, first + 1),
                                  .gain = tensor(net, first + 2),
                                  .shift = tensor(net, first + 3)};
}

static struct stg_prove_layer plain_layer(const struct stg_prove_job_net *net, size_t first) {
  return (struct stg_prove_layer){.weight = tensor(net, first), .bias = tensor(net, first + 1)};
}

static void make_reference(const struct stg_prover_workload *w, struct stg_prove_job_net *net) {
  const size_t n_blocks = w->sizes.blocks;
  const size_t head = block_tensor(n_blocks);
  for (size_t i = 0; i < n_blocks; i++) {
    net->layers[i] = normed_layer(net, block_tensor(i));
  }
  net->sizes = (struct stg_prove_net){.embed = w->sizes.embed,
                                      .hidden = w->sizes.hidden,
                                      .blocks = w->sizes.blocks,
                                      .epsilon = w->epsilon};
  net->reference = (struct stg_prove_weights){.predicates = tensor(net, STG_PROVE_PREDICATE),
                                              .arguments = tensor(net, STG_PROVE_ENTITY),
                                              .in = normed_layer(net, STG_PROVE_IN),
                                              .blocks = net->layers,
                                              .head = plain_layer(net, head),
                                              .out = plain_layer(net, head + 2)};
}

/* Where the tensors of a kind begin in `blocks`: weights, biases, gains, shifts. */
static float *place_of(const struct stg_prove_job_net *net, size_t kind, size_t hidden,
                       size_t n_blocks) {
  return net->blocks + (kind > 0 ? n_blocks * hidden * (hidden + kind - 1) : 0);
}

static void make_given(const struct stg_prover_workload *w, struct stg_prove_job_net *net) {
  const size_t n_blocks = w->sizes.blocks;
  const size_t hidden = w->sizes.hidden;
  const size_t head = block_tensor(n_blocks);
  for (size_t kind = 0; kind < 4; kind++) {
    const size_t count = kind == 0 ? hidden * hidden : hidden;
    for (size_t i = 0; i < n_blocks; i++) {
      memcpy(place_of(net, kind, hidden, n_blocks) + i * count, tensor(net, block_tensor(i) + kind),
             count * sizeof(float));
    }
  }
  net->given = (stg_prover_weights){.struct_size = sizeof net->given,
                                    .predicates = tensor(net, STG_PROVE_PREDICATE),
                                    .entities = tensor(net, STG_PROVE_ENTITY),
                                    .in_weight = tensor(net, STG_PROVE_IN),
                                    .in_bias = tensor(net, STG_PROVE_IN + 1),
                                    .in_gain = tensor(net, STG_PROVE_IN + 2),
                                    .in_shift = tensor(net, STG_PROVE_IN + 3),
                                    .block_weight = place_of(net, 0, hidden, n_blocks),
                                    .block_bias = place_of(net, 1, hidden, n_blocks),
                                    .block_gain = place_of(net, 2, hidden, n_blocks),
                                    .block_shift = place_of(net, 3, hidden, n_blocks),
                                    .head_weight = tensor(net, head),
                                    .head_bias = tensor(net, head + 1),
                                    .out_weight = tensor(net, head + 2),
                                    .out_bias = tensor(net, head + 3)};
}

stg_status stg_prove_net_init(struct stg_prover_workload *workload, struct stg_prove_job_net *net,
                              stg_error *reterr) {
  const size_t n_blocks = workload->sizes.blocks;
  const size_t hidden = workload->sizes.hidden;
  const size_t bytes = n_blocks * hidden * (hidden + 3) * sizeof(float);
  stg_status status = stg_prover_take_policy(workload, &net->tensors, reterr);
  if (status != STG_OK) {
    return status;
  }
  net->blocks = stg_malloc(bytes);
  net->layers = stg_calloc(n_blocks, sizeof *net->layers);
  if (net->blocks == NULL || net->layers == NULL) {
    return stg_error_memory(reterr, "the blocks of a policy", bytes);
  }
  make_reference(workload, net);
  make_given(workload, net);
  return STG_OK;
}

void stg_prove_net_finish(struct stg_prove_job_net *net) {
  stg_prove_policy_finish(&net->tensors);
  stg_free(net->blocks);
  stg_free(net->layers);
}

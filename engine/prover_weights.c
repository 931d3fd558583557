/*
 * prover_weights.c: weights of a policy, checked, and from one array each to the layers of a net.
 */
#include <math.h>

#include "engine/prover.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

struct tensor {
  const char *name;
  const float *data;
  size_t count;
};

static stg_status check_tensor(const struct tensor *tensor, stg_error *reterr) {
  if (tensor->data == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_prover_set_weights: %s is NULL", tensor->name);
  }
  for (size_t i = 0; i < tensor->count; i++) {
    if (!isfinite(tensor->data[i])) {
      return stg_error_set(reterr, STG_E_NON_FINITE, "stg_prover_set_weights: %s[%zu] is %g",
                           tensor->name, i, (double)tensor->data[i]);
    }
  }
  return STG_OK;
}

static stg_status check_weights(const stg_prover *prover, const stg_prover_weights *w,
                                stg_error *reterr) {
  const size_t embed = prover->net.embed;
  const size_t hidden = prover->net.hidden;
  const size_t blocks = prover->net.blocks;
  const size_t predicates = (size_t)prover->tables.base.predicates + STG_PROVE_ENDF;
  const size_t entities = (size_t)prover->tables.base.constants + (size_t)2 * prover->limits.atoms;
  const struct tensor tensors[] = {
      {"predicates", w->predicates, predicates * embed},
      {"entities", w->entities, entities * embed},
      {"in_weight", w->in_weight, hidden * embed},
      {"in_bias", w->in_bias, hidden},
      {"in_gain", w->in_gain, hidden},
      {"in_shift", w->in_shift, hidden},
      {"block_weight", w->block_weight, blocks * hidden * hidden},
      {"block_bias", w->block_bias, blocks * hidden},
      {"block_gain", w->block_gain, blocks * hidden},
      {"block_shift", w->block_shift, blocks * hidden},
      {"head_weight", w->head_weight, hidden * hidden},
      {"head_bias", w->head_bias, hidden},
      {"out_weight", w->out_weight, embed * hidden},
      {"out_bias", w->out_bias, embed},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0] && status == STG_OK; i++) {
    status = check_tensor(&tensors[i], reterr);
  }
  return status;
}

/* Of weights that were checked. */
static stg_status take(stg_prover *prover, const struct stg_prove_weights *weights,
                       stg_error *reterr) {
  struct stg_cpu_policy *policy = NULL;
  if (stg_prover_is_cuda(prover)) {
    return stg_prover_device_set_weights(prover, weights, reterr);
  }
  stg_status status = stg_cpu_policy_create(&prover->net, weights, &prover->tables.base,
                                            prover->limits.atoms, &policy, reterr);
  if (status == STG_OK) {
    stg_cpu_policy_destroy(prover->policy);
    prover->policy = policy;
  }
  return status;
}

stg_status stg_prover_set_weights(stg_prover *prover, const stg_prover_weights *weights,
                                  stg_error *reterr) {
  if (prover == NULL || weights == NULL || weights->struct_size != sizeof *weights) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_prover_set_weights: prover or weights is NULL, or struct_size is not "
                         "%zu",
                         sizeof *weights);
  }
  stg_status status = stg_engine_check_process(prover->object.engine, reterr);
  if (status == STG_OK) {
    status = check_weights(prover, weights, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const size_t hidden = prover->net.hidden;
  struct stg_prove_layer *blocks = stg_calloc(prover->net.blocks, sizeof *blocks);
  if (blocks == NULL) {
    return stg_error_memory(reterr, "blocks of a policy", prover->net.blocks * sizeof *blocks);
  }
  for (size_t b = 0; b < prover->net.blocks; b++) {
    blocks[b] = (struct stg_prove_layer){.weight = weights->block_weight + b * hidden * hidden,
                                         .bias = weights->block_bias + b * hidden,
                                         .gain = weights->block_gain + b * hidden,
                                         .shift = weights->block_shift + b * hidden};
  }
  const struct stg_prove_weights own = {
      .predicates = weights->predicates,
      .arguments = weights->entities,
      .in = {weights->in_weight, weights->in_bias, weights->in_gain, weights->in_shift},
      .blocks = blocks,
      .head = {.weight = weights->head_weight, .bias = weights->head_bias},
      .out = {.weight = weights->out_weight, .bias = weights->out_bias}};
  status = take(prover, &own, reterr);
  stg_free(blocks);
  return status;
}

/*
 * cpu/prover_policy.c: see prover_policy.h.
 *
 * Weights lie as [inputs, outputs], both padded with zeros to whole lanes: a row of outputs grows
 * input by input, in ascending order, whatever the batch. A layer is gone through a few inputs at a
 * time for all states, so that its weights stay near.
 * It must not know of derivations, of pools or of threads.
 */
#include "engine/cpu/prover_policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/cpu/lanes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* Inputs that are added at once, and those that are done with for all states. */
#define AT_ONCE 4
#define NEAR STG_CPU_LANES

struct layer {
  size_t n_in, n_out;  /* padded */
  const float *weight; /* [n_in, n_out] */
  const float *bias;   /* [n_out] */
  const float *gain;   /* NULL: no norm */
  const float *shift;
};

struct stg_cpu_policy {
  struct stg_prove_net net;
  uint32_t atoms;
  size_t embed, hidden; /* padded */
  float scale;          /* of logits */
  float *block;         /* owns all below */
  const float *predicates;
  const float *arguments;
  struct layer *layers; /* in, blocks, head, out */
};

/* Takes what it is asked for from a block, or, without one, counts. */
struct cursor {
  float *block;
  size_t used;
};

static float *take(struct cursor *cursor, size_t count) {
  float *at = cursor->block != NULL ? cursor->block + cursor->used : NULL;
  cursor->used += count;
  return at;
}

/* Rows of `n` floats, padded. */
static const float *take_rows(struct cursor *cursor, const float *rows, size_t count, size_t n) {
  const size_t padded = stg_cpu_padded((int64_t)n);
  float *to = take(cursor, count * padded);
  for (size_t i = 0; i < count && to != NULL; i++) {
    memcpy(to + i * padded, rows + i * n, n * sizeof *to);
  }
  return to;
}

static const float *take_transposed(struct cursor *cursor, const float *weight, size_t n_in,
                                    size_t n_out) {
  const size_t in = stg_cpu_padded((int64_t)n_in);
  const size_t out = stg_cpu_padded((int64_t)n_out);
  float *to = take(cursor, in * out);
  for (size_t o = 0; o < n_out && to != NULL; o++) {
    for (size_t i = 0; i < n_in; i++) {
      to[i * out + o] = weight[o * n_in + i];
    }
  }
  return to;
}

static struct layer take_layer(struct cursor *cursor, const struct stg_prove_layer *from,
                               size_t n_in, size_t n_out) {
  struct layer layer = {.n_in = stg_cpu_padded((int64_t)n_in),
                        .n_out = stg_cpu_padded((int64_t)n_out)};
  layer.weight = take_transposed(cursor, from->weight, n_in, n_out);
  layer.bias = take_rows(cursor, from->bias, 1, n_out);
  if (from->gain != NULL) {
    layer.gain = take_rows(cursor, from->gain, 1, n_out);
    layer.shift = take_rows(cursor, from->shift, 1, n_out);
  }
  return layer;
}

/* All of a policy; with a cursor that counts, how much it is. */
static void take_policy(struct cursor *cursor, const struct stg_prove_weights *weights,
                        const struct stg_prove_base *base, struct stg_cpu_policy *policy) {
  const struct stg_prove_net *net = &policy->net;
  const size_t n_predicates = (size_t)base->predicates + STG_PROVE_ENDF;
  const size_t n_arguments = (size_t)base->constants + (size_t)2 * policy->atoms;
  policy->predicates = take_rows(cursor, weights->predicates, n_predicates, net->embed);
  policy->arguments = take_rows(cursor, weights->arguments, n_arguments, net->embed);
  policy->layers[0] = take_layer(cursor, &weights->in, net->embed, net->hidden);
  for (uint32_t b = 0; b < net->blocks; b++) {
    policy->layers[1 + b] = take_layer(cursor, &weights->blocks[b], net->hidden, net->hidden);
  }
  struct layer *last = &policy->layers[1 + net->blocks];
  last[0] = take_layer(cursor, &weights->head, net->hidden, net->hidden);
  last[1] = take_layer(cursor, &weights->out, net->hidden, net->embed);
}

stg_status stg_cpu_policy_create(const struct stg_prove_net *net,
                                 const struct stg_prove_weights *weights,
                                 const struct stg_prove_base *base, uint32_t atoms,
                                 struct stg_cpu_policy **ret_policy, stg_error *reterr) {
  struct cursor cursor = {0};
  struct stg_cpu_policy *policy = stg_calloc(1, sizeof *policy);
  struct layer *layers = stg_calloc((size_t)net->blocks + 3, sizeof *layers);
  if (policy == NULL || layers == NULL) {
    stg_free(policy);
    stg_free(layers);
    return stg_error_memory(reterr, "a policy of the CPU backend", sizeof *policy);
  }
  *policy = (struct stg_cpu_policy){.net = *net,
                                    .atoms = atoms,
                                    .embed = stg_cpu_padded((int64_t)net->embed),
                                    .hidden = stg_cpu_padded((int64_t)net->hidden),
                                    .scale = (float)(1 / sqrt((double)net->embed)),
                                    .layers = layers};
  take_policy(&cursor, weights, base, policy);
  policy->block = stg_malloc_aligned(cursor.used * sizeof(float));
  if (policy->block == NULL) {
    stg_cpu_policy_destroy(policy);
    return stg_error_memory(reterr, "weights of the CPU backend", cursor.used * sizeof(float));
  }
  memset(policy->block, 0, cursor.used * sizeof(float));
  cursor = (struct cursor){.block = policy->block};
  take_policy(&cursor, weights, base, policy);
  *ret_policy = policy;
  return STG_OK;
}

void stg_cpu_policy_destroy(struct stg_cpu_policy *policy) {
  if (policy != NULL) {
    stg_free(policy->block);
    stg_free(policy->layers);
    stg_free(policy);
  }
}

size_t stg_cpu_policy_stride(const struct stg_cpu_policy *policy) {
  return policy->embed;
}

size_t stg_cpu_policy_scratch(const struct stg_cpu_policy *policy, size_t n) {
  return 2 * n * policy->hidden;
}

/* Pads are zeros, not atoms: they count in the mean alone. */
static void embed(const struct stg_cpu_policy *policy, const struct stg_prove_state *state,
                  float *ret_x) {
  const size_t n = policy->embed;
  memset(ret_x, 0, n * sizeof *ret_x);
  for (uint32_t i = 0; i < state->n; i++) {
    const struct stg_prove_atom atom = state->atoms[i];
    stg_cpu_add(policy->predicates + (size_t)(atom.pred - 1) * n, n, ret_x);
    if (atom.arg0 > 0) {
      stg_cpu_add(policy->arguments + (size_t)(atom.arg0 - 1) * n, n, ret_x);
    }
    if (atom.arg1 > 0) {
      stg_cpu_axpy(-1.0f, policy->arguments + (size_t)(atom.arg1 - 1) * n, n, ret_x);
    }
  }
  for (size_t k = 0; k < n; k++) {
    ret_x[k] /= (float)policy->atoms;
  }
}

/* y += x[0] * row 0 + ... + x[3] * row 3, one after the other. */
static void add_rows(const float *restrict x, const float *restrict rows, size_t n,
                     float *restrict y) {
  const float x0 = x[0];
  const float x1 = x[1];
  const float x2 = x[2];
  const float x3 = x[3];
  for (size_t j = 0; j < n; j += STG_CPU_LANES) {
    for (size_t l = 0; l < STG_CPU_LANES; l++) {
      float sum = y[j + l] + x0 * rows[j + l];
      sum += x1 * rows[n + j + l];
      sum += x2 * rows[2 * n + j + l];
      y[j + l] = sum + x3 * rows[3 * n + j + l];
    }
  }
}

static void linear(const struct layer *layer, const float *x, size_t n_states, float *ret_y) {
  const size_t n_out = layer->n_out;
  for (size_t s = 0; s < n_states; s++) {
    memcpy(ret_y + s * n_out, layer->bias, n_out * sizeof *ret_y);
  }
  for (size_t near = 0; near < layer->n_in; near += NEAR) {
    for (size_t s = 0; s < n_states; s++) {
      for (size_t k = near; k < near + NEAR; k += AT_ONCE) {
        add_rows(x + s * layer->n_in + k, layer->weight + k * n_out, n_out, ret_y + s * n_out);
      }
    }
  }
}

static void relu(float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    x[i] = x[i] > 0.0f ? x[i] : 0.0f;
  }
}

/* With the biased variance; sums of the `n` that there are, in float64. */
static void norm(const struct layer *layer, double epsilon, size_t n, float *x) {
  double mean = 0;
  double variance = 0;
  for (size_t i = 0; i < n; i++) {
    mean += (double)x[i];
  }
  mean /= (double)n;
  for (size_t i = 0; i < n; i++) {
    const double off = (double)x[i] - mean;
    variance += off * off;
  }
  const float scale = (float)(1 / sqrt(variance / (double)n + epsilon));
  for (size_t i = 0; i < layer->n_out; i++) {
    x[i] = (x[i] - (float)mean) * scale * layer->gain[i] + layer->shift[i];
  }
}

static void norm_all(const struct stg_cpu_policy *policy, const struct layer *layer,
                     size_t n_states, float *x) {
  for (size_t s = 0; s < n_states; s++) {
    norm(layer, (double)policy->net.epsilon, policy->net.hidden, x + s * layer->n_out);
  }
}

void stg_cpu_policy_run(const struct stg_cpu_policy *policy, const struct stg_prove_state *states,
                        size_t n, float *scratch, float *ret_f) {
  const struct layer *layer = policy->layers;
  const size_t elems = n * policy->hidden;
  float *x = scratch;
  float *y = scratch + elems;
  for (size_t s = 0; s < n; s++) {
    embed(policy, &states[s], ret_f + s * policy->embed);
  }
  linear(layer, ret_f, n, x);
  relu(x, elems);
  norm_all(policy, layer++, n, x);
  for (uint32_t b = 0; b < policy->net.blocks; b++, layer++) {
    linear(layer, x, n, y);
    relu(y, elems);
    norm_all(policy, layer, n, y);
    stg_cpu_add(y, elems, x);
  }
  linear(layer++, x, n, y);
  relu(y, elems);
  linear(layer, y, n, ret_f);
}

float stg_cpu_policy_logit(const struct stg_cpu_policy *policy, const float *current,
                           const float *child) {
  return stg_cpu_dot(current, child, policy->embed) * policy->scale;
}

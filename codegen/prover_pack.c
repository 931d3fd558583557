/*
 * prover_pack.c: see prover_pack.h. It must not know of devices.
 */
#include "codegen/prover_pack.h"

#include <string.h>

#include "codegen/prover_extents.h"

#define OUTS STG_PROVER_MAX_WIDTH
#define VECTORS 3 /* bias, gain, shift */

static size_t layer_floats(uint32_t rows) {
  return (size_t)(rows + VECTORS) * OUTS;
}

size_t stg_prover_pack_floats(const struct stg_prove_net *net) {
  const struct stg_prover_extents e = stg_prover_extents_of(&(struct stg_prove_limits){0}, net);
  return layer_floats(e.embed_rows) + (net->blocks + (size_t)2) * layer_floats(e.hidden_rows);
}

static void put_vector(const float *from, uint32_t n, float *to) {
  if (from != NULL) {
    memcpy(to, from, n * sizeof *to);
  }
}

/* Returns where the next one begins. */
static float *put_layer(const struct stg_prove_layer *layer, uint32_t n_in, uint32_t rows,
                        uint32_t n_out, float *to) {
  for (uint32_t o = 0; o < n_out; o++) {
    for (uint32_t i = 0; i < n_in; i++) {
      to[(size_t)i * OUTS + o] = layer->weight[(size_t)o * n_in + i];
    }
  }
  float *vectors = to + (size_t)rows * OUTS;
  put_vector(layer->bias, n_out, vectors);
  put_vector(layer->gain, n_out, vectors + OUTS);
  put_vector(layer->shift, n_out, vectors + (size_t)2 * OUTS);
  return to + layer_floats(rows);
}

void stg_prover_pack(const struct stg_prove_net *net, const struct stg_prove_weights *weights,
                     float *ret_layers) {
  const struct stg_prover_extents e = stg_prover_extents_of(&(struct stg_prove_limits){0}, net);
  memset(ret_layers, 0, stg_prover_pack_floats(net) * sizeof *ret_layers);
  float *to = put_layer(&weights->in, net->embed, e.embed_rows, net->hidden, ret_layers);
  for (uint32_t b = 0; b < net->blocks; b++) {
    to = put_layer(&weights->blocks[b], net->hidden, e.hidden_rows, net->hidden, to);
  }
  to = put_layer(&weights->head, net->hidden, e.hidden_rows, net->hidden, to);
  put_layer(&weights->out, net->hidden, e.hidden_rows, net->embed, to);
}

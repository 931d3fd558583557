/*
 * prove_net.c: see prove_net.h.
 */
#include "tests/support/prove_net.h"

#include <string.h>

enum { WEIGHT, BIAS, GAIN, SHIFT };
#define N_LAYERS (STG_PROVE_NET_BLOCKS + 3)
#define AREA (STG_PROVE_NET_WIDTH * STG_PROVE_NET_WIDTH)

static struct stg_prove_layer layer(struct prove_net *net, int index, bool normed) {
  return (struct stg_prove_layer){.weight = net->layers[index][WEIGHT],
                                  .bias = net->layers[index][BIAS],
                                  .gain = normed ? net->layers[index][GAIN] : NULL,
                                  .shift = normed ? net->layers[index][SHIFT] : NULL};
}

static void connect(struct prove_net *net) {
  for (int i = 0; i < STG_PROVE_NET_BLOCKS; i++) {
    net->blocks[i] = layer(net, 1 + i, true);
  }
  net->weights = (struct stg_prove_weights){.predicates = net->predicates,
                                            .arguments = net->arguments,
                                            .in = layer(net, 0, true),
                                            .blocks = net->blocks,
                                            .head = layer(net, N_LAYERS - 2, false),
                                            .out = layer(net, N_LAYERS - 1, false)};
}

static void fill(float *at, int count, int tensor) {
  for (int i = 0; i < count; i++) {
    at[i] = (float)((37 * i + 101 * tensor) % 19 - 9) / 8;
  }
}

void prove_net_formula(struct prove_net *net) {
  memset(net, 0, sizeof *net);
  net->net = (struct stg_prove_net){.embed = 6, .hidden = 8, .blocks = 2, .epsilon = 1e-5f};
  connect(net);
  fill(net->predicates, STG_PROVE_NET_ROWS * STG_PROVE_NET_WIDTH, 0);
  fill(net->arguments, STG_PROVE_NET_ROWS * STG_PROVE_NET_WIDTH, 1);
  for (int k = 0; k < N_LAYERS; k++) {
    const int tensor = 2 + 4 * k;
    fill(net->layers[k][WEIGHT], AREA, tensor);
    for (int i = 0; i < STG_PROVE_NET_WIDTH; i++) {
      net->layers[k][BIAS][i] = (float)((11 * i + 7 * (tensor + 1)) % 5 - 2) / 4;
      net->layers[k][GAIN][i] = 1 + (float)((5 * i + tensor + 2) % 3 - 1) / 4;
      net->layers[k][SHIFT][i] = (float)((11 * i + 7 * (tensor + 3)) % 5 - 2) / 4;
    }
  }
}

void prove_net_plain(struct prove_net *net) {
  const int width = 4;
  memset(net, 0, sizeof *net);
  net->net = (struct stg_prove_net){.embed = 4, .hidden = 4, .blocks = 2, .epsilon = 1e-5f};
  connect(net);
  for (int k = 0; k < N_LAYERS; k++) {
    const bool is_block = k >= 1 && k <= STG_PROVE_NET_BLOCKS;
    for (int i = 0; i < width; i++) {
      net->layers[k][WEIGHT][i * width + i] = is_block ? 0 : 1;
      net->layers[k][GAIN][i] = 1;
    }
  }
}

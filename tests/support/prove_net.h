/*
 * prove_net.h: small policies for the proof search: one whose weights follow a formula, and one
 * that compares directions.
 */
#ifndef STG_TESTS_SUPPORT_PROVE_NET_H
#define STG_TESTS_SUPPORT_PROVE_NET_H

#include <stdbool.h>

#include "codegen/prover.h"

#define STG_PROVE_NET_BLOCKS 2
#define STG_PROVE_NET_WIDTH 8 /* the most */
#define STG_PROVE_NET_ROWS 40 /* of tables, the most */

struct prove_net {
  struct stg_prove_net net;
  struct stg_prove_weights weights;
  struct stg_prove_layer blocks[STG_PROVE_NET_BLOCKS];
  float predicates[STG_PROVE_NET_ROWS * STG_PROVE_NET_WIDTH];
  float arguments[STG_PROVE_NET_ROWS * STG_PROVE_NET_WIDTH];
  /* in, blocks, head, out; each with weight, bias, gain, shift */
  float layers[STG_PROVE_NET_BLOCKS + 3][4][STG_PROVE_NET_WIDTH * STG_PROVE_NET_WIDTH];
};

/** Widths 6 and 8. Element i of tensor t is ((37*i + 101*t) % 19 - 9) / 8, of biases and shifts
 * ((11*i + 7*t) % 5 - 2) / 4, of gains 1 + ((5*i + t) % 3 - 1) / 4; tensors count as they lie. */
void prove_net_formula(struct prove_net *net);
/** Width 4: f(state) is its mean, what is below 0 left out, normed and that again; tables are 0. */
void prove_net_plain(struct prove_net *net);

#endif

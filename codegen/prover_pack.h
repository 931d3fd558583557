/*
 * prover_pack.h: the layers of a policy as the kernel reads them.
 *
 * Layer by layer, the first one, the blocks, the head, the last one: [inputs, 256] weights, then
 * [256] each of bias, gain and shift; inputs to whole stages, and all of it, with zeros where the
 * net is narrower or there is no norm.
 */
#ifndef STG_CODEGEN_PROVER_PACK_H
#define STG_CODEGEN_PROVER_PACK_H

#include <stddef.h>

#include "codegen/prover.h"

/** Floats of all layers. */
size_t stg_prover_pack_floats(const struct stg_prove_net *net);

/** Fill ret_layers[stg_prover_pack_floats]. Sizes have been checked. */
void stg_prover_pack(const struct stg_prove_net *net, const struct stg_prove_weights *weights,
                     float *ret_layers);

#endif

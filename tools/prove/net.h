/*
 * prove/net.h: the weights of a workload's policy, as the library takes them and as the reference
 * does.
 */
#ifndef STG_TOOLS_PROVE_NET_H
#define STG_TOOLS_PROVE_NET_H

#include <steergraph/prover.h>

#include "engine/oracle/policy.h"
#include "specs/prover_workload.h"

/* {0} is empty. */
struct stg_prove_job_net {
  struct stg_prove_policy tensors;
  float *blocks;                      /* tensors of all blocks, those of a kind side by side */
  struct stg_prove_layer *layers;     /* the blocks of `reference` */
  stg_prover_weights given;           /* reads `blocks` and the tensors */
  struct stg_prove_net sizes;         /* of `reference` */
  struct stg_prove_weights reference; /* reads the tensors alone */
};

/** Take the workload's policy, which can be done once. Finish also after a failure. */
STG_NODISCARD stg_status stg_prove_net_init(struct stg_prover_workload *workload,
                                            struct stg_prove_job_net *net, stg_error *reterr);
void stg_prove_net_finish(struct stg_prove_job_net *net);

#endif

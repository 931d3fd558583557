/*
 * prove/trace.h: the way of one query: what could be derived at each step, what the policy made of
 * it, and what it picked.
 */
#ifndef STG_TOOLS_PROVE_TRACE_H
#define STG_TOOLS_PROVE_TRACE_H

#include "tools/prove/run.h"

/* A way. Borrowed. */
struct stg_prove_way {
  const struct stg_prove_options *options;
  const struct stg_prove_job *job;
  stg_atom query;
  size_t number; /* in the workload's pool; SIZE_MAX: it is none of it */
  const stg_proof *proof;
  const stg_prover_step *steps;
  size_t n_steps;
  struct stg_prove_check check; /* of this query alone */
};

/**
 * Prove options->trace, a query of names of the base, and append its way. A candidate of the pool
 * goes the way that it goes there; any other one that of the first in a pool. `*ret_fault`: none
 * where the reference agrees. STG_E_FORMAT for what is no query.
 */
STG_NODISCARD stg_status stg_prove_trace(struct stg_prove_job *job,
                                         const struct stg_prove_options *options,
                                         enum stg_prove_fault *ret_fault,
                                         struct stg_strbuf *ret_text, stg_error *reterr);

#endif

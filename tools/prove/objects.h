/*
 * prove/objects.h: what serves a workload: its pool of candidates, a prover with its weights, and
 * the reference that judges.
 */
#ifndef STG_TOOLS_PROVE_OBJECTS_H
#define STG_TOOLS_PROVE_OBJECTS_H

#include "specs/prover_pool.h"
#include "tools/prove/check.h"
#include "tools/prove/job.h"
#include "tools/prove/net.h"

/* {0} is empty. */
struct stg_prove_objects {
  struct stg_prover_pool pool;
  stg_atom *queries; /* the pool's candidates, as the library takes them */
  size_t *originals; /* [pool.n_groups], ascending: queries among them */
  struct stg_prove_job_net net;
  stg_prover *prover;
  struct stg_oracle_search search; /* reads `net` and the job's base */
  double logp_bound;               /* of the check; 0: the usual one */
};

/** Make all of them, of the first `limit` queries alone. Finish also after a failure. Messages
 * carry the file. */
STG_NODISCARD stg_status stg_prove_objects_init(struct stg_prove_job *job, size_t limit,
                                                struct stg_prove_objects *objects,
                                                stg_error *reterr);
void stg_prove_objects_finish(struct stg_prove_objects *objects);

#endif

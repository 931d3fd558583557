/*
 * prove/run.h: what `steergraph prove` does with a workload: its pool proved, timed, ranked and
 * checked.
 */
#ifndef STG_TOOLS_PROVE_RUN_H
#define STG_TOOLS_PROVE_RUN_H

#include "tools/prove/objects.h"
#include "tools/prove/sides.h"
#include "tools/times.h"

/* What the command was asked for. */
struct stg_prove_options {
  const char *spec;
  const char *arithmetic; /* instead of the workload's, or NULL */
  const char *output;     /* file for the results, or NULL */
  const char *traffic;    /* file for the manifest, or NULL */
  const char *trace;      /* a query whose way is shown instead of all, or NULL */
  bool json;
  bool no_timing;   /* one run; what depends on the machine's speed is left out */
  size_t limit;     /* queries; SIZE_MAX: all */
  size_t check;     /* candidates that the reference judges; SIZE_MAX: all */
  uint32_t threads; /* 1 or more */
  struct stg_job_options job;
};

/* Everything of a run that was done. Borrowed. */
struct stg_prove_done {
  const struct stg_prove_options *options;
  const struct stg_prove_job *job;
  const struct stg_prove_objects *objects;
  const stg_proof *proofs; /* of the pool's candidates */
  const float *ranks;      /* [pool.n_groups] */
  struct stg_prove_sides sides;
  stg_plan_info plan;
  stg_prover_counts counts;
  bool timed;
  struct stg_times times; /* of the whole pool */
  unsigned repeats;       /* runs that these are of */
  struct stg_prove_check check;
};

/** Prove all, and append the report. `*ret_fault`: none where the reference agrees. */
STG_NODISCARD stg_status stg_prove_all(struct stg_prove_job *job,
                                       const struct stg_prove_options *options,
                                       enum stg_prove_fault *ret_fault, struct stg_strbuf *ret_text,
                                       stg_error *reterr);

/* Proofs that stand together in the pool, the first of them with its number. */
struct stg_prove_span {
  const struct stg_kb_atom *candidates; /* [n] */
  const stg_proof *proofs;              /* [n] */
  size_t first, n;
};

/** Let the reference judge a sample of them. */
STG_NODISCARD stg_status stg_prove_judge(const struct stg_prove_objects *objects,
                                         const struct stg_prove_options *options,
                                         const struct stg_prove_span *span,
                                         struct stg_prove_check *ret_check, stg_error *reterr);

#endif

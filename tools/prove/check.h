/*
 * prove/check.h: proofs against the float64 reference, which goes their way: picks, depth, outcome
 * and logp.
 */
#ifndef STG_TOOLS_PROVE_CHECK_H
#define STG_TOOLS_PROVE_CHECK_H

#include <steergraph/prover.h>

#include "engine/oracle/search.h"

#define STG_PROVE_LOGP_BOUND 1e-4 /* unless told otherwise */

/* What is wrong with a proof. */
enum stg_prove_fault {
  STG_PROVE_NO_FAULT,
  STG_PROVE_FAULT_PICK,  /* worse than the best by more than the search allows */
  STG_PROVE_FAULT_DEPTH, /* another number of steps */
  STG_PROVE_FAULT_OUTCOME,
  STG_PROVE_FAULT_LOGP,    /* off by more than its bound */
  STG_PROVE_FAULT_OVERFLOW /* any of these, and the policy left the range of float32 */
};
/** "pick", "depth", "outcome", "logp", "overflow". */
const char *stg_prove_fault_name(enum stg_prove_fault fault);

/* What to judge. Borrowed. */
struct stg_prove_judged {
  const struct stg_oracle_search *search;
  const struct stg_kb_atom *candidates; /* [n], with their numbers in the pool as indices */
  const stg_proof *proofs;              /* [n] */
  const size_t *originals;              /* [n_originals] ascending: queries among them */
  size_t n, n_originals;
  size_t first;      /* the number of candidates[0] */
  size_t sample;     /* how many: half of them queries, all spread over the pool; SIZE_MAX: all. The
                        first whose logp is no number is judged beside them */
  size_t threads;    /* at least 1 */
  double logp_bound; /* 0: STG_PROVE_LOGP_BOUND */
  void (*progress)(void *user, size_t done, size_t n); /* in the caller's thread, or NULL */
  void *user;
};

struct stg_prove_check {
  size_t checked;
  size_t violations;
  size_t overflows;           /* candidates with a step at which the policy leaves float32 */
  size_t close;               /* steps whose two best children are STG_ORACLE_CLOSE */
  double max_logp_err;        /* of proofs whose picks are right */
  size_t first;               /* of those violated, its number; SIZE_MAX: none */
  enum stg_prove_fault fault; /* of the first */
  uint32_t step;              /* of a pick, counted from 1 */
  bool ok;                    /* there are none */
};

/** Judge. STG_E_NO_MEMORY. Where no thread can be started the caller's does the work. */
STG_NODISCARD stg_status stg_prove_check(const struct stg_prove_judged *judged,
                                         struct stg_prove_check *ret_check, stg_error *reterr);

#endif

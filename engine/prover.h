/*
 * prover.h: a prover as its own files see it.
 */
#ifndef STG_ENGINE_PROVER_H
#define STG_ENGINE_PROVER_H

#include <steergraph/prover.h>

#include "codegen/prove_tables.h"
#include "codegen/prover.h"
#include "engine/cpu/prover.h"
#include "engine/engine.h"

/* What a run wrote down of one query. */
struct stg_prover_trace {
  stg_prover_step *steps; /* owns all three */
  stg_prover_state *children;
  float *logits;
  size_t n;
};

struct stg_prover {
  struct stg_engine *engine;
  struct stg_prove_tables tables;
  struct stg_prove_limits limits;
  struct stg_prove_net net;
  struct stg_cpu_policy *policy; /* NULL: no weights yet */
  struct stg_prover_trace trace;
  struct stg_prove_counts counts;
};

/** Limits and sizes, defaults filled in. STG_E_INVALID or STG_E_UNSUPPORTED names field and value.
 */
STG_NODISCARD stg_status stg_prover_check_desc(const stg_prover_desc *desc,
                                               struct stg_prove_limits *ret_limits,
                                               struct stg_prove_net *ret_net, stg_error *reterr);
/** The tables of a description. STG_E_INVALID names a fact or a rule; STG_E_NO_MEMORY. */
STG_NODISCARD stg_status stg_prover_make_tables(const stg_prover_desc *desc,
                                                struct stg_prove_tables *ret_tables,
                                                stg_error *reterr);
void stg_prover_trace_finish(struct stg_prover_trace *trace);

static inline struct stg_prove_atom stg_prover_atom(stg_atom atom) {
  return (struct stg_prove_atom){.pred = atom.pred, .arg0 = atom.arg0, .arg1 = atom.arg1};
}

#endif

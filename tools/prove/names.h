/*
 * prove/names.h: atoms and states with the names of their knowledge base.
 */
#ifndef STG_TOOLS_PROVE_NAMES_H
#define STG_TOOLS_PROVE_NAMES_H

#include <steergraph/prover.h>

#include "runtime/base/strbuf.h"
#include "specs/kb.h"

/** Append "aunt(ann, X1)"; variables are X1, X2, ... by their numbers. */
void stg_prove_print_atom(const struct stg_kb *kb, stg_atom atom, struct stg_strbuf *out);
/** Append the atoms of a state, or True, False or Endf. */
void stg_prove_print_state(const struct stg_kb *kb, const stg_prover_state *state,
                           struct stg_strbuf *out);
/** "proved", "failed", "gave up", "out of steps". */
const char *stg_prove_outcome_name(stg_outcome outcome);

#endif

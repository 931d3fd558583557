/*
 * prove/names.c: see names.h.
 */
#include "tools/prove/names.h"

#include <inttypes.h>

static void print_argument(const struct stg_kb *kb, int32_t arg, struct stg_strbuf *out) {
  const int32_t n = (int32_t)kb->constants.n;
  if (arg <= n) {
    stg_strbuf_str(out, stg_kb_names_text(&kb->constants, arg));
  } else {
    stg_strbuf_printf(out, "X%" PRId32, arg - n);
  }
}

void stg_prove_print_atom(const struct stg_kb *kb, stg_atom atom, struct stg_strbuf *out) {
  static const char *const words[] = {"True", "False", "Endf"};
  const int32_t n = (int32_t)kb->predicates.n;
  if (atom.pred > n) {
    stg_strbuf_str(out, words[atom.pred - n - 1]);
    return;
  }
  stg_strbuf_str(out, stg_kb_names_text(&kb->predicates, atom.pred));
  stg_strbuf_char(out, '(');
  print_argument(kb, atom.arg0, out);
  stg_strbuf_str(out, ", ");
  print_argument(kb, atom.arg1, out);
  stg_strbuf_char(out, ')');
}

void stg_prove_print_state(const struct stg_kb *kb, const stg_prover_state *state,
                           struct stg_strbuf *out) {
  for (uint32_t i = 0; i < state->n; i++) {
    stg_strbuf_str(out, i > 0 ? ", " : "");
    stg_prove_print_atom(kb, state->atoms[i], out);
  }
}

const char *stg_prove_outcome_name(stg_outcome outcome) {
  static const char *const names[] = {"", "proved", "failed", "gave up", "out of steps"};
  return names[outcome];
}

/*
 * golden_program.c: the scalar program of a chain, as stg_program_print says it.
 */
#include "tests/golden/golden.h"

#include "codegen/chain.h"

/* A single op's own program, as stg_op_compile leaves it; of several the chain's. */
stg_status golden_program(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                          stg_error *reterr) {
  const struct stg_op *ops[STG_CHAIN_MAX_OPS] = {0};
  size_t n_ops = 0;
  stg_status status = golden_ops(arena, name, ops, &n_ops, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_program program = ops[0]->program;
  if (n_ops > 1) {
    status = stg_chain_program(arena, ops, n_ops, &program, reterr);
  } else {
    stg_strbuf_str(out, ops[0]->canonical);
    stg_strbuf_char(out, '\n');
  }
  stg_program_print(&program, out);
  return status;
}

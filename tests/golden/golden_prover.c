/*
 * golden_prover.c: the text of the kernel of the proof search, from what a name spells.
 */
#include "tests/golden/golden.h"

#include <stdio.h>
#include <string.h>

static stg_status parse_kernel(const char *name, struct stg_prover_kernel *ret, stg_error *reterr) {
  struct stg_prover_kernel kernel = {.arithmetic = STG_PROVER_F32};
  char again[100];
  const int n = sscanf(name, "a%u-c%u-e%u-h%u-b%u-", &kernel.limits.atoms, &kernel.limits.children,
                       &kernel.net.embed, &kernel.net.hidden, &kernel.net.blocks);
  snprintf(again, sizeof again, "a%u-c%u-e%u-h%u-b%u-f32", kernel.limits.atoms,
           kernel.limits.children, kernel.net.embed, kernel.net.hidden, kernel.net.blocks);
  if (n != 5 || strcmp(again, name) != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "'%s' is no kernel of the prover", name);
  }
  *ret = kernel;
  return STG_OK;
}

stg_status golden_prover(struct stg_arena *arena, const char *name, struct stg_strbuf *out,
                         stg_error *reterr) {
  (void)arena;
  struct stg_prover_kernel kernel;
  struct stg_launch_rule rule;
  struct stg_strbuf source = {0};
  stg_status status = parse_kernel(name, &kernel, reterr);
  if (status == STG_OK) {
    status = stg_prover_generate(&kernel, &source, &rule, reterr);
  }
  if (status == STG_OK) {
    stg_strbuf_printf(out, "// launch: threads %u, rows_per_block %u, shared %u\n", rule.threads,
                      rule.rows_per_block, rule.stage_bytes);
    stg_strbuf_str(out, stg_strbuf_text(&source));
  }
  stg_strbuf_finish(&source);
  return status;
}

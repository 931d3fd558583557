/*
 * golden_prover.c: the text of the kernel of the proof search, from what a name spells.
 */
#include "tests/golden/golden.h"

#include <stdlib.h>
#include <string.h>

/* "a6-" -> 6, for the letter 'a'. */
static bool take_number(const char **name, char letter, uint32_t *ret) {
  char *end = NULL;
  if ((*name)[0] != letter || (*name)[1] < '0' || (*name)[1] > '9') {
    return false;
  }
  *ret = (uint32_t)strtoul(*name + 1, &end, 10);
  *name = end + 1;
  return *end == '-';
}

static bool find_arithmetic(const char *name, enum stg_prover_arithmetic *ret) {
  for (int i = STG_PROVER_F32; i <= STG_PROVER_TF32; i++) {
    if (strcmp(name, stg_prover_arithmetic_name((enum stg_prover_arithmetic)i)) == 0) {
      *ret = (enum stg_prover_arithmetic)i;
      return true;
    }
  }
  return false;
}

static stg_status parse_kernel(const char *name, struct stg_prover_kernel *ret, stg_error *reterr) {
  struct stg_prover_kernel kernel = {0};
  const char *at = name;
  if (!take_number(&at, 'a', &kernel.limits.atoms) ||
      !take_number(&at, 'c', &kernel.limits.children) ||
      !take_number(&at, 'e', &kernel.net.embed) || !take_number(&at, 'h', &kernel.net.hidden) ||
      !take_number(&at, 'b', &kernel.net.blocks) || !find_arithmetic(at, &kernel.arithmetic)) {
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

/*
 * declared_prover.c: the kernel that a prover asks for, declared by the command without a prover.
 */
#include "engine/declared.h"
#include "engine/prover.h"

stg_status stg_declare_prover(const stg_prover_desc *desc, struct stg_arena *arena,
                              const struct stg_declared **ret_declared, stg_error *reterr) {
  stg_prover_desc without_base = *desc;
  struct stg_prover_form form;
  without_base.n_facts = without_base.n_rules = 0;
  stg_status status = stg_prover_check_desc(&without_base, &form, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_prover_decl *decl = stg_arena_alloc(arena, 1, sizeof *decl);
  struct stg_declared *declared = stg_arena_alloc(arena, 1, sizeof *declared);
  if (decl == NULL || declared == NULL) {
    return stg_arena_status(arena, reterr);
  }
  const struct stg_prover_kernel kernel = stg_prover_kernel_of(&form);
  status = stg_prover_decl_init(&kernel, decl, reterr);
  if (status == STG_OK) {
    *declared = (struct stg_declared){.parts = {&decl->base}, .n_parts = 1};
    *ret_declared = declared;
  }
  return status;
}

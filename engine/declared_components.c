/*
 * declared_components.c: declarations of components that the command makes: the kernels that they
 * ask for, without making them.
 */
#include "engine/components.h"
#include "engine/declared.h"

static stg_status add(const struct stg_components_form *form, const struct stg_buckets *row_buckets,
                      enum stg_components_task task, struct stg_arena *arena,
                      struct stg_declared *declared, stg_error *reterr) {
  struct stg_components_decl *decl = stg_arena_alloc(arena, 1, sizeof *decl);
  if (decl == NULL) {
    return stg_arena_status(arena, reterr);
  }
  stg_status status = stg_components_decl_init(task, &form->geometry, form->tile, decl, reterr);
  if (status == STG_OK) {
    decl->row_buckets = *row_buckets;
    declared->parts[declared->n_parts++] = &decl->base;
  }
  return status;
}

stg_status stg_declare_components(const stg_components_desc *desc, struct stg_arena *arena,
                                  const struct stg_declared **ret_declared, stg_error *reterr) {
  struct stg_components_form form;
  stg_status status = stg_components_describe(desc, &form, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_buckets row_buckets = {NULL, 0};
  if (desc->n_row_buckets > 0) {
    row_buckets.sizes =
        stg_arena_memdup(arena, desc->row_buckets, desc->n_row_buckets * sizeof *desc->row_buckets);
    row_buckets.count = desc->n_row_buckets;
  }
  struct stg_declared *declared = stg_arena_alloc(arena, 1, sizeof *declared);
  status = stg_arena_status(arena, reterr);
  if (status != STG_OK) {
    return status;
  }
  *declared = (struct stg_declared){.apart = form.backward ? 1 : 0};
  const unsigned count = form.backward ? STG_COMPONENTS_TASKS : 1;
  for (unsigned i = 0; i < count && status == STG_OK; i++) {
    status = add(&form, &row_buckets, (enum stg_components_task)i, arena, declared, reterr);
  }
  if (status == STG_OK) {
    *ret_declared = declared;
  }
  return status;
}

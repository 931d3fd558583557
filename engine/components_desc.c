/*
 * components_desc.c: what components are declared as: checked, with the geometry that follows.
 * Makes nothing, so that the command can ask what they would be.
 */
#include "codegen/components_text.h"
#include "engine/components.h"

static stg_status check_words(const stg_components_desc *desc, stg_error *reterr) {
  if ((unsigned)desc->math > STG_COMPONENTS_TF32) {
    return stg_error_set(reterr, STG_E_INVALID, "math: %u is not in 0..%u", (unsigned)desc->math,
                         STG_COMPONENTS_TF32);
  }
  if ((unsigned)desc->mask > STG_MASK_ABSENT) {
    return stg_error_set(reterr, STG_E_INVALID, "mask: %u is not in 0..%u", (unsigned)desc->mask,
                         STG_MASK_ABSENT);
  }
  if (desc->max_rows < 0) {
    return stg_error_set(reterr, STG_E_INVALID, "max_rows: %lld is below 0",
                         (long long)desc->max_rows);
  }
  return STG_OK;
}

static uint32_t tile_of(const stg_components_desc *desc) {
  if (desc->tile != 0) {
    return desc->tile;
  }
  return stg_components_tile_of(desc->max_rows != 0 ? desc->max_rows : INT64_MAX);
}

stg_status stg_components_describe(const stg_components_desc *desc,
                                   struct stg_components_form *ret_form, stg_error *reterr) {
  static const enum stg_components_mask masks[] = {
      [STG_MASK_ELEMENTS] = STG_COMPONENTS_MASK_DTYPE,
      [STG_MASK_BOOL] = STG_COMPONENTS_MASK_BOOL,
      [STG_MASK_ABSENT] = STG_COMPONENTS_MASK_NONE,
  };
  stg_status status = check_words(desc, reterr);
  if (status == STG_OK) {
    status =
        stg_buckets_check("row_buckets", desc->row_buckets, desc->n_row_buckets, INT32_MAX, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const struct stg_components_form form = {
      .geometry = {.d_in = desc->d_in,
                   .d_out = desc->d_out,
                   .components = desc->components,
                   .dtype = desc->dtype,
                   .tf32 = desc->math == STG_COMPONENTS_TF32,
                   .mask = masks[desc->mask],
                   .bias = desc->bias,
                   .delta = desc->delta},
      .tile = tile_of(desc),
      .backward = desc->backward,
  };
  struct stg_components_decl decl;
  status =
      stg_components_decl_init(STG_COMPONENTS_TASK_APPLY, &form.geometry, form.tile, &decl, reterr);
  if (status == STG_OK) {
    *ret_form = form;
  }
  return status;
}

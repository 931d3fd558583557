/*
 * components_objects.h: components through the public API, on the random tensors of
 * components_case.h. For cmocka.
 */
#ifndef STG_TESTS_SUPPORT_COMPONENTS_OBJECTS_H
#define STG_TESTS_SUPPORT_COMPONENTS_OBJECTS_H

#include <steergraph/components.h>

#include "tests/support/attn_objects.h"
#include "tests/support/components_case.h"

static inline stg_components_desc comp_desc(const struct stg_components_geometry *g) {
  static const stg_components_mask_kind masks[] = {
      [STG_COMPONENTS_MASK_NONE] = STG_MASK_ABSENT,
      [STG_COMPONENTS_MASK_DTYPE] = STG_MASK_ELEMENTS,
      [STG_COMPONENTS_MASK_BOOL] = STG_MASK_BOOL,
  };
  return (stg_components_desc){.struct_size = sizeof(stg_components_desc),
                               .d_in = g->d_in,
                               .d_out = g->d_out,
                               .components = g->components,
                               .dtype = g->dtype,
                               .math = g->tf32 ? STG_COMPONENTS_TF32 : STG_COMPONENTS_EXACT,
                               .mask = masks[g->mask],
                               .bias = g->bias,
                               .delta = g->delta,
                               .backward = true};
}

/* The tensors of a case; its share of all rows is said as 0. */
static inline stg_components_tensors comp_tensors(const struct components_case *c) {
  const struct stg_components_inputs *in = &c->inputs;
  return (stg_components_tensors){
      .struct_size = sizeof(stg_components_tensors),
      .rows = in->rows.rows,
      .x = in->x,
      .x_stride = in->x_stride,
      .v = in->v,
      .u = in->u,
      .mask = in->mask,
      .mask_stride = in->mask_stride,
      .mask_share = in->mask_share == in->rows.rows ? 0 : in->mask_share,
      .bias = in->bias,
      .d = in->d,
      .delta = in->delta,
      .y = c->y,
      .y_stride = c->y_stride,
      .valid = in->rows.valid,
      .sequence = in->rows.sequence,
  };
}

/* Without work memory. */
static inline stg_components_grads comp_grads(const struct components_case *c) {
  return (stg_components_grads){
      .struct_size = sizeof(stg_components_grads),
      .dy = c->dy,
      .dy_stride = c->dy_stride,
      .dx = c->out.dx,
      .dx_stride = c->out.dx_stride,
      .dv = c->out.dv,
      .du = c->out.du,
      .dm = c->out.dm,
      .dm_stride = c->out.dm_stride,
      .dbias = c->out.dbias,
      .dd = c->out.dd,
      .ddelta = c->out.ddelta,
  };
}

/* Work memory as the components ask for it, filled with NaN. */
static inline void comp_give_work(struct attn_bed *bed, const stg_components *components,
                                  const stg_components_tensors *tensors,
                                  stg_components_grads *grads) {
  stg_error error = STG_ERROR_INIT;
  must(stg_components_work_bytes(components, tensors->rows, tensors->mask_share, &grads->work_bytes,
                                 &error),
       &error);
  grads->work = attn_nans(bed, STG_F32, (int64_t)(grads->work_bytes / sizeof(float)) + 1);
}

#endif

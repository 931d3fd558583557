/*
 * components/check.c: see check.h.
 */
#include "tools/components/check.h"

#include <string.h>

static struct stg_components_geometry geometry_of(const struct stg_components_workload *w) {
  static const enum stg_components_mask masks[] = {
      [STG_SPEC_MASK_ELEMENTS] = STG_COMPONENTS_MASK_DTYPE,
      [STG_SPEC_MASK_BOOL] = STG_COMPONENTS_MASK_BOOL,
      [STG_SPEC_MASK_NONE] = STG_COMPONENTS_MASK_NONE,
  };
  return (struct stg_components_geometry){
      .d_in = w->d_in,
      .d_out = w->d_out,
      .components = w->components,
      .dtype = w->dtype,
      .tf32 = w->math == STG_SPEC_MATH_TF32,
      .mask = masks[w->mask],
      .bias = w->bias,
      .delta = w->delta,
  };
}

static struct stg_components_inputs inputs_of(const struct stg_components_workload *w,
                                              const struct stg_components_all *all) {
  const struct stg_components_tensor *of = all->of;
  return (struct stg_components_inputs){
      .rows = {w->rows, w->sequence, w->valid},
      .x = of[STG_SPEC_COMPONENTS_X].before,
      .x_stride = (int64_t)w->d_in,
      .v = of[STG_SPEC_COMPONENTS_V].before,
      .u = of[STG_SPEC_COMPONENTS_U].before,
      .mask = of[STG_SPEC_COMPONENTS_MASK].before,
      .mask_stride = (int64_t)w->components,
      .mask_share = w->share == 0 || w->share > w->rows ? w->rows : w->share,
      .bias = of[STG_SPEC_COMPONENTS_BIAS].before,
      .d = of[STG_SPEC_COMPONENTS_D].before,
      .delta = of[STG_SPEC_COMPONENTS_DELTA].before,
  };
}

static struct stg_components_gradients gradients_of(const struct stg_components_workload *w,
                                                    const struct stg_components_all *all) {
  const struct stg_components_tensor *of = &all->of[STG_COMPONENTS_GRADIENT];
  return (struct stg_components_gradients){
      .dx = of[0].after,
      .dx_stride = (int64_t)w->d_in,
      .dv = of[1].after,
      .du = of[2].after,
      .dm = of[3].after,
      .dm_stride = (int64_t)w->components,
      .dbias = of[4].after,
      .dd = of[5].after,
      .ddelta = of[6].after,
  };
}

static stg_status check_bystanders(const struct stg_components_job *job,
                                   const struct stg_components_all *all, stg_error *reterr) {
  for (unsigned i = 0; i < STG_COMPONENTS_TENSORS; i++) {
    const struct stg_components_tensor *t = &all->of[i];
    const bool is_result = i >= STG_COMPONENTS_Y && i < STG_COMPONENTS_VALID;
    if (!is_result && t->bytes > 0 && memcmp(t->before, t->after, t->bytes) != 0) {
      return stg_error_set(reterr, STG_E_CORRUPT, "%s: %s: what is only read was written",
                           job->workload.file, stg_components_tensor_name(i));
    }
  }
  return STG_OK;
}

static stg_status check_gradients(const struct stg_components_workload *w,
                                  const struct stg_components_all *all,
                                  struct stg_components_check *check, stg_error *reterr) {
  const struct stg_components_geometry geometry = geometry_of(w);
  const struct stg_components_inputs inputs = inputs_of(w, all);
  const struct stg_components_gradients gradients = gradients_of(w, all);
  const struct stg_oracle_components_dy dy = {all->of[STG_SPEC_COMPONENTS_DY].before,
                                              (int64_t)w->d_out};
  stg_status status = stg_oracle_components_check_each(&geometry, &inputs, dy, &gradients,
                                                       check->gradients, reterr);
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS && status == STG_OK; i++) {
    check->has[i] = all->of[STG_COMPONENTS_GRADIENT + i].bytes > 0;
    check->violations += check->gradients[i].violations;
  }
  return status;
}

stg_status stg_components_check_all(const struct stg_components_job *job,
                                    const struct stg_components_all *all,
                                    struct stg_components_check *ret_check, stg_error *reterr) {
  const struct stg_components_workload *w = &job->workload;
  const struct stg_components_geometry geometry = geometry_of(w);
  const struct stg_components_inputs inputs = inputs_of(w, all);
  struct stg_components_check check = {.rows = (uint64_t)w->rows};
  stg_status status = check_bystanders(job, all, reterr);
  if (status == STG_OK) {
    status = stg_oracle_components_check(&geometry, &inputs, all->of[STG_COMPONENTS_Y].after,
                                         (int64_t)w->d_out, &check.y, reterr);
    check.violations = check.y.violations;
  }
  if (status == STG_OK && w->both) {
    status = check_gradients(w, all, &check, reterr);
  }
  for (int64_t row = 0; row < w->rows && w->valid != NULL; row++) {
    check.rows_padding += stg_components_is_live(&inputs.rows, row) ? 0 : 1;
  }
  if (status == STG_OK) {
    check.ok = check.violations == 0;
    *ret_check = check;
  }
  return status;
}

struct stg_components_cost stg_components_cost_of(const struct stg_components_job *job,
                                                  const struct stg_components_all *all) {
  const struct stg_components_workload *w = &job->workload;
  const double products = 2 * (double)w->rows * (double)w->components;
  const double d_in = w->d_in, d_out = w->d_out;
  const double delta = w->delta ? 2 * (double)w->rows * d_in * d_out : 0;
  struct stg_components_cost cost = {.flop = products * (d_in + d_out) + delta};
  for (unsigned i = 0; i < STG_COMPONENTS_VALID; i++) {
    const bool is_read_twice = i < STG_SPEC_COMPONENTS_INPUTS && w->both &&
                               i != STG_SPEC_COMPONENTS_BIAS && i != STG_SPEC_COMPONENTS_DY;
    cost.bytes += all->of[i].bytes * (is_read_twice ? 2 : 1);
  }
  if (w->both) {
    cost.flop += products * (3 * d_in + 2 * d_out) + 2 * delta;
  }
  return cost;
}

/*
 * components_launch.c: components on a device: what kernels are given of a call that was checked,
 * and how they go out. A call is one launch, which a capture has as one node; nothing is allocated.
 */
#include "codegen/components_args.h"
#include "engine/attn.h"
#include "engine/components.h"
#include "runtime/base/intmath.h"

/* What a host's graph uses, pinned; without a capture, pins made ready for the next. */
static stg_status hold(stg_components *components, const struct stg_attn_launch *launch,
                       stg_error *reterr) {
  if (launch->capturing) {
    return stg_attn_object_pin(&components->object, launch->stream, reterr);
  }
  stg_attn_object_refill(&components->object);
  return STG_OK;
}

/* What both ways read. */
static struct stg_components_apply_args args_of(const struct stg_components_inputs *inputs) {
  const struct stg_components_rows *rows = &inputs->rows;
  return (struct stg_components_apply_args){
      .delta = stg_attn_address(inputs->delta),
      .mask = stg_attn_address(inputs->mask),
      .d = stg_attn_address(inputs->d),
      .valid = stg_attn_address(rows->valid),
      .mask_stride = inputs->mask_stride,
      .rows = (int32_t)rows->rows,
      .sequence = rows->valid != NULL ? (int32_t)rows->sequence : 1,
      .share = (int32_t)inputs->mask_share,
  };
}

static stg_status launch_apply(stg_components *components, enum stg_components_task task,
                               struct stg_components_apply_args *args, stg_stream stream,
                               stg_error *reterr) {
  struct stg_engine *engine = components->object.engine;
  const struct stg_kernel *kernel = stg_components_kernel_of(components, task);
  const struct stg_launch_rule *rule = &kernel->rule;
  struct stg_attn_launch launch;
  stg_status status = stg_attn_launch_init(engine, NULL, args->rows, stream, &launch, reterr);
  if (status == STG_OK) {
    status = hold(components, &launch, reterr);
  }
  if (status != STG_OK || launch.rows == 0) {
    return status;
  }
  args->flags = stg_components_apply_flags(&components->form.geometry,
                                           task == STG_COMPONENTS_TASK_TURNED, args);
  const struct stg_node_launch node = {
      .kernel = kernel,
      .dims = {.grid_x = (uint32_t)stg_ceil_div((size_t)launch.rows, rule->rows_per_block),
               .block_x = rule->threads,
               .shared_bytes = stg_launch_stage_bytes(rule, false)},
      .args = args,
  };
  return stg_attn_launch_one(engine, &launch, &node, reterr);
}

stg_status stg_components_launch(stg_components *components,
                                 const struct stg_components_inputs *inputs, void *y,
                                 int64_t y_stride, stg_stream stream, stg_error *reterr) {
  struct stg_components_apply_args args = args_of(inputs);
  args.in = stg_attn_address(inputs->x);
  args.in_stride = inputs->x_stride;
  args.first = stg_attn_address(inputs->v);
  args.second = stg_attn_address(inputs->u);
  args.bias = stg_attn_address(inputs->bias);
  args.out = stg_attn_address(y);
  args.out_stride = y_stride;
  return launch_apply(components, STG_COMPONENTS_TASK_APPLY, &args, stream, reterr);
}

stg_status stg_components_check_sums(const stg_components *components,
                                     const stg_components_grads *grads, stg_error *reterr) {
  const struct {
    const char *name;
    const void *wanted;
  } sums[] = {{"dv", grads->dv},
              {"du", grads->du},
              {"dm", grads->dm},
              {"dbias", grads->dbias},
              {"ddelta", grads->ddelta}};
  const char *arch = components->object.engine->arch;
  if (components->sets[STG_COMPONENTS_TASK_WEIGHTS] != NULL) {
    return STG_OK;
  }
  for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
    if (sums[i].wanted != NULL) {
      return stg_error_set(reterr, STG_E_UNSUPPORTED,
                           "stg_components_back: %s: there is no kernel of work=weights for %s; "
                           "STG_BACKEND_CPU has it",
                           sums[i].name, arch);
    }
  }
  return STG_OK;
}

stg_status stg_components_launch_back(stg_components *components,
                                      const struct stg_components_inputs *inputs,
                                      const stg_components_grads *grads, stg_stream stream,
                                      stg_error *reterr) {
  struct stg_components_apply_args args = args_of(inputs);
  if (grads->dx == NULL && grads->dd == NULL) {
    return STG_OK;
  }
  args.in = stg_attn_address(grads->dy);
  args.in_stride = grads->dy_stride;
  args.first = stg_attn_address(inputs->u);
  args.second = stg_attn_address(inputs->v);
  args.out = stg_attn_address(grads->dx);
  args.out_stride = grads->dx_stride;
  args.x = stg_attn_address(inputs->x);
  args.x_stride = inputs->x_stride;
  args.dd = stg_attn_address(grads->dd);
  return launch_apply(components, STG_COMPONENTS_TASK_TURNED, &args, stream, reterr);
}

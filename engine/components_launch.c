/*
 * components_launch.c: components on a device: what kernels are given of a call that was checked,
 * and how they go out: y by one, the way back by those of three that what is wanted needs, one
 * after the other. A capture has a node for each. Nothing is allocated.
 */
#include "codegen/components_args.h"
#include "codegen/components_text.h"
#include "engine/attn.h"
#include "engine/components.h"
#include "runtime/base/intmath.h"

/* Kernels of a call, in their order; the arguments are the caller's. */
struct line {
  struct stg_node_launch nodes[STG_COMPONENTS_TASKS];
  size_t count;
};

static void add(struct line *line, const stg_components *components, enum stg_components_task task,
                int64_t blocks, void *args) {
  const struct stg_kernel *kernel = stg_components_kernel_of(components, task);
  line->nodes[line->count++] = (struct stg_node_launch){
      .kernel = kernel,
      .dims = {.grid_x = (uint32_t)blocks,
               .block_x = kernel->rule.threads,
               .shared_bytes = stg_launch_stage_bytes(&kernel->rule, false)},
      .args = args,
  };
}

/* What a host's graph uses is pinned; without a capture, pins are made ready for the next. */
static stg_status launch(stg_components *components, const struct line *line, stg_stream stream,
                         stg_error *reterr) {
  struct stg_engine *engine = components->object.engine;
  struct stg_attn_launch how;
  stg_status status = stg_attn_launch_init(engine, NULL, 0, stream, &how, reterr);
  if (status == STG_OK && how.capturing) {
    status = stg_attn_object_pin(&components->object, stream, reterr);
  } else if (status == STG_OK) {
    stg_attn_object_refill(&components->object);
  }
  return status == STG_OK && line->count > 0
             ? stg_attn_launch_line(engine, &how, line->nodes, line->count, reterr)
             : status;
}

/* ---- y, and turned dx and dd ---- */

/* What both read. */
static struct stg_components_apply_args apply_args_of(const struct stg_components_inputs *inputs) {
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

static void add_apply(struct line *line, const stg_components *components,
                      enum stg_components_task task, struct stg_components_apply_args *args) {
  const struct stg_launch_rule *rule = &stg_components_kernel_of(components, task)->rule;
  if (args->rows == 0) {
    return;
  }
  args->flags = stg_components_apply_flags(&components->form.geometry,
                                           task == STG_COMPONENTS_TASK_TURNED, args);
  add(line, components, task, (int64_t)stg_ceil_div((size_t)args->rows, rule->rows_per_block),
      args);
}

stg_status stg_components_launch(stg_components *components,
                                 const struct stg_components_inputs *inputs, void *y,
                                 int64_t y_stride, stg_stream stream, stg_error *reterr) {
  struct stg_components_apply_args args = apply_args_of(inputs);
  struct line line = {.count = 0};
  args.in = stg_attn_address(inputs->x);
  args.in_stride = inputs->x_stride;
  args.first = stg_attn_address(inputs->v);
  args.second = stg_attn_address(inputs->u);
  args.bias = stg_attn_address(inputs->bias);
  args.out = stg_attn_address(y);
  args.out_stride = y_stride;
  add_apply(&line, components, STG_COMPONENTS_TASK_APPLY, &args);
  return launch(components, &line, stream, reterr);
}

static void add_turned(struct line *line, const stg_components *components,
                       const struct stg_components_inputs *inputs,
                       const stg_components_grads *grads,
                       struct stg_components_apply_args *ret_args) {
  if (grads->dx == NULL && grads->dd == NULL) {
    return;
  }
  *ret_args = apply_args_of(inputs);
  ret_args->in = stg_attn_address(grads->dy);
  ret_args->in_stride = grads->dy_stride;
  ret_args->first = stg_attn_address(inputs->u);
  ret_args->second = stg_attn_address(inputs->v);
  ret_args->out = stg_attn_address(grads->dx);
  ret_args->out_stride = grads->dx_stride;
  ret_args->x = stg_attn_address(inputs->x);
  ret_args->x_stride = inputs->x_stride;
  ret_args->dd = stg_attn_address(grads->dd);
  add_apply(line, components, STG_COMPONENTS_TASK_TURNED, ret_args);
}

/* ---- sums over rows ---- */

/* What of them is wanted. */
struct sums {
  bool any;       /* sums at all */
  bool shared_dm; /* dm is one of them */
  bool dm;        /* it has a row for each row: there is no sum */
};

static struct sums sums_of(const struct stg_components_inputs *inputs,
                           const stg_components_grads *grads) {
  const bool dm = grads->dm != NULL, shared = inputs->mask_share > 1;
  return (struct sums){
      .any = grads->dv != NULL || grads->du != NULL || grads->dbias != NULL ||
             grads->ddelta != NULL || (dm && shared),
      .shared_dm = dm && shared,
      .dm = dm && !shared,
  };
}

static void add_weights(struct line *line, const stg_components *components,
                        const struct stg_components_inputs *inputs,
                        const stg_components_grads *grads, const struct sums *sums,
                        struct stg_components_weights_args *ret_args) {
  const struct stg_components_geometry *g = &components->form.geometry;
  const struct stg_components_rows *rows = &inputs->rows;
  const struct stg_components_kernel kernel = {
      .work = STG_COMPONENTS_WEIGHTS, .geometry = *g, .sm = components->sm};
  *ret_args = (struct stg_components_weights_args){
      .x = stg_attn_address(inputs->x),
      .dy = stg_attn_address(grads->dy),
      .v = stg_attn_address(inputs->v),
      .u = stg_attn_address(inputs->u),
      .mask = stg_attn_address(inputs->mask),
      .d = stg_attn_address(inputs->d),
      .valid = stg_attn_address(rows->valid),
      .dm = sums->dm ? stg_attn_address(grads->dm) : 0,
      .parts = sums->any ? stg_attn_address(grads->work) : 0,
      .x_stride = inputs->x_stride,
      .dy_stride = grads->dy_stride,
      .mask_stride = inputs->mask_stride,
      .dm_stride = grads->dm_stride,
      .rows = (int32_t)rows->rows,
      .span = (int32_t)stg_components_span(g->components, rows->rows),
      .sequence = rows->valid != NULL ? (int32_t)rows->sequence : 1,
      .share = (int32_t)inputs->mask_share,
  };
  ret_args->flags = stg_components_weights_flags(g, sums->shared_dm, ret_args);
  add(line, components, STG_COMPONENTS_TASK_WEIGHTS,
      stg_components_weights_blocks(&kernel, rows->rows), ret_args);
}

static void add_sum(struct line *line, const stg_components *components,
                    const struct stg_components_inputs *inputs, const stg_components_grads *grads,
                    const struct sums *sums, struct stg_components_sum_args *ret_args) {
  const struct stg_components_geometry *g = &components->form.geometry;
  const int64_t rows = inputs->rows.rows;
  *ret_args = (struct stg_components_sum_args){
      .parts = stg_attn_address(grads->work),
      .dv = stg_attn_address(grads->dv),
      .du = stg_attn_address(grads->du),
      .ddelta = stg_attn_address(grads->ddelta),
      .dbias = stg_attn_address(grads->dbias),
      .dm = sums->shared_dm ? stg_attn_address(grads->dm) : 0,
      .dm_stride = grads->dm_stride,
      .rows = (int32_t)rows,
      .span = (int32_t)stg_components_span(g->components, rows),
      .share = (int32_t)inputs->mask_share,
  };
  add(line, components, STG_COMPONENTS_TASK_SUM,
      stg_components_sum_blocks(g, rows, inputs->mask_share, sums->shared_dm), ret_args);
}

stg_status stg_components_launch_back(stg_components *components,
                                      const struct stg_components_inputs *inputs,
                                      const stg_components_grads *grads, stg_stream stream,
                                      stg_error *reterr) {
  const struct sums sums = sums_of(inputs, grads);
  struct stg_components_apply_args turned;
  struct stg_components_weights_args weights;
  struct stg_components_sum_args sum;
  struct line line = {.count = 0};
  add_turned(&line, components, inputs, grads, &turned);
  if ((sums.any || sums.dm) && inputs->rows.rows > 0) {
    add_weights(&line, components, inputs, grads, &sums, &weights);
  }
  if (sums.any) { /* of no rows they are zeros */
    add_sum(&line, components, inputs, grads, &sums, &sum);
  }
  return launch(components, &line, stream, reterr);
}

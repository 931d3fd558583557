/*
 * warm_plan.c: see warm_plan.h.
 */
#include "engine/warm_plan.h"

#include "engine/engine.h"
#include "engine/exec.h"

stg_status stg_no_rows_init(struct stg_engine *engine, struct stg_no_rows *ret, stg_error *reterr) {
  struct stg_no_rows no_rows = {0};
  if (!stg_engine_is_cuda(engine)) {
    *ret = no_rows;
    return STG_OK;
  }
  stg_status status = stg_device_alloc(engine->device, STG_NO_ROWS_WORDS * sizeof(int32_t),
                                       &no_rows.row_map, reterr);
  if (status == STG_OK) {
    /* a block asks for entries before it knows that there are none */
    status = stg_fill_u32(engine->device, no_rows.row_map, 0, STG_NO_ROWS_HEADER_WORDS,
                          engine->stream, reterr);
  }
  if (status == STG_OK) {
    status =
        stg_fill_u32(engine->device, no_rows.row_map + STG_NO_ROWS_HEADER_WORDS * sizeof(int32_t),
                     (uint32_t)STG_ROW_PADDING, STG_NO_ROWS_WORDS - STG_NO_ROWS_HEADER_WORDS,
                     engine->stream, reterr);
  }
  if (status == STG_OK) {
    status = stg_stream_synchronize(engine->device, engine->stream, reterr);
  }
  if (status != STG_OK) {
    stg_no_rows_finish(engine, &no_rows);
    return status;
  }
  *ret = no_rows;
  return STG_OK;
}

void stg_no_rows_finish(struct stg_engine *engine, struct stg_no_rows *no_rows) {
  if (no_rows->row_map != 0) {
    stg_device_free(engine->device, no_rows->row_map);
  }
  *no_rows = (struct stg_no_rows){0};
}

static stg_status launch_over_no_rows(struct stg_engine *engine, const struct stg_plan *plan,
                                      const struct stg_kernel *kernel, struct stg_exec *exec,
                                      const struct stg_no_rows *no_rows, stg_error *reterr) {
  struct stg_idle_args args[STG_PLAN_MAX_PARTS];
  struct stg_node_launch nodes[STG_PLAN_MAX_PARTS];
  const size_t count = stg_plan_idle(engine, plan, kernel, no_rows->row_map, nodes, args);
  const struct stg_plan_launch launch = {.exec = exec, .stream = engine->stream};
  stg_status status = stg_plan_launch(engine, &launch, nodes, count, reterr);
  return status == STG_OK ? stg_stream_synchronize(engine->device, engine->stream, reterr) : status;
}

static stg_status warm_graph(struct stg_engine *engine, struct stg_plan *plan,
                             const struct stg_kernel *kernel, const struct stg_no_rows *no_rows,
                             bool *ret_graph, stg_error *reterr) {
  struct stg_plan_table *plans = engine->plans;
  struct stg_exec *exec = NULL;
  if (engine->launch != STG_LAUNCH_PLAIN) {
    exec = stg_exec_make_spare(plans, plan, kernel);
    if (exec == NULL) {
      return STG_OK; /* it has one, or there is none to be had, which was logged */
    }
    stg_recipes_note(engine->recipes, plan, kernel);
  }
  stg_status status = launch_over_no_rows(engine, plan, kernel, exec, no_rows, reterr);
  if (exec != NULL) {
    stg_exec_offer(plans, exec);
  }
  *ret_graph = exec != NULL && status == STG_OK;
  return status;
}

stg_status stg_warm_plan(struct stg_engine *engine, const struct stg_plan_parts *parts,
                         unsigned variant, const struct stg_graph_shape *shape,
                         const struct stg_no_rows *no_rows, bool *ret_graph, stg_error *reterr) {
  struct stg_plan *plan = NULL;
  *ret_graph = false;
  stg_status status = stg_plan_acquire(engine->plans, parts, shape, variant, &plan, reterr);
  if (status != STG_OK || !stg_engine_is_cuda(engine)) {
    stg_plan_release(engine->plans, plan);
    return status;
  }
  status =
      warm_graph(engine, plan, &parts->sets[plan->varying]->kernels[STG_TIER_DECLARED][variant],
                 no_rows, ret_graph, reterr);
  stg_plan_release(engine->plans, plan);
  return status;
}

/*
 * exec.c: launches: through a plan's graph, updated each time, plainly, or into a host's capture.
 * Hot: allocates nothing, unless the driver refuses an update.
 */
#include "engine/exec.h"

#include <assert.h>

#include "engine/engine.h"

size_t stg_plan_idle(const struct stg_engine *engine, const struct stg_plan *plan,
                     const struct stg_kernel *kernel, uint64_t no_rows,
                     struct stg_node_launch ret_nodes[STG_PLAN_MAX_PARTS],
                     struct stg_idle_args ret_args[STG_PLAN_MAX_PARTS]) {
  for (unsigned i = 0; i < plan->parts.count; i++) {
    const struct stg_kernel *part = stg_plan_kernel(plan, i, kernel);
    unsigned char *args = ret_args[i].bytes;
    ret_nodes[i] = (struct stg_node_launch){
        .kernel = part,
        .dims = part->set->family->idle(engine, part, no_rows, args),
        .args = args,
    };
  }
  return plan->parts.count;
}

/* Nodes as the driver wants them. */
struct line {
  struct stg_graph_kernel kernels[STG_PLAN_MAX_PARTS];
  void *args[STG_PLAN_MAX_PARTS]; /* the one parameter of each */
};

static void fill_line(const struct stg_node_launch *nodes, size_t count, struct line *ret) {
  assert(count >= 1 && count <= STG_PLAN_MAX_PARTS);
  for (size_t i = 0; i < count; i++) {
    ret->args[i] = nodes[i].args;
    ret->kernels[i] = (struct stg_graph_kernel){
        .module = nodes[i].kernel->loaded.module,
        .dims = nodes[i].dims,
        .args = &ret->args[i],
    };
  }
}

stg_status stg_exec_make_graph(struct stg_engine *engine, const struct stg_node_launch *nodes,
                               size_t count, stg_stream stream, struct stg_graph **ret_graph,
                               stg_error *reterr) {
  struct line line;
  fill_line(nodes, count, &line);
  return stg_graph_create(engine->device, line.kernels, count, stream, ret_graph, reterr);
}

/* Ahead of all nodes but the first is a kernel. */
static stg_status launch_plain(struct stg_engine *engine, const struct stg_plan_launch *launch,
                               const struct stg_node_launch *nodes, size_t count,
                               stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < count && status == STG_OK; i++) {
    struct stg_module *module = nodes[i].kernel->loaded.module;
    void *args[] = {nodes[i].args};
    atomic_fetch_add_explicit(&engine->counters.plain_launches, 1, memory_order_relaxed);
    status =
        launch->early || i > 0
            ? stg_launch_early(engine->device, module, &nodes[i].dims, args, launch->stream, reterr)
            : stg_launch(engine->device, module, &nodes[i].dims, args, launch->stream, reterr);
  }
  return status;
}

/* The driver refuses the graph, or has no room for it: a plain launch needs none. */
static bool is_refusal(stg_status status) {
  return status == STG_E_CUDA || status == STG_E_NO_MEMORY;
}

/* Through the graph; `*ret_refused` when the driver will have none of it. */
static stg_status launch_graph(struct stg_engine *engine, const struct stg_plan_launch *launch,
                               const struct line *line, size_t count, bool *ret_refused,
                               stg_error *reterr) {
  struct stg_exec *exec = launch->exec;
  stg_status status = STG_OK;
  pthread_mutex_lock(&exec->lock);
  for (size_t i = 0; i < count && status == STG_OK; i++) {
    status = stg_graph_set(engine->device, exec->graph, i, &line->kernels[i], reterr);
  }
  if (is_refusal(status)) {
    status = stg_graph_remake(engine->device, exec->graph, line->kernels, launch->stream, reterr);
    atomic_fetch_add(&engine->counters.graphs_created, status == STG_OK ? 1 : 0);
  }
  *ret_refused = is_refusal(status);
  if (status == STG_OK) {
    status = stg_graph_launch(engine->device, exec->graph, launch->stream, reterr);
  }
  pthread_mutex_unlock(&exec->lock);
  return status;
}

stg_status stg_plan_launch(struct stg_engine *engine, const struct stg_plan_launch *launch,
                           const struct stg_node_launch *nodes, size_t count, stg_error *reterr) {
  if (launch->exec == NULL || launch->exec->stream != launch->stream) {
    return launch_plain(engine, launch, nodes, count, reterr);
  }
  const struct stg_plan *plan = launch->exec->plan;
  struct line line;
  stg_error error = STG_ERROR_INIT;
  assert(plan->parts.count == count);
  bool refused = false;
  fill_line(nodes, count, &line);
  stg_status status = launch_graph(engine, launch, &line, count, &refused, &error);
  if (refused) {
    /* neither an update nor a new graph: the plain launch gives the same result */
    if (atomic_fetch_add(&engine->counters.graph_fallbacks, 1) == 0) {
      stg_log_printf(&engine->log, STG_LOG_WARN, "no graph for '%s' (%s); launching it plainly",
                     stg_plan_signature(plan, nodes[plan->varying].kernel), error.message);
    }
    return launch_plain(engine, launch, nodes, count, reterr);
  }
  if (status != STG_OK) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  atomic_fetch_add_explicit(&engine->counters.graph_updates, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&engine->counters.graph_launches, 1, memory_order_relaxed);
  return STG_OK;
}

stg_status stg_plan_capture(struct stg_engine *engine, const struct stg_plan_launch *launch,
                            const struct stg_node_launch *nodes, size_t count, stg_error *reterr) {
  struct stg_plan_launch captured = *launch;
  captured.early = true;
  return launch_plain(engine, &captured, nodes, count, reterr);
}

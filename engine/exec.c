/*
 * exec.c: launches: through a plan's graph, updated each time, plainly, or into a host's capture.
 * Hot: allocates nothing, unless the driver refuses an update.
 */
#include "engine/exec.h"

#include "engine/engine.h"
#include "runtime/base/intmath.h"

/* The launch of a kernel over the rows of `args`, which learn how shared memory is parted. */
static struct stg_launch_dims dims_of(const struct stg_engine *engine,
                                      const struct stg_kernel *kernel, uint32_t chain_bytes,
                                      struct stg_steer_args *args) {
  const struct stg_launch_rule *rule = &kernel->rule;
  const size_t blocks = stg_ceil_div((size_t)args->rows, rule->rows_per_block);
  const bool wide = blocks <= (size_t)stg_device_get_info(engine->device)->multiprocessors;
  args->staged_vectors = wide ? rule->wide_staged : rule->staged;
  const uint32_t bytes = stg_launch_stage_bytes(rule, wide);
  args->stage_words = bytes / (uint32_t)sizeof(uint32_t);
  return (struct stg_launch_dims){
      .grid_x = (uint32_t)blocks,
      .block_x = rule->threads,
      .shared_bytes = bytes + chain_bytes,
  };
}

uint32_t stg_launch_shared_bytes(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                 int64_t rows, uint32_t chain_bytes) {
  struct stg_steer_args args = {.rows = (int32_t)rows};
  const struct stg_launch_dims dims = dims_of(engine, kernel, chain_bytes, &args);
  return kernel->loaded.info.shared_bytes + dims.shared_bytes;
}

stg_status stg_exec_make_graph(struct stg_engine *engine, const struct stg_kernel *kernel,
                               stg_stream stream, struct stg_graph **ret_graph, stg_error *reterr) {
  /* a graph needs some arguments to exist */
  struct stg_steer_args args = {.rows = 1};
  void *pointers[] = {&args};
  const struct stg_graph_kernel node = {
      .module = kernel->loaded.module,
      .dims = dims_of(engine, kernel, 0, &args),
      .args = pointers,
  };
  return stg_graph_create(engine->device, &node, 1, stream, ret_graph, reterr);
}

static stg_status launch_plain(struct stg_engine *engine, const struct stg_plan_launch *launch,
                               const struct stg_steer_args *args, stg_error *reterr) {
  struct stg_steer_args copy = *args;
  void *pointers[] = {&copy};
  const struct stg_launch_dims dims = dims_of(engine, launch->kernel, launch->chain_bytes, &copy);
  struct stg_module *module = launch->kernel->loaded.module;
  atomic_fetch_add_explicit(&engine->counters.plain_launches, 1, memory_order_relaxed);
  return launch->early
             ? stg_launch_early(engine->device, module, &dims, pointers, launch->stream, reterr)
             : stg_launch(engine->device, module, &dims, pointers, launch->stream, reterr);
}

/* The driver refuses the graph, or has no room for it: a plain launch needs none. */
static bool is_refusal(stg_status status) {
  return status == STG_E_CUDA || status == STG_E_NO_MEMORY;
}

/* Through the graph; `*ret_refused` when the driver will have none of it. */
static stg_status launch_graph(struct stg_engine *engine, const struct stg_plan_launch *launch,
                               const struct stg_graph_kernel *node, bool *ret_refused,
                               stg_error *reterr) {
  struct stg_exec *exec = launch->exec;
  pthread_mutex_lock(&exec->lock);
  stg_status status = stg_graph_set(engine->device, exec->graph, 0, node, reterr);
  if (is_refusal(status)) {
    status = stg_graph_remake(engine->device, exec->graph, node, launch->stream, reterr);
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
                           const struct stg_steer_args *args, stg_error *reterr) {
  if (launch->exec == NULL || launch->exec->stream != launch->stream) {
    return launch_plain(engine, launch, args, reterr);
  }
  struct stg_steer_args copy = *args;
  void *pointers[] = {&copy};
  const struct stg_graph_kernel node = {
      .module = launch->kernel->loaded.module,
      .dims = dims_of(engine, launch->kernel, launch->chain_bytes, &copy),
      .args = pointers,
  };
  stg_error error = STG_ERROR_INIT;
  bool refused = false;
  stg_status status = launch_graph(engine, launch, &node, &refused, &error);
  if (refused) {
    /* neither an update nor a new graph: the plain launch gives the same result */
    if (atomic_fetch_add(&engine->counters.graph_fallbacks, 1) == 0) {
      stg_log_printf(&engine->log, STG_LOG_WARN, "no graph for '%s' (%s); launching it plainly",
                     launch->exec->plan->signatures[launch->kernel->tier][launch->kernel->variant],
                     error.message);
    }
    return launch_plain(engine, launch, args, reterr);
  }
  if (status != STG_OK) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  atomic_fetch_add_explicit(&engine->counters.graph_updates, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&engine->counters.graph_launches, 1, memory_order_relaxed);
  return STG_OK;
}

stg_status stg_plan_capture(struct stg_engine *engine, const struct stg_plan_launch *launch,
                            int64_t row_bucket, const struct stg_steer_args *args,
                            stg_error *reterr) {
  struct stg_plan_launch captured = *launch;
  struct stg_steer_args padded = *args;
  captured.early = true; /* a replay is ordered after all ahead of it: the frame's map is there */
  padded.rows = (int32_t)row_bucket;
  return launch_plain(engine, &captured, &padded, reterr);
}

/*
 * exec.c: the graphs of plans: one per plan and stream, updated and launched; plain launches beside
 * them.
 */
#include "engine/plan.h"

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

/* The launch of a kernel over the rows of `args`, which learn how shared memory is parted. */
static struct stg_launch_dims dims_of(const struct stg_engine *engine,
                                      const struct stg_plan_kernel *kernel,
                                      struct stg_steer_args *args) {
  const struct stg_launch_rule *rule = &kernel->rule;
  const size_t blocks = stg_ceil_div((size_t)args->rows, rule->rows_per_block);
  const bool wide = blocks <= (size_t)stg_device_get_info(engine->device)->multiprocessors;
  args->staged_vectors = wide ? rule->wide_staged_vectors : rule->staged_vectors;
  const uint32_t bytes = args->staged_vectors * rule->vector_bytes;
  args->stage_words = bytes / (uint32_t)sizeof(uint32_t);
  return (struct stg_launch_dims){
      .grid_x = (uint32_t)blocks,
      .block_x = rule->threads,
      .shared_bytes = bytes + kernel->chain_bytes,
  };
}

uint32_t stg_plan_shared_bytes(const struct stg_engine *engine, const struct stg_plan *plan) {
  struct stg_steer_args args = {.rows = (int32_t)plan->shape.rows};
  const struct stg_launch_dims dims = dims_of(engine, plan->kernel, &args);
  return plan->kernel->loaded.info.shared_bytes + dims.shared_bytes;
}

static void destroy(struct stg_plan_table *table, struct stg_exec *exec) {
  struct stg_exec **link = &table->execs;
  while (*link != exec) {
    link = &(*link)->next;
  }
  *link = exec->next;
  table->n_execs--;
  stg_graph_destroy(table->engine->device, exec->graph);
  pthread_mutex_destroy(&exec->lock);
  stg_free(exec);
}

void stg_exec_destroy_all(struct stg_plan_table *table) {
  while (table->execs != NULL) {
    destroy(table, table->execs);
  }
}

/* Make room for one more; execs that frames point at stay, whatever their number. */
static void evict(struct stg_plan_table *table) {
  struct stg_exec *oldest = NULL;
  for (struct stg_exec *e = table->execs; e != NULL && table->n_execs >= STG_PLAN_MAX_EXECS;
       e = e->next) {
    if (e->users == 0 && (oldest == NULL || e->last_used < oldest->last_used)) {
      oldest = e;
    }
  }
  if (oldest != NULL) {
    destroy(table, oldest);
  }
}

/* A graph needs some arguments to exist; every launch sets its own. */
static stg_status make_graph(struct stg_engine *engine, const struct stg_plan *plan,
                             stg_stream stream, struct stg_graph **ret_graph, stg_error *reterr) {
  struct stg_steer_args args = {.rows = 1};
  void *pointers[] = {&args};
  const struct stg_graph_kernel node = {
      .module = plan->kernel->loaded.module,
      .dims = dims_of(engine, plan->kernel, &args),
      .args = pointers,
  };
  return stg_graph_create(engine->device, &node, 1, stream, ret_graph, reterr);
}

static struct stg_exec *create(struct stg_plan_table *table, const struct stg_plan *plan,
                               stg_stream stream) {
  struct stg_engine *engine = table->engine;
  stg_error error = STG_ERROR_INIT;
  struct stg_exec *exec = stg_calloc(1, sizeof *exec);
  stg_status status = exec != NULL ? STG_OK : stg_error_memory(&error, "a graph", sizeof *exec);
  if (status == STG_OK) {
    evict(table);
    status = make_graph(engine, plan, stream, &exec->graph, &error);
  }
  if (status != STG_OK) {
    stg_free(exec);
    if (atomic_fetch_add(&engine->counters.graph_fallbacks, 1) == 0) {
      stg_log_printf(&engine->log, STG_LOG_WARN,
                     "no graph for '%s' (%s); launching kernels plainly", plan->signature,
                     error.message);
    }
    return NULL;
  }
  exec->plan = plan;
  exec->stream = stream;
  exec->next = table->execs;
  pthread_mutex_init(&exec->lock, NULL);
  table->execs = exec;
  table->n_execs++;
  atomic_fetch_add(&engine->counters.graphs_created, 1);
  return exec;
}

struct stg_exec *stg_exec_acquire(struct stg_plan_table *table, const struct stg_plan *plan,
                                  stg_stream stream) {
  if (!stg_engine_is_cuda(table->engine) || table->engine->launch == STG_LAUNCH_PLAIN) {
    return NULL;
  }
  struct stg_exec *exec = table->execs;
  while (exec != NULL && (exec->plan != plan || exec->stream != stream)) {
    exec = exec->next;
  }
  if (exec == NULL) {
    exec = create(table, plan, stream);
  }
  if (exec != NULL) {
    exec->users++;
    exec->last_used = ++table->clock;
  }
  return exec;
}

void stg_exec_release(struct stg_exec *exec) {
  if (exec != NULL) {
    exec->users--;
  }
}

static stg_status launch_plain(struct stg_engine *engine, const struct stg_plan_kernel *kernel,
                               const struct stg_steer_args *args, bool early, stg_stream stream,
                               stg_error *reterr) {
  struct stg_steer_args copy = *args;
  void *pointers[] = {&copy};
  const struct stg_launch_dims dims = dims_of(engine, kernel, &copy);
  struct stg_module *module = kernel->loaded.module;
  atomic_fetch_add_explicit(&engine->counters.plain_launches, 1, memory_order_relaxed);
  return early ? stg_launch_early(engine->device, module, &dims, pointers, stream, reterr)
               : stg_launch(engine->device, module, &dims, pointers, stream, reterr);
}

stg_status stg_plan_launch(struct stg_engine *engine, const struct stg_plan *plan,
                           const struct stg_plan_launch *launch, const struct stg_steer_args *args,
                           stg_error *reterr) {
  struct stg_exec *exec = launch->exec;
  stg_stream stream = launch->stream;
  if (exec == NULL || exec->stream != stream) {
    return launch_plain(engine, plan->kernel, args, launch->early, stream, reterr);
  }
  struct stg_steer_args copy = *args;
  void *pointers[] = {&copy};
  const struct stg_launch_dims dims = dims_of(engine, plan->kernel, &copy);
  stg_error error = STG_ERROR_INIT;
  pthread_mutex_lock(&exec->lock);
  stg_status status = stg_graph_set(engine->device, exec->graph, 0, &dims, pointers, &error);
  const bool refused = status == STG_E_CUDA;
  if (status == STG_OK) {
    status = stg_graph_launch(engine->device, exec->graph, stream, &error);
  }
  pthread_mutex_unlock(&exec->lock);
  if (refused) {
    /* the driver refused the update: the plain launch gives the same result */
    atomic_fetch_add(&engine->counters.graph_fallbacks, 1);
    return launch_plain(engine, plan->kernel, args, launch->early, stream, reterr);
  }
  if (status != STG_OK) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  atomic_fetch_add_explicit(&engine->counters.graph_updates, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&engine->counters.graph_launches, 1, memory_order_relaxed);
  return STG_OK;
}

stg_status stg_plan_capture(struct stg_engine *engine, const struct stg_plan *plan,
                            const struct stg_steer_args *args, stg_stream stream,
                            stg_error *reterr) {
  struct stg_steer_args padded = *args;
  padded.rows = (int32_t)plan->shape.rows;
  /* a replay is ordered after all that is ahead of it, so the frame's map is in place */
  return launch_plain(engine, plan->capture_kernel, &padded, true, stream, reterr);
}

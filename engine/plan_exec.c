/*
 * plan_exec.c: the graphs (execs) of plans: one a stream, made on its first use there, or ahead of
 * it for whichever stream comes first. What a graph is made of, and how it is launched, is in
 * exec.c.
 */
#include "engine/plan_exec.h"

#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/plan_table.h"
#include "runtime/base/alloc.h"

/* The exec, with one more user, or NULL. Under the lock. */
static struct stg_exec *take_exec(struct stg_plan_table *table, const struct stg_plan *plan,
                                  stg_stream stream) {
  struct stg_exec *exec = plan->execs, *spare = NULL;
  while (exec != NULL && (exec->spare || exec->stream != stream)) {
    spare = exec->spare ? exec : spare;
    exec = exec->next;
  }
  if (exec == NULL && spare != NULL) {
    exec = spare;
    exec->spare = false;
    exec->stream = stream;
  }
  if (exec != NULL && exec->users++ == 0) {
    stg_lru_remove(&table->idle_execs, &exec->idle);
  }
  return exec;
}

static void init_exec(struct stg_exec *exec, struct stg_plan *plan, stg_stream stream) {
  exec->plan = plan;
  exec->stream = stream;
  exec->users = 1;
  exec->bytes = sizeof *exec;
  pthread_mutex_init(&exec->lock, NULL);
}

static struct stg_exec *make_exec(struct stg_plan_table *table, struct stg_plan *plan,
                                  const struct stg_kernel *kernel, stg_stream stream) {
  struct stg_engine *engine = table->engine;
  stg_error error = STG_ERROR_INIT;
  struct stg_exec *exec = stg_calloc(1, sizeof *exec);
  stg_status status = exec != NULL ? STG_OK : stg_error_memory(&error, "a graph", sizeof *exec);
  if (status == STG_OK) {
    /* a graph needs some arguments to exist */
    struct stg_idle_args args[STG_PLAN_MAX_PARTS];
    struct stg_node_launch nodes[STG_PLAN_MAX_PARTS];
    const size_t count = stg_plan_idle(engine, plan, kernel, 0, nodes, args);
    status = stg_exec_make_graph(engine, nodes, count, stream, &exec->graph, &error);
  }
  if (status != STG_OK) {
    stg_free(exec);
    if (atomic_fetch_add(&engine->counters.graph_fallbacks, 1) == 0) {
      stg_log_printf(&engine->log, STG_LOG_WARN,
                     "no graph for '%s' (%s); launching kernels plainly",
                     stg_plan_signature(plan, kernel), error.message);
    }
    return NULL;
  }
  init_exec(exec, plan, stream);
  atomic_fetch_add(&engine->counters.graphs_created, 1);
  return exec;
}

static bool makes_graphs(const struct stg_plan_table *table) {
  return stg_engine_is_cuda(table->engine) && table->engine->launch != STG_LAUNCH_PLAIN;
}

/* Under the lock. */
static void insert_exec(struct stg_plan_table *table, struct stg_exec *exec,
                        struct stg_plan_dead *dead) {
  exec->next = exec->plan->execs;
  exec->plan->execs = exec;
  table->counters.execs++;
  table->counters.bytes += exec->bytes;
  stg_plan_table_evict(table, dead);
}

/* The exec that was made, or that of another thread which was faster. */
static struct stg_exec *put_exec(struct stg_plan_table *table, struct stg_exec *made) {
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  struct stg_exec *exec = take_exec(table, made->plan, made->stream);
  if (exec == NULL) {
    insert_exec(table, made, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
  if (exec != NULL) {
    stg_plan_table_free_exec(table, made);
  }
  return exec != NULL ? exec : made;
}

struct stg_exec *stg_exec_find(struct stg_plan_table *table, const struct stg_plan *plan,
                               stg_stream stream) {
  pthread_mutex_lock(&table->lock);
  struct stg_exec *exec = take_exec(table, plan, stream);
  pthread_mutex_unlock(&table->lock);
  return exec;
}

struct stg_exec *stg_exec_acquire(struct stg_plan_table *table, struct stg_plan *plan,
                                  const struct stg_kernel *kernel, stg_stream stream) {
  if (!makes_graphs(table)) {
    return NULL;
  }
  struct stg_exec *exec = stg_exec_find(table, plan, stream);
  if (exec == NULL) {
    exec = make_exec(table, plan, kernel, stream);
    exec = exec != NULL ? put_exec(table, exec) : NULL;
  }
  return exec;
}

stg_status stg_exec_acquire_empty(struct stg_plan_table *table, struct stg_plan *plan,
                                  stg_stream stream, struct stg_exec **ret_exec,
                                  stg_error *reterr) {
  struct stg_exec *exec = stg_exec_find(table, plan, stream);
  if (exec == NULL) {
    exec = stg_calloc(1, sizeof *exec);
    if (exec == NULL) {
      return stg_error_memory(reterr, "a graph", sizeof *exec);
    }
    init_exec(exec, plan, stream);
    exec = put_exec(table, exec);
  }
  *ret_exec = exec;
  return STG_OK;
}

bool stg_exec_enter(struct stg_exec *exec) {
  if (atomic_load(&exec->running) && pthread_equal(atomic_load(&exec->runner), pthread_self())) {
    exec->came_back = true;
    return false;
  }
  pthread_mutex_lock(&exec->lock);
  exec->came_back = false;
  atomic_store(&exec->runner, pthread_self());
  atomic_store(&exec->running, true);
  return true;
}

void stg_exec_leave(struct stg_exec *exec) {
  atomic_store(&exec->running, false);
  pthread_mutex_unlock(&exec->lock);
}

void stg_exec_count_bytes(struct stg_plan_table *table, struct stg_exec *exec, size_t more,
                          size_t less) {
  pthread_mutex_lock(&table->lock);
  exec->bytes += more - less;
  table->counters.bytes += more - less;
  pthread_mutex_unlock(&table->lock);
}

struct stg_exec *stg_exec_make_spare(struct stg_plan_table *table, struct stg_plan *plan,
                                     const struct stg_kernel *kernel) {
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  const bool has_one = plan->execs != NULL;
  pthread_mutex_unlock(&table->lock);
  if (has_one || !makes_graphs(table)) {
    return NULL;
  }
  struct stg_exec *made = make_exec(table, plan, kernel, table->engine->stream);
  if (made == NULL) {
    return NULL;
  }
  pthread_mutex_lock(&table->lock);
  insert_exec(table, made, &dead);
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
  return made;
}

void stg_exec_offer(struct stg_plan_table *table, struct stg_exec *exec) {
  pthread_mutex_lock(&table->lock);
  exec->spare = exec->users == 1; /* else a frame on the engine's own stream has it already */
  pthread_mutex_unlock(&table->lock);
  stg_exec_release(table, exec);
}

void stg_exec_release(struct stg_plan_table *table, struct stg_exec *exec) {
  if (exec == NULL) {
    return;
  }
  struct stg_plan_dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  if (--exec->users == 0) {
    stg_lru_push(&table->idle_execs, &exec->idle);
    if (exec->graph == NULL && exec->take == NULL) {
      stg_plan_table_remove_exec(table, exec, &dead); /* it serves nobody */
    }
    stg_plan_table_evict(table, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  stg_plan_table_bury(table, &dead);
}

/*
 * plan.c: the table of plans and their execs: looked up by hash, kept by use, bounded. What an exec
 * is made of, and how it is launched, is in exec.c.
 */
#include "engine/plan.h"

#include <assert.h>

#include "engine/engine.h"
#include "engine/exec.h"
#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

#define FIRST_BUCKETS 64

struct stg_plan_table {
  struct stg_engine *engine;
  size_t limit;
  pthread_mutex_t lock;
  struct stg_plan **buckets;
  size_t n_buckets; /* a power of two */
  struct stg_lru idle_plans, idle_execs;
  struct stg_plan_counters counters;
};

/* What was taken out of the table, to be destroyed once the lock is given back. */
struct dead {
  struct stg_plan *plans;
  struct stg_exec *execs;
};

#define FROM_NODE(node, type) ((type *)(void *)((char *)(node)-offsetof(type, idle)))

stg_status stg_plan_table_create(struct stg_engine *engine, size_t limit,
                                 struct stg_plan_table **ret_table, stg_error *reterr) {
  struct stg_plan_table *table = stg_calloc(1, sizeof *table);
  struct stg_plan **buckets = stg_calloc(FIRST_BUCKETS, sizeof(struct stg_plan *));
  if (table == NULL || buckets == NULL) {
    stg_free(table);
    stg_free(buckets);
    return stg_error_memory(reterr, "a table of plans", FIRST_BUCKETS * sizeof(struct stg_plan *));
  }
  *table = (struct stg_plan_table){
      .engine = engine, .limit = limit, .buckets = buckets, .n_buckets = FIRST_BUCKETS};
  pthread_mutex_init(&table->lock, NULL);
  *ret_table = table;
  return STG_OK;
}

void stg_plan_table_destroy(struct stg_plan_table *table) {
  if (table == NULL) {
    return;
  }
  assert(table->counters.plans == 0 && table->counters.execs == 0);
  pthread_mutex_destroy(&table->lock);
  stg_free(table->buckets);
  stg_free(table);
}

static uint64_t hash_of(const struct stg_kernel_set *set, const struct stg_graph_shape *shape) {
  const uint64_t words[] = {(uint64_t)(uintptr_t)set, (uint64_t)shape->batch, (uint64_t)shape->seq,
                            (uint64_t)shape->rows};
  return stg_key_of(words, sizeof words).low;
}

bool stg_plan_is(const struct stg_plan *plan, const struct stg_kernel_set *set,
                 const struct stg_graph_shape *shape, enum stg_tile tile) {
  return plan->set == set && plan->tile == tile && plan->shape.batch == shape->batch &&
         plan->shape.seq == shape->seq && plan->shape.rows == shape->rows;
}

static struct stg_plan **bucket_of(const struct stg_plan_table *table, uint64_t hash) {
  return &table->buckets[hash & (table->n_buckets - 1)];
}

/* More buckets, where memory for them is had. Under the lock, but once per doubling. */
static void grow(struct stg_plan_table *table) {
  const size_t n_before = table->n_buckets;
  struct stg_plan **before = table->buckets;
  struct stg_plan **buckets = stg_calloc(2 * n_before, sizeof(struct stg_plan *));
  if (buckets == NULL) {
    return;
  }
  table->buckets = buckets;
  table->n_buckets = 2 * n_before;
  for (size_t b = 0; b < n_before; b++) {
    while (before[b] != NULL) {
      struct stg_plan *plan = before[b];
      before[b] = plan->next;
      struct stg_plan **bucket = bucket_of(table, plan->hash);
      plan->next = *bucket;
      *bucket = plan;
    }
  }
  stg_free(before);
}

static void unlink_exec(struct stg_plan_table *table, struct stg_exec *exec, struct dead *dead) {
  struct stg_exec **link = &exec->plan->execs;
  assert(exec->users == 0);
  while (*link != exec) {
    link = &(*link)->next;
  }
  *link = exec->next;
  stg_lru_remove(&table->idle_execs, &exec->idle);
  table->counters.execs--;
  table->counters.bytes -= sizeof *exec;
  exec->next = dead->execs;
  dead->execs = exec;
}

/* A plan without users, and with it its execs, which have none either. */
static void unlink_plan(struct stg_plan_table *table, struct stg_plan *plan, struct dead *dead) {
  struct stg_plan **link = bucket_of(table, plan->hash);
  assert(plan->users == 0);
  while (plan->execs != NULL) {
    unlink_exec(table, plan->execs, dead);
  }
  while (*link != plan) {
    link = &(*link)->next;
  }
  *link = plan->next;
  stg_lru_remove(&table->idle_plans, &plan->idle);
  table->counters.plans--;
  table->counters.bytes -= plan->bytes;
  plan->next = dead->plans;
  dead->plans = plan;
}

/* Down to the limit, as far as what is above it is idle. */
static void evict(struct stg_plan_table *table, struct dead *dead) {
  while (table->counters.execs > table->limit && table->idle_execs.oldest != NULL) {
    unlink_exec(table, FROM_NODE(table->idle_execs.oldest, struct stg_exec), dead);
    table->counters.exec_evictions++;
  }
  while (table->counters.plans > table->limit && table->idle_plans.oldest != NULL) {
    const uint64_t execs = table->counters.execs;
    unlink_plan(table, FROM_NODE(table->idle_plans.oldest, struct stg_plan), dead);
    table->counters.plan_evictions++;
    table->counters.exec_evictions += execs - table->counters.execs;
  }
}

static void free_plan(struct stg_plan *plan) {
  if (plan != NULL) {
    for (int i = 0; i < STG_TIER_COUNT * STG_TILE_COUNT; i++) {
      stg_free(plan->signatures[i / STG_TILE_COUNT][i % STG_TILE_COUNT]);
    }
    stg_free(plan);
  }
}

/* A launch of the graph may be in flight: the driver lets it end. */
static void free_exec(struct stg_plan_table *table, struct stg_exec *exec) {
  stg_graph_destroy(table->engine->device, exec->graph);
  pthread_mutex_destroy(&exec->lock);
  stg_free(exec);
}

static void bury(struct stg_plan_table *table, struct dead *dead) {
  while (dead->execs != NULL) {
    struct stg_exec *exec = dead->execs;
    dead->execs = exec->next;
    free_exec(table, exec);
  }
  while (dead->plans != NULL) {
    struct stg_plan *plan = dead->plans;
    dead->plans = plan->next;
    free_plan(plan);
  }
}

static stg_status make_text(struct stg_plan *plan, const struct stg_kernel *kernel,
                            stg_error *reterr) {
  struct stg_strbuf text = {0};
  if (kernel->signature == NULL) {
    return STG_OK;
  }
  stg_strbuf_str(&text, kernel->signature);
  stg_graph_shape_print(&plan->shape, &text);
  plan->bytes += text.len + 1;
  char *signature = stg_strbuf_take(&text);
  plan->signatures[kernel->tier][kernel->tile] = signature;
  plan->graph_keys[kernel->tier][kernel->tile] = stg_graph_key(kernel->key, &plan->shape);
  return signature != NULL ? STG_OK : stg_error_memory(reterr, "a plan", sizeof *plan);
}

/* A kernel that is there stays, so one of the plan's own tile serves from then on. */
static stg_status make_texts(struct stg_plan *plan, stg_error *reterr) {
  const bool own_alone = stg_kernels_of_tile(plan->set, plan->tile) != NULL;
  stg_status status = STG_OK;
  for (int i = 0; i < STG_TIER_COUNT * STG_TILE_COUNT && status == STG_OK; i++) {
    const struct stg_kernel *kernel = &plan->set->kernels[i / STG_TILE_COUNT][i % STG_TILE_COUNT];
    if (kernel->tile == plan->tile || !own_alone) {
      status = make_text(plan, kernel, reterr);
    }
  }
  return status;
}

static stg_status make_plan(const struct stg_kernel_set *set, const struct stg_graph_shape *shape,
                            enum stg_tile tile, struct stg_plan **ret_plan, stg_error *reterr) {
  struct stg_plan *plan = stg_calloc(1, sizeof *plan);
  if (plan == NULL) {
    return stg_error_memory(reterr, "a plan", sizeof *plan);
  }
  *plan = (struct stg_plan){.set = set,
                            .shape = *shape,
                            .tile = tile,
                            .hash = hash_of(set, shape),
                            .bytes = sizeof *plan};
  stg_status status = make_texts(plan, reterr);
  if (status != STG_OK) {
    free_plan(plan);
    return status;
  }
  *ret_plan = plan;
  return STG_OK;
}

/* The plan, with one more user, or NULL. Under the lock. */
static struct stg_plan *take_plan(struct stg_plan_table *table, uint64_t hash,
                                  const struct stg_kernel_set *set,
                                  const struct stg_graph_shape *shape, enum stg_tile tile) {
  struct stg_plan *plan = *bucket_of(table, hash);
  while (plan != NULL && (plan->hash != hash || !stg_plan_is(plan, set, shape, tile))) {
    plan = plan->next;
  }
  if (plan != NULL && plan->users++ == 0) {
    stg_lru_remove(&table->idle_plans, &plan->idle);
  }
  return plan;
}

static void insert_plan(struct stg_plan_table *table, struct stg_plan *plan) {
  if (table->counters.plans >= table->n_buckets) {
    grow(table);
  }
  struct stg_plan **bucket = bucket_of(table, plan->hash);
  plan->next = *bucket;
  plan->users = 1;
  *bucket = plan;
  table->counters.plans++;
  table->counters.bytes += plan->bytes;
}

stg_status stg_plan_acquire(struct stg_plan_table *table, const struct stg_kernel_set *set,
                            const struct stg_graph_shape *shape, enum stg_tile tile,
                            struct stg_plan **ret_plan, stg_error *reterr) {
  const uint64_t hash = hash_of(set, shape);
  pthread_mutex_lock(&table->lock);
  struct stg_plan *plan = take_plan(table, hash, set, shape, tile);
  pthread_mutex_unlock(&table->lock);
  if (plan != NULL) {
    *ret_plan = plan;
    return STG_OK;
  }
  struct stg_plan *made = NULL;
  stg_status status = make_plan(set, shape, tile, &made, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  plan = take_plan(table, hash, set, shape, tile); /* another thread may have been faster */
  if (plan == NULL) {
    insert_plan(table, made);
    evict(table, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  bury(table, &dead);
  if (plan != NULL) {
    free_plan(made);
  }
  *ret_plan = plan != NULL ? plan : made;
  return STG_OK;
}

void stg_plan_count_step(const struct stg_plan_table *table, struct stg_plan *plan) {
  struct stg_traffic_count *count = atomic_load_explicit(&plan->traffic, memory_order_acquire);
  if (count == NULL) {
    const struct stg_kernel *declared = &plan->set->kernels[STG_TIER_DECLARED][plan->tile];
    count = stg_traffic_find(table->engine->traffic, declared->signature, &plan->shape);
    atomic_store_explicit(&plan->traffic, count, memory_order_release);
  }
  stg_traffic_add(count);
}

void stg_plan_release(struct stg_plan_table *table, struct stg_plan *plan) {
  if (plan == NULL) {
    return;
  }
  struct dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  if (--plan->users == 0) {
    stg_lru_push(&table->idle_plans, &plan->idle);
    evict(table, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  bury(table, &dead);
}

void stg_plans_forget(struct stg_plan_table *table, const struct stg_kernel_set *set) {
  struct dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  for (size_t b = 0; b < table->n_buckets; b++) {
    for (struct stg_plan *plan = table->buckets[b], *next = NULL; plan != NULL; plan = next) {
      next = plan->next;
      if (plan->set == set) {
        unlink_plan(table, plan, &dead);
      }
    }
  }
  pthread_mutex_unlock(&table->lock);
  bury(table, &dead);
}

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

static struct stg_exec *make_exec(struct stg_plan_table *table, struct stg_plan *plan,
                                  const struct stg_kernel *kernel, stg_stream stream) {
  struct stg_engine *engine = table->engine;
  stg_error error = STG_ERROR_INIT;
  struct stg_exec *exec = stg_calloc(1, sizeof *exec);
  stg_status status = exec != NULL ? STG_OK : stg_error_memory(&error, "a graph", sizeof *exec);
  if (status == STG_OK) {
    status = stg_exec_make_graph(engine, kernel, stream, &exec->graph, &error);
  }
  if (status != STG_OK) {
    stg_free(exec);
    if (atomic_fetch_add(&engine->counters.graph_fallbacks, 1) == 0) {
      stg_log_printf(&engine->log, STG_LOG_WARN,
                     "no graph for '%s' (%s); launching kernels plainly",
                     plan->signatures[kernel->tier][kernel->tile], error.message);
    }
    return NULL;
  }
  exec->plan = plan;
  exec->stream = stream;
  exec->users = 1;
  pthread_mutex_init(&exec->lock, NULL);
  atomic_fetch_add(&engine->counters.graphs_created, 1);
  return exec;
}

static bool makes_graphs(const struct stg_plan_table *table) {
  return stg_engine_is_cuda(table->engine) && table->engine->launch != STG_LAUNCH_PLAIN;
}

/* Under the lock. */
static void insert_exec(struct stg_plan_table *table, struct stg_exec *exec, struct dead *dead) {
  exec->next = exec->plan->execs;
  exec->plan->execs = exec;
  table->counters.execs++;
  table->counters.bytes += sizeof *exec;
  evict(table, dead);
}

struct stg_exec *stg_exec_acquire(struct stg_plan_table *table, struct stg_plan *plan,
                                  const struct stg_kernel *kernel, stg_stream stream) {
  if (!makes_graphs(table)) {
    return NULL;
  }
  pthread_mutex_lock(&table->lock);
  struct stg_exec *exec = take_exec(table, plan, stream);
  pthread_mutex_unlock(&table->lock);
  if (exec != NULL) {
    return exec;
  }
  struct stg_exec *made = make_exec(table, plan, kernel, stream);
  if (made == NULL) {
    return NULL;
  }
  struct dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  exec = take_exec(table, plan, stream); /* another thread may have been faster */
  if (exec == NULL) {
    insert_exec(table, made, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  bury(table, &dead);
  if (exec != NULL) {
    free_exec(table, made);
  }
  return exec != NULL ? exec : made;
}

struct stg_exec *stg_exec_make_spare(struct stg_plan_table *table, struct stg_plan *plan,
                                     const struct stg_kernel *kernel) {
  struct dead dead = {NULL, NULL};
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
  bury(table, &dead);
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
  struct dead dead = {NULL, NULL};
  pthread_mutex_lock(&table->lock);
  if (--exec->users == 0) {
    stg_lru_push(&table->idle_execs, &exec->idle);
    evict(table, &dead);
  }
  pthread_mutex_unlock(&table->lock);
  bury(table, &dead);
}

size_t stg_plan_table_limit(const struct stg_plan_table *table) {
  return table->limit;
}

void stg_plan_table_counters(struct stg_plan_table *table, struct stg_plan_counters *ret) {
  pthread_mutex_lock(&table->lock);
  *ret = table->counters;
  pthread_mutex_unlock(&table->lock);
}

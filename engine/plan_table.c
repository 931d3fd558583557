/*
 * plan_table.c: the plans of an engine by hash and by use, and what goes when there are too many of
 * them. How a plan or an exec is made is not known here.
 */
#include "engine/plan_table.h"

#include <assert.h>

#include "engine/engine.h"
#include "engine/region.h"
#include "runtime/base/alloc.h"

#define FIRST_BUCKETS 64

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

static struct stg_plan **bucket_of(const struct stg_plan_table *table, uint64_t hash) {
  return &table->buckets[hash & (table->n_buckets - 1)];
}

struct stg_plan *stg_plan_table_bucket(const struct stg_plan_table *table, uint64_t hash) {
  return *bucket_of(table, hash);
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

void stg_plan_table_insert(struct stg_plan_table *table, struct stg_plan *plan) {
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

void stg_plan_table_remove_exec(struct stg_plan_table *table, struct stg_exec *exec,
                                struct stg_plan_dead *dead) {
  struct stg_exec **link = &exec->plan->execs;
  assert(exec->users == 0);
  while (*link != exec) {
    link = &(*link)->next;
  }
  *link = exec->next;
  stg_lru_remove(&table->idle_execs, &exec->idle);
  table->counters.execs--;
  table->counters.bytes -= exec->bytes;
  exec->next = dead->execs;
  dead->execs = exec;
}

void stg_plan_table_remove(struct stg_plan_table *table, struct stg_plan *plan,
                           struct stg_plan_dead *dead) {
  struct stg_plan **link = bucket_of(table, plan->hash);
  assert(plan->users == 0);
  while (plan->execs != NULL) {
    stg_plan_table_remove_exec(table, plan->execs, dead);
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

void stg_plan_table_evict(struct stg_plan_table *table, struct stg_plan_dead *dead) {
  while (table->counters.execs > table->limit && table->idle_execs.oldest != NULL) {
    stg_plan_table_remove_exec(table, FROM_NODE(table->idle_execs.oldest, struct stg_exec), dead);
    table->counters.exec_evictions++;
  }
  while (table->counters.plans > table->limit && table->idle_plans.oldest != NULL) {
    const uint64_t execs = table->counters.execs;
    stg_plan_table_remove(table, FROM_NODE(table->idle_plans.oldest, struct stg_plan), dead);
    table->counters.plan_evictions++;
    table->counters.exec_evictions += execs - table->counters.execs;
  }
}

void stg_plan_free(struct stg_plan *plan) {
  if (plan != NULL) {
    for (int i = 0; i < STG_TIER_COUNT * STG_MAX_VARIANTS; i++) {
      stg_free(plan->signatures[i / STG_MAX_VARIANTS][i % STG_MAX_VARIANTS]);
    }
    stg_region_body_free(plan->region);
    stg_free(plan);
  }
}

void stg_plan_table_free_exec(struct stg_plan_table *table, struct stg_exec *exec) {
  stg_graph_destroy(table->engine->device, exec->graph);
  stg_region_take_retire(table->engine, exec->take);
  pthread_mutex_destroy(&exec->lock);
  stg_free(exec);
}

void stg_plan_table_bury(struct stg_plan_table *table, struct stg_plan_dead *dead) {
  while (dead->execs != NULL) {
    struct stg_exec *exec = dead->execs;
    dead->execs = exec->next;
    stg_plan_table_free_exec(table, exec);
  }
  while (dead->plans != NULL) {
    struct stg_plan *plan = dead->plans;
    dead->plans = plan->next;
    stg_plan_free(plan);
  }
}

size_t stg_plan_table_limit(const struct stg_plan_table *table) {
  return table->limit;
}

void stg_plan_table_counters(struct stg_plan_table *table, struct stg_plan_counters *ret) {
  pthread_mutex_lock(&table->lock);
  *ret = table->counters;
  pthread_mutex_unlock(&table->lock);
}

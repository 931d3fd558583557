/*
 * plan_table.h: the table of plans as the files see it that take from it: plan.c, region_plan.c for
 * those of a host's work, and plan_exec.c for the graphs of plans. Others use plan.h and
 * plan_exec.h.
 *
 * What leaves the table under its lock is freed after: it goes to a list of the caller's, which is
 * buried when the lock was given back.
 */
#ifndef STG_ENGINE_PLAN_TABLE_H
#define STG_ENGINE_PLAN_TABLE_H

#include "engine/plan.h"
#include "engine/plan_exec.h"

struct stg_plan_table {
  struct stg_engine *engine;
  size_t limit;
  pthread_mutex_t lock;
  struct stg_plan **buckets;
  size_t n_buckets; /* a power of two */
  struct stg_lru idle_plans, idle_execs;
  struct stg_plan_counters counters;
};

/* What was taken out of the table, to be destroyed once the lock is given back. {0}: nothing. */
struct stg_plan_dead {
  struct stg_plan *plans;
  struct stg_exec *execs;
};

/** The first plan of a hash's bucket, or NULL; the others follow by `next`. Under the lock. */
struct stg_plan *stg_plan_table_bucket(const struct stg_plan_table *table, uint64_t hash);
/** Put a plan in, with one user. Under the lock. */
void stg_plan_table_insert(struct stg_plan_table *table, struct stg_plan *plan);
/** Take out a plan without users, and with it its execs, which have none either. Under the lock. */
void stg_plan_table_remove(struct stg_plan_table *table, struct stg_plan *plan,
                           struct stg_plan_dead *dead);
/** Take out an exec without users. Under the lock. */
void stg_plan_table_remove_exec(struct stg_plan_table *table, struct stg_exec *exec,
                                struct stg_plan_dead *dead);
/** Go down to the limit, as far as what is above it is idle. Under the lock. */
void stg_plan_table_evict(struct stg_plan_table *table, struct stg_plan_dead *dead);
/** Free what was taken out. Not under the lock. */
void stg_plan_table_bury(struct stg_plan_table *table, struct stg_plan_dead *dead);
/** Free a plan that no table has. NULL is fine. */
void stg_plan_free(struct stg_plan *plan);
/** Free an exec that no plan has. A launch of its graph may be in flight: the driver lets it end.
 */
void stg_plan_table_free_exec(struct stg_plan_table *table, struct stg_exec *exec);

#endif

/*
 * plan.h: the plans of an engine: a declaration's kernels and a graph shape. The graphs (execs)
 * that launch them are plan_exec.h's.
 *
 * One table for all steer tables of an engine, so that those of one declaration share plans. What
 * no frame uses stays, up to a limit: the plan, and likewise the exec, that was idle longest goes
 * first. An exec belongs to one plan and one stream; the engine is one context.
 *
 * The table's lock is a leaf. Nothing is instantiated or destroyed under it, and nothing allocated
 * but a larger hash.
 */
#ifndef STG_ENGINE_PLAN_H
#define STG_ENGINE_PLAN_H

#include <pthread.h>

#include "engine/kernels.h"
#include "engine/lru.h"
#include "engine/signature.h"
#include "engine/steer_decl.h"
#include "engine/traffic.h"

struct stg_plan_table;

struct stg_exec; /* plan_exec.h */

/* Constant but for `execs`, `noted` and what has to do with users. */
struct stg_plan {
  struct stg_plan *next;    /* in its bucket */
  struct stg_lru_node idle; /* while it has no user */
  const struct stg_kernel_set *set;
  struct stg_graph_shape shape;
  unsigned variant;
  uint64_t hash;
  uint32_t users; /* frames that point here */
  struct stg_exec *execs;
  size_t bytes;
  atomic_uint noted; /* a bit for each kernel whose graph has a recipe; recipes.h */
  _Atomic(struct stg_traffic_count *) traffic; /* of its signature; NULL before its first step */
  /* kernel text | graph shape, of each kernel that may serve: those of the plan's variant, and
   * the others where none of its own was there when it was made */
  char *signatures[STG_TIER_COUNT][STG_MAX_VARIANTS];
  struct stg_key graph_keys[STG_TIER_COUNT][STG_MAX_VARIANTS];
};

/** `limit`: plans, and likewise execs, that are kept. The engine is borrowed. */
STG_NODISCARD stg_status stg_plan_table_create(struct stg_engine *engine, size_t limit,
                                               struct stg_plan_table **ret_table,
                                               stg_error *reterr);
/** All sets must have been forgotten. NULL is fine. */
void stg_plan_table_destroy(struct stg_plan_table *table);

/** The plan of a shape, with one more user, made on its first use. Any thread. */
STG_NODISCARD stg_status stg_plan_acquire(struct stg_plan_table *table,
                                          const struct stg_kernel_set *set,
                                          const struct stg_graph_shape *shape, unsigned variant,
                                          struct stg_plan **ret_plan, stg_error *reterr);
/** One user less. NULL is fine. Any thread. */
void stg_plan_release(struct stg_plan_table *table, struct stg_plan *plan);
/** Whether a plan that somebody uses is this one: as stg_plan_acquire, without a look. */
bool stg_plan_is(const struct stg_plan *plan, const struct stg_kernel_set *set,
                 const struct stg_graph_shape *shape, unsigned variant);
/** The text of one of a plan's kernels, as above. */
static inline const char *stg_plan_signature(const struct stg_plan *plan,
                                             const struct stg_kernel *kernel) {
  return plan->signatures[kernel->tier][kernel->variant];
}
/** Count a step by a plan that is in use. Looks its signature up once. Any thread. */
void stg_plan_count_step(const struct stg_plan_table *table, struct stg_plan *plan);
/** Destroy the plans of a set. They have no users. */
void stg_plans_forget(struct stg_plan_table *table, const struct stg_kernel_set *set);

/** How many plans, and likewise execs, are kept. */
size_t stg_plan_table_limit(const struct stg_plan_table *table);

struct stg_plan_counters {
  uint64_t plans, execs; /* there now */
  uint64_t plan_evictions, exec_evictions;
  uint64_t bytes; /* of host memory that plans and execs take; not what the driver keeps */
};
void stg_plan_table_counters(struct stg_plan_table *table, struct stg_plan_counters *ret);

#endif

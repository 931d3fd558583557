/*
 * plan.h: the plans of an engine: kernels that are launched together, most often one, and a graph
 * shape; or a host's own work (region.h), which has no kernels of ours. The graphs (execs) that
 * launch them are plan_exec.h's.
 *
 * One table for all of an engine, so that steer tables of one declaration share plans. What
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

struct stg_exec;        /* plan_exec.h */
struct stg_region_body; /* region.h */

/* Whose kernels are launched together, one after the other. */
struct stg_plan_parts {
  const struct stg_kernel_set *sets[STG_PLAN_MAX_PARTS];
  unsigned count;
};

static inline struct stg_plan_parts stg_plan_of_one(const struct stg_kernel_set *set) {
  return (struct stg_plan_parts){.sets = {set}, .count = 1};
}
/** The part whose kernels stand in for one another, of which there is one at most; 0: none does. */
unsigned stg_plan_varying(const struct stg_plan_parts *parts);

/* Constant but for `execs`, `noted` and what has to do with users. */
struct stg_plan {
  struct stg_plan *next;          /* in its bucket */
  struct stg_lru_node idle;       /* while it has no user */
  struct stg_plan_parts parts;    /* none of a host's work */
  struct stg_region_body *region; /* of a host's work; NULL: it is of kernels */
  unsigned varying;               /* which part's kernels stand in for one another */
  unsigned variant;               /* of that part */
  struct stg_graph_shape shape;
  uint64_t hash;
  uint32_t users; /* frames that point here */
  struct stg_exec *execs;
  size_t bytes;
  atomic_uint noted; /* a bit for each kernel whose graph has a recipe; recipes.h */
  _Atomic(struct stg_traffic_count *) traffic; /* of its signature; NULL before its first step */
  size_t text_chars; /* of what was declared: of its signature, without architecture and shape */
  /* kernel text | graph shape, for each kernel of the varying part that may serve: those of the
   * plan's variant, and the others where none of its own was there when it was made */
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
                                          const struct stg_plan_parts *parts,
                                          const struct stg_graph_shape *shape, unsigned variant,
                                          struct stg_plan **ret_plan, stg_error *reterr);
/** One user less. NULL is fine. Any thread. */
void stg_plan_release(struct stg_plan_table *table, struct stg_plan *plan);
/** Whether a plan that somebody uses is this one: as stg_plan_acquire, without a look. */
bool stg_plan_is(const struct stg_plan *plan, const struct stg_plan_parts *parts,
                 const struct stg_graph_shape *shape, unsigned variant);
/** The kernel of a part, where `kernel` serves of the varying one. */
static inline const struct stg_kernel *stg_plan_kernel(const struct stg_plan *plan, unsigned part,
                                                       const struct stg_kernel *kernel) {
  return part == plan->varying ? kernel : &plan->parts.sets[part]->kernels[STG_TIER_DECLARED][0];
}
/** The text of a plan whose varying part this kernel serves. */
static inline const char *stg_plan_signature(const struct stg_plan *plan,
                                             const struct stg_kernel *kernel) {
  return plan->signatures[kernel->tier][kernel->variant];
}
/** What a plan is to a host, but for shared memory. Text is borrowed. */
stg_plan_info stg_plan_info_of(const struct stg_engine *engine, const struct stg_plan *plan,
                               const struct stg_kernel *kernel);
/** Count a step by a plan that is in use. Looks its signature up once. Any thread. */
void stg_plan_count_step(const struct stg_plan_table *table, struct stg_plan *plan);
/** Destroy the plans that a set has a part in. They have no users. */
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

/*
 * plan_exec.h: the graphs (execs) that launch plans. A plan has one for each stream that stepped
 * it; the table of plans keeps and bounds them. exec.h launches them.
 */
#ifndef STG_ENGINE_PLAN_EXEC_H
#define STG_ENGINE_PLAN_EXEC_H

#include "engine/plan.h"

/* One instantiated graph. */
struct stg_exec {
  struct stg_exec *next;    /* of the plan's */
  struct stg_lru_node idle; /* while it has no user */
  struct stg_plan *plan;
  stg_stream stream;
  bool spare; /* made ahead: the first stream that asks gets it. Under the table's lock */
  struct stg_graph *graph;
  pthread_mutex_t lock; /* an exec takes one set-and-launch at a time */
  uint32_t users;       /* frames that point here */
};

/**
 * The exec of a plan that is in use on a stream, with one more user; `kernel` serves of its varying
 * part. NULL where plain launches
 * serve (by option, on the CPU, or because the graph could not be made, which is counted and logged
 * once). Any thread.
 */
struct stg_exec *stg_exec_acquire(struct stg_plan_table *table, struct stg_plan *plan,
                                  const struct stg_kernel *kernel, stg_stream stream);
/**
 * An exec for a stream that is not known yet, on the engine's until then, with one user; NULL where
 * the plan has an exec, or where stg_exec_acquire gives none. Any thread.
 */
struct stg_exec *stg_exec_make_spare(struct stg_plan_table *table, struct stg_plan *plan,
                                     const struct stg_kernel *kernel);
/** One user less, and whichever stream asks first gets it. Nothing of it is in flight. */
void stg_exec_offer(struct stg_plan_table *table, struct stg_exec *exec);
/** One user less; before the plan is released. NULL is fine. Any thread. */
void stg_exec_release(struct stg_plan_table *table, struct stg_exec *exec);

#endif

/*
 * plan_exec.h: the graphs (execs) that launch plans. A plan has one for each stream that stepped
 * it; the table of plans keeps and bounds them. exec.h launches them.
 */
#ifndef STG_ENGINE_PLAN_EXEC_H
#define STG_ENGINE_PLAN_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/plan.h"

/* One instantiated graph. */
struct stg_exec {
  struct stg_exec *next;    /* of the plan's */
  struct stg_lru_node idle; /* while it has no user */
  struct stg_plan *plan;
  stg_stream stream;
  bool spare; /* made ahead: the first stream that asks gets it. Under the table's lock */
  struct stg_graph *graph; /* NULL: of a host's work that was not recorded (yet), or not here */
  struct stg_region_take *take; /* what that was recorded with, or adopted; else NULL */
  size_t bytes;                 /* of host memory; under the table's lock */
  pthread_mutex_t lock;         /* an exec takes one set-and-launch at a time */
  /* Of a host's work, which may come back here: who has the lock, as stg_exec_enter took it. */
  _Atomic(pthread_t) runner;
  atomic_bool running;
  bool came_back; /* the runner did; under the lock */
  uint32_t users; /* frames that point here */
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
 * The same of a host's work, which is recorded by whoever has it and finds no take; it goes with
 * its last user if there is none then. STG_E_NO_MEMORY.
 */
STG_NODISCARD stg_status stg_exec_acquire_empty(struct stg_plan_table *table, struct stg_plan *plan,
                                                stg_stream stream, struct stg_exec **ret_exec,
                                                stg_error *reterr);
/** The exec that a plan in use has on a stream, with one more user, or NULL. Any thread. */
struct stg_exec *stg_exec_find(struct stg_plan_table *table, const struct stg_plan *plan,
                               stg_stream stream);
/** Take the lock for a host's work; false where this thread has it, which is then noted. */
bool stg_exec_enter(struct stg_exec *exec);
void stg_exec_leave(struct stg_exec *exec);
/** Count that much more, or less, host memory for an exec that is in use. */
void stg_exec_count_bytes(struct stg_plan_table *table, struct stg_exec *exec, size_t more,
                          size_t less);
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

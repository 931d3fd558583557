/*
 * steer_stress.h: many threads on one engine, for as long as a test says: the cases, and one thread
 * of them.
 *
 * Each thread has frames and slots of its own in tables that all share, and makes and destroys
 * tables beside. The engine keeps few plans, so that they come and go. A thread makes no assertion;
 * what went wrong first is left in words.
 */
#ifndef STG_TESTS_SUPPORT_STEER_STRESS_H
#define STG_TESTS_SUPPORT_STEER_STRESS_H

#include <steergraph/steergraph.h>

#include "tests/support/steer_env.h"
#include "tests/support/steer_stress_chain.h"

#define STRESS_THREADS 8
#define STRESS_LAYERS 2
#define STRESS_ROWS 48
/* Slots of a shared table that each thread has for itself; one-shots find theirs behind them. */
#define STRESS_OWN_SLOTS 4
/* Declarations: the first are those of the shared tables, the others of a thread's own. */
#define STRESS_TABLES 5
#define STRESS_SHARED 2

/* What all threads see. */
struct stress {
  stg_engine *engine;
  bool cuda;
  uint64_t until_ns; /* by stg_clock_ns */
  stg_steer *shared[STRESS_SHARED];
};

struct stress_worker {
  const struct stress *stress;
  uint32_t index;
  uint64_t rounds, checked_rows, tables, once_calls;
  uint64_t sets, refused; /* slots set; of which found no room */
  char failure[512];      /* empty: none */
};

/** A table of declaration `which`. Shared ones have slots for all threads. */
stg_status stress_table_create(stg_engine *engine, uint32_t which, stg_steer **ret_steer,
                               stg_error *reterr);

/** A thread, for pthread_create: rounds until the time is over, or something is wrong. */
void *stress_work(void *worker);

/**
 * The group, on an engine of its own on the backend of `open`. It takes STG_TEST_SECONDS seconds,
 * or 3.
 */
int steer_stress_cases(CMFixtureFunction open);

#endif

/*
 * plan.h: a signature resolved to a loaded kernel, its launch geometry and its graphs.
 *
 * A steer table loads its two kernels when it is created; plans add the graph shape. Plans live as
 * long as the table. An exec (one instantiated graph) belongs to one plan and one stream.
 */
#ifndef STG_ENGINE_PLAN_H
#define STG_ENGINE_PLAN_H

#include <pthread.h>

#include "engine/engine.h"
#include "engine/signature.h"
#include "engine/steer_decl.h"

/* Graphs that a table keeps instantiated; the least recently used idle one goes first. */
#define STG_PLAN_MAX_EXECS 64

/* One of the table's kernels. On the CPU only the texts and keys are set. */
struct stg_plan_kernel {
  char *signature; /* kernel text with architecture */
  struct stg_key key;
  const char *source; /* "memory", "disk", "compiled", "cpu" */
  double compile_ms;
  struct stg_loaded_kernel loaded;
  struct stg_launch_rule rule;
  uint32_t chain_bytes; /* that a chain takes in a block's shared memory */
};

struct stg_exec {
  struct stg_exec *next;
  const struct stg_plan *plan;
  stg_stream stream;
  struct stg_graph *graph;
  pthread_mutex_t lock; /* an exec takes one set-and-launch at a time */
  uint32_t users;       /* frames that point here */
  uint64_t last_used;
};

struct stg_plan {
  struct stg_plan *next;
  struct stg_graph_shape shape;
  enum stg_tile tile;
  const struct stg_plan_kernel *kernel;
  const struct stg_plan_kernel *capture_kernel; /* by the row bucket alone */
  char *signature;                              /* kernel text | graph shape */
  struct stg_key graph_key;
};

struct stg_plan_table {
  struct stg_engine *engine;
  struct stg_plan_kernel kernels[STG_TILE_COUNT];
  struct stg_plan *plans;
  struct stg_exec *execs;
  size_t n_execs;
  uint64_t clock;
};

/** Load or compile both kernels. */
STG_NODISCARD stg_status stg_plan_table_init(struct stg_plan_table *table,
                                             struct stg_engine *engine,
                                             const struct stg_steer_decl *decl, stg_error *reterr);
void stg_plan_table_finish(struct stg_plan_table *table);

/** The plan of a shape, made on its first use. The table's lock is held. */
STG_NODISCARD stg_status stg_plan_find(struct stg_plan_table *table,
                                       const struct stg_graph_shape *shape, enum stg_tile tile,
                                       const struct stg_plan **ret_plan, stg_error *reterr);
/** Shared memory of one block of a plan's launch. */
uint32_t stg_plan_shared_bytes(const struct stg_engine *engine, const struct stg_plan *plan);
/**
 * The exec of a plan on a stream, with one more user; NULL where plain launches serve (by option,
 * on the CPU, or because the graph could not be made, which is counted and logged once). The
 * table's lock is held.
 */
struct stg_exec *stg_exec_acquire(struct stg_plan_table *table, const struct stg_plan *plan,
                                  stg_stream stream);
/** One user less. NULL is fine. The table's lock is held. */
void stg_exec_release(struct stg_exec *exec);

/** Destroy every exec: the table is going. */
void stg_exec_destroy_all(struct stg_plan_table *table);

/* How one launch goes out. */
struct stg_plan_launch {
  struct stg_exec *exec; /* NULL: plainly */
  bool early;            /* a plain launch may begin before the kernel ahead of it has ended */
  stg_stream stream;
};
/** Launch over the rows of `args`: through the exec when there is one. No table lock. */
STG_NODISCARD stg_status stg_plan_launch(struct stg_engine *engine, const struct stg_plan *plan,
                                         const struct stg_plan_launch *launch,
                                         const struct stg_steer_args *args, stg_error *reterr);
/** Add one kernel node with the whole row bucket's arguments to a capturing stream: a replay steers
 * as many rows as the frame's map then says. */
STG_NODISCARD stg_status stg_plan_capture(struct stg_engine *engine, const struct stg_plan *plan,
                                          const struct stg_steer_args *args, stg_stream stream,
                                          stg_error *reterr);

#endif

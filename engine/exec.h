/*
 * exec.h: how a kernel goes out: through a plan's graph, plainly, or into a host's capture.
 */
#ifndef STG_ENGINE_EXEC_H
#define STG_ENGINE_EXEC_H

#include "engine/plan_exec.h"

/* How one launch goes out. */
struct stg_plan_launch {
  const struct stg_kernel *kernel; /* of the plan's set */
  uint32_t chain_bytes;            /* that a chain of the table takes in a block's shared memory */
  struct stg_exec *exec;           /* NULL: plainly */
  bool early; /* a plain launch may begin before the kernel ahead of it has ended */
  stg_stream stream;
};

/** Instantiate the graph of a plan on a stream; its arguments are set by each launch. */
STG_NODISCARD stg_status stg_exec_make_graph(struct stg_engine *engine,
                                             const struct stg_kernel *kernel, stg_stream stream,
                                             struct stg_graph **ret_graph, stg_error *reterr);
/** Shared memory of one block of a launch over `rows`. */
uint32_t stg_launch_shared_bytes(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                 int64_t rows, uint32_t chain_bytes);
/** Launch over the rows of `args`: through the exec when there is one. Takes no lock but its. */
STG_NODISCARD stg_status stg_plan_launch(struct stg_engine *engine,
                                         const struct stg_plan_launch *launch,
                                         const struct stg_steer_args *args, stg_error *reterr);
/** Add one kernel node with the whole row bucket's arguments to a capturing stream: a replay steers
 * as many rows as the frame's map then says. */
STG_NODISCARD stg_status stg_plan_capture(struct stg_engine *engine,
                                          const struct stg_plan_launch *launch, int64_t row_bucket,
                                          const struct stg_steer_args *args, stg_error *reterr);

#endif

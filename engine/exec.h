/*
 * exec.h: how kernels go out: through a plan's graph, plainly, or into a host's capture.
 *
 * The kernels of a launch are a line of nodes, each of whichever family; what their arguments mean
 * and how large a grid is, is its affair.
 */
#ifndef STG_ENGINE_EXEC_H
#define STG_ENGINE_EXEC_H

#include "engine/plan_exec.h"
#include "runtime/launch.h"

/* One kernel of a launch. */
struct stg_node_launch {
  const struct stg_kernel *kernel;
  struct stg_launch_dims dims;
  void *args; /* the kernel's one argument, which is read alone; the caller's */
};

/* How a launch goes out. */
struct stg_plan_launch {
  struct stg_exec *exec; /* NULL: plainly */
  bool early;            /* a plain launch may begin before the kernel ahead of it has ended */
  stg_stream stream;
};

/* Room for arguments of any family. */
struct stg_idle_args {
  _Alignas(uint64_t) unsigned char bytes[STG_MAX_ARGS_BYTES];
};
/**
 * The nodes of a plan over no rows (family.h), where `kernel` serves of the varying part: with no
 * map of that, as a graph needs arguments to exist. Returns how many.
 */
size_t stg_plan_idle(const struct stg_engine *engine, const struct stg_plan *plan,
                     const struct stg_kernel *kernel, uint64_t no_rows,
                     struct stg_node_launch ret_nodes[STG_PLAN_MAX_PARTS],
                     struct stg_idle_args ret_args[STG_PLAN_MAX_PARTS]);

/** Instantiate a graph of nodes, at most STG_PLAN_MAX_PARTS, on a stream; each launch sets their
 * arguments anew. */
STG_NODISCARD stg_status stg_exec_make_graph(struct stg_engine *engine,
                                             const struct stg_node_launch *nodes, size_t count,
                                             stg_stream stream, struct stg_graph **ret_graph,
                                             stg_error *reterr);
/** Launch nodes one after the other: through the exec when there is one, whose graph has as many.
 * Takes no lock but its. */
STG_NODISCARD stg_status stg_plan_launch(struct stg_engine *engine,
                                         const struct stg_plan_launch *launch,
                                         const struct stg_node_launch *nodes, size_t count,
                                         stg_error *reterr);
/** Add them to a capturing stream, a kernel node each. `launch->early` is taken as set: a replay is
 * ordered after all ahead of it. */
STG_NODISCARD stg_status stg_plan_capture(struct stg_engine *engine,
                                          const struct stg_plan_launch *launch,
                                          const struct stg_node_launch *nodes, size_t count,
                                          stg_error *reterr);

#endif

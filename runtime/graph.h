/*
 * graph.h: the private side of the graphs of launch.h and record.h: what one is.
 */
#ifndef STG_RUNTIME_GRAPH_H
#define STG_RUNTIME_GRAPH_H

#include "runtime/context.h"
#include "runtime/launch.h"

struct stg_graph {
  CUgraph graph; /* kept: exec updates name its nodes; NULL where they are a host's */
  CUgraphExec exec;
  size_t count; /* of `nodes`; 0 for a captured graph, whose nodes are not ours to change */
  CUgraphNode nodes[];
};

/** An empty one, with room for so many nodes, freed with stg_free; NULL: STG_E_NO_MEMORY. */
struct stg_graph *stg_graph_new(size_t count, stg_error *reterr);
/** Destroy what the driver has of it. In the context. */
void stg_graph_release(const struct stg_driver *driver, const struct stg_graph *graph);

#endif

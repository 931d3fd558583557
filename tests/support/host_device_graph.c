/*
 * host_device_graph.c: graphs of one kernel on a device of the host: what they were set to last is
 * what a launch puts on its stream.
 */
#include <assert.h>
#include <stdlib.h>

#include "codegen/steer.h"
#include "runtime/launch.h"
#include "tests/support/host_device.h"

/* many calls here have nothing to do */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct stg_device dev;

struct stg_graph {
  const struct stg_module *module;
  struct stg_launch_dims dims;
  struct stg_steer_args args;
};

static struct host_device_graphs graphs;
static bool refuse_new, refuse_updates;

struct host_device_graphs host_device_graphs(void) {
  return graphs;
}

void host_device_refuse_graphs(bool new_ones, bool updates) {
  refuse_new = new_ones;
  refuse_updates = updates;
}

static void set(struct stg_graph *graph, const struct stg_graph_kernel *kernel) {
  graph->module = kernel->module;
  graph->dims = kernel->dims;
  graph->args = *(const struct stg_steer_args *)kernel->args[0];
}

static stg_status refuse(const char *call, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_CUDA, "%s failed: a test said so", call);
}

stg_status stg_graph_create(dev *device, const struct stg_graph_kernel *kernels, size_t count,
                            stg_stream_handle stream, struct stg_graph **ret_graph,
                            stg_error *reterr) {
  assert(count == 1);
  if (refuse_new) {
    return refuse("cuGraphInstantiateWithFlags", reterr);
  }
  struct stg_graph *graph = calloc(1, sizeof *graph);
  assert(graph != NULL);
  set(graph, kernels);
  graphs.made++;
  graphs.live++;
  *ret_graph = graph;
  return STG_OK;
}

void stg_graph_destroy(dev *device, struct stg_graph *graph) {
  graphs.live -= graph != NULL ? 1 : 0;
  free(graph);
}

stg_status stg_graph_set(dev *device, struct stg_graph *graph, size_t index,
                         const struct stg_graph_kernel *kernel, stg_error *reterr) {
  assert(index == 0);
  if (refuse_updates) {
    return refuse("cuGraphExecKernelNodeSetParams", reterr);
  }
  set(graph, kernel);
  return STG_OK;
}

stg_status stg_graph_remake(dev *device, struct stg_graph *graph,
                            const struct stg_graph_kernel *kernels, stg_stream_handle stream,
                            stg_error *reterr) {
  if (refuse_new) {
    return refuse("cuGraphInstantiateWithFlags", reterr);
  }
  set(graph, kernels);
  graphs.made++;
  return STG_OK;
}

stg_status stg_graph_launch(dev *device, struct stg_graph *graph, stg_stream_handle stream,
                            stg_error *reterr) {
  void *args[] = {&graph->args};
  return stg_launch(device, graph->module, &graph->dims, args, stream, reterr);
}

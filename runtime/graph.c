/*
 * graph.c: executable graphs: a line of kernel nodes that we build, or what a host captured. Those
 * that are captured for a host are record.c's.
 *
 * Built by adding nodes, never by capture, and without allocation nodes. stg_graph_set and
 * stg_graph_launch are hot: no lock, no allocation. One thread at a time per graph.
 */
#include "runtime/graph.h"

#include <stddef.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"

static CUDA_KERNEL_NODE_PARAMS_v2 node_params(const struct stg_graph_kernel *kernel) {
  return (CUDA_KERNEL_NODE_PARAMS_v2){
      .func = kernel->module->function,
      .gridDimX = kernel->dims.grid_x,
      .gridDimY = 1,
      .gridDimZ = 1,
      .blockDimX = kernel->dims.block_x,
      .blockDimY = 1,
      .blockDimZ = 1,
      .sharedMemBytes = kernel->dims.shared_bytes,
      .kernelParams = kernel->args,
  };
}

static CUresult add_nodes(const struct stg_driver *driver, struct stg_graph *graph,
                          const struct stg_graph_kernel *kernels) {
  for (size_t i = 0; i < graph->count; i++) {
    CUDA_KERNEL_NODE_PARAMS_v2 params = node_params(&kernels[i]);
    const CUgraphNode *after = i == 0 ? NULL : &graph->nodes[i - 1];
    CUresult result = driver->graph_add_kernel_node(&graph->nodes[i], graph->graph, after,
                                                    after == NULL ? 0 : 1, &params);
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

static CUresult build_graph(const struct stg_driver *driver, struct stg_graph *graph,
                            const struct stg_graph_kernel *kernels, CUstream stream,
                            const char **ret_call) {
  *ret_call = "cuGraphCreate";
  CUresult result = driver->graph_create(&graph->graph, 0);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_call = "cuGraphAddKernelNode";
  result = add_nodes(driver, graph, kernels);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_call = "cuGraphInstantiateWithFlags";
  result = driver->graph_instantiate(&graph->exec, graph->graph, 0);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_call = "cuGraphUpload";
  return driver->graph_upload(graph->exec, stream);
}

void stg_graph_release(const struct stg_driver *driver, const struct stg_graph *graph) {
  if (graph->exec != NULL) {
    driver->graph_exec_destroy(graph->exec);
  }
  if (graph->graph != NULL) {
    driver->graph_destroy(graph->graph);
  }
}

struct stg_graph *stg_graph_new(size_t count, stg_error *reterr) {
  size_t bytes = 0;
  struct stg_graph *graph = NULL;
  if (stg_mul_size(count, sizeof graph->nodes[0], &bytes) &&
      stg_add_size(bytes, sizeof *graph, &bytes)) {
    graph = stg_calloc(1, bytes);
  }
  if (graph == NULL) {
    stg_error_memory(reterr, "a graph", bytes);
    return NULL;
  }
  graph->count = count;
  return graph;
}

stg_status stg_graph_create(struct stg_device *device, const struct stg_graph_kernel *kernels,
                            size_t count, stg_stream_handle stream, struct stg_graph **ret_graph,
                            stg_error *reterr) {
  struct stg_graph *graph = stg_graph_new(count, reterr);
  if (graph == NULL) {
    return STG_E_NO_MEMORY;
  }
  struct stg_scope scope;
  stg_status status = stg_scope_enter_relaxed(&scope, device, reterr);
  if (status != STG_OK) {
    stg_free(graph);
    return status;
  }
  const char *call = NULL;
  CUresult result = build_graph(device->driver, graph, kernels, stream, &call);
  if (result != CUDA_SUCCESS) {
    stg_graph_release(device->driver, graph);
    stg_free(graph);
    return stg_scope_leave(&scope, result, call, reterr);
  }
  *ret_graph = graph;
  return stg_scope_leave(&scope, result, call, reterr);
}

void stg_graph_destroy(struct stg_device *device, struct stg_graph *graph) {
  if (graph == NULL) {
    return;
  }
  struct stg_scope scope;
  if (stg_scope_enter_relaxed(&scope, device, NULL) == STG_OK) {
    stg_graph_release(device->driver, graph);
    stg_scope_exit(&scope);
  }
  stg_free(graph);
}

stg_status stg_graph_set(struct stg_device *device, struct stg_graph *graph, size_t index,
                         const struct stg_graph_kernel *kernel, stg_error *reterr) {
  if (index >= graph->count) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "graph node %zu does not exist or was captured: %zu can be set", index,
                         graph->count);
  }
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUDA_KERNEL_NODE_PARAMS_v2 params = node_params(kernel);
  CUresult result =
      device->driver->graph_exec_set_kernel(graph->exec, graph->nodes[index], &params);
  return stg_scope_leave(&scope, result, "cuGraphExecKernelNodeSetParams", reterr);
}

stg_status stg_graph_remake(struct stg_device *device, struct stg_graph *graph,
                            const struct stg_graph_kernel *kernels, stg_stream_handle stream,
                            stg_error *reterr) {
  struct stg_graph *made = NULL;
  stg_status status = stg_graph_create(device, kernels, graph->count, stream, &made, reterr);
  if (made == NULL) {
    return status;
  }
  const struct stg_graph before = *graph;
  graph->graph = made->graph;
  graph->exec = made->exec;
  memcpy(graph->nodes, made->nodes, graph->count * sizeof graph->nodes[0]);
  made->graph = before.graph;
  made->exec = before.exec;
  stg_graph_destroy(device, made);
  return STG_OK;
}

stg_status stg_graph_launch(struct stg_device *device, struct stg_graph *graph,
                            stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  CUresult result = device->driver->graph_launch(graph->exec, stream);
  return stg_scope_leave(&scope, result, "cuGraphLaunch", reterr);
}

stg_status stg_capture_begin(struct stg_device *device, stg_stream_handle stream,
                             stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  /* the strictest mode, and torch's: an unsafe call on any thread breaks the capture */
  CUresult result = device->driver->stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  return stg_scope_leave(&scope, result, "cuStreamBeginCapture", reterr);
}

static CUresult end_capture(const struct stg_driver *driver, CUstream stream,
                            struct stg_graph *graph, size_t *ret_nodes, const char **ret_call) {
  *ret_call = "cuStreamEndCapture";
  CUresult result = driver->stream_end_capture(stream, &graph->graph);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_call = "cuGraphGetNodes";
  result = driver->graph_get_nodes(graph->graph, NULL, ret_nodes);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_call = "cuGraphInstantiateWithFlags";
  return driver->graph_instantiate(&graph->exec, graph->graph, 0);
}

stg_status stg_capture_end(struct stg_device *device, stg_stream_handle stream,
                           struct stg_graph **ret_graph, size_t *ret_nodes, stg_error *reterr) {
  struct stg_graph *graph = stg_graph_new(0, reterr);
  if (graph == NULL) {
    return STG_E_NO_MEMORY;
  }
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    stg_free(graph);
    return status;
  }
  size_t nodes = 0;
  const char *call = NULL;
  CUresult result = end_capture(device->driver, stream, graph, &nodes, &call);
  if (result != CUDA_SUCCESS) {
    stg_graph_release(device->driver, graph);
    stg_free(graph);
    return stg_scope_leave(&scope, result, call, reterr);
  }
  *ret_nodes = nodes;
  *ret_graph = graph;
  return stg_scope_leave(&scope, result, call, reterr);
}

/*
 * host_device_graph.c: graphs on a device of the host: kernels in a line, of which what they were
 * set to last is what a launch puts on its stream; and a host's work as it was recorded.
 */
#include <assert.h>
#include <stdlib.h>

#include "runtime/launch.h"
#include "runtime/record.h"
#include "tests/support/host_device.h"

/* many calls here have nothing to do */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct stg_device dev;

#define MAX_NODES 4

struct stg_graph {
  void *recording; /* of a host's work; NULL: the nodes are it */
  size_t count;
  struct node {
    const struct stg_module *module;
    struct stg_launch_dims dims;
    struct host_device_launch launch;
  } nodes[MAX_NODES];
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

static void set(struct node *node, const struct stg_graph_kernel *kernel) {
  node->module = kernel->module;
  node->dims = kernel->dims;
  node->launch = host_device_launch_of(kernel->module, &kernel->dims, kernel->args[0]);
}

static void set_all(struct stg_graph *graph, const struct stg_graph_kernel *kernels) {
  for (size_t i = 0; i < graph->count; i++) {
    set(&graph->nodes[i], &kernels[i]);
  }
}

static stg_status refuse(const char *call, stg_error *reterr) {
  return stg_error_set(reterr, STG_E_CUDA, "%s failed: a test said so", call);
}

stg_status stg_graph_create(dev *device, const struct stg_graph_kernel *kernels, size_t count,
                            stg_stream_handle stream, struct stg_graph **ret_graph,
                            stg_error *reterr) {
  assert(count >= 1 && count <= MAX_NODES);
  if (refuse_new) {
    return refuse("cuGraphInstantiateWithFlags", reterr);
  }
  struct stg_graph *graph = calloc(1, sizeof *graph);
  assert(graph != NULL);
  graph->count = count;
  set_all(graph, kernels);
  graphs.made++;
  graphs.live++;
  *ret_graph = graph;
  return STG_OK;
}

void stg_graph_destroy(dev *device, struct stg_graph *graph) {
  graphs.live -= graph != NULL ? 1 : 0;
  if (graph != NULL && graph->recording != NULL) {
    host_device_free_recording(graph->recording);
  }
  free(graph);
}

stg_status stg_graph_set(dev *device, struct stg_graph *graph, size_t index,
                         const struct stg_graph_kernel *kernel, stg_error *reterr) {
  assert(index < graph->count);
  if (refuse_updates) {
    return refuse("cuGraphExecKernelNodeSetParams", reterr);
  }
  set(&graph->nodes[index], kernel);
  return STG_OK;
}

stg_status stg_graph_remake(dev *device, struct stg_graph *graph,
                            const struct stg_graph_kernel *kernels, stg_stream_handle stream,
                            stg_error *reterr) {
  if (refuse_new) {
    return refuse("cuGraphInstantiateWithFlags", reterr);
  }
  set_all(graph, kernels);
  graphs.made++;
  return STG_OK;
}

stg_status stg_graph_launch(dev *device, struct stg_graph *graph, stg_stream_handle stream,
                            stg_error *reterr) {
  stg_status status = STG_OK;
  if (graph->recording != NULL && !host_device_put_recording(graph->recording, stream)) {
    return stg_error_set(reterr, STG_E_DEVICE_LOST, "device 0 is lost since a test said so");
  }
  for (size_t i = 0; i < graph->count && status == STG_OK; i++) {
    struct node *node = &graph->nodes[i];
    void *args[] = {node->launch.args};
    status = stg_launch(device, node->module, &node->dims, args, stream, reterr);
  }
  return status;
}

/* record.h */

stg_status stg_work_enqueue(dev *device, const struct stg_work *work, stg_stream_handle stream,
                            stg_error *reterr) {
  return work->enqueue(work->user, stream, reterr);
}

static stg_status record(dev *device, const struct stg_work *work, void **ret_recording,
                         stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  void *recording = host_device_new_recording();
  stg_status status = work->enqueue(work->user, recording, &error);
  const size_t count = host_device_recorded(recording);
  if (status != STG_OK) {
    status = stg_error_set(reterr, STG_E_CAPTURE, "the callback failed: %s: %s",
                           stg_status_name(status), error.message);
  } else if (count == 0 || count == SIZE_MAX) {
    status = stg_error_set(reterr, STG_E_CAPTURE, "the recording is %s",
                           count == 0 ? "empty" : "broken");
  }
  if (status != STG_OK) {
    host_device_free_recording(recording);
    return status;
  }
  *ret_recording = recording;
  return STG_OK;
}

stg_status stg_record(dev *device, const struct stg_work *work, stg_stream_handle stream,
                      struct stg_graph **ret_graph, stg_error *reterr) {
  void *recording = NULL;
  stg_status status = record(device, work, &recording, reterr);
  if (status == STG_OK && refuse_new) {
    host_device_free_recording(recording);
    status = refuse("cuGraphInstantiateWithFlags", reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_graph *graph = calloc(1, sizeof *graph);
  assert(graph != NULL);
  graph->recording = recording;
  graphs.made++;
  graphs.live++;
  *ret_graph = graph;
  return STG_OK;
}

stg_status stg_record_again(dev *device, const struct stg_work *work, stg_stream_handle stream,
                            struct stg_graph *graph, bool *ret_updated, stg_error *reterr) {
  void *recording = NULL;
  stg_status status = record(device, work, &recording, reterr);
  if (status == STG_OK && refuse_updates && refuse_new) {
    host_device_free_recording(recording);
    status = refuse("cuGraphInstantiateWithFlags", reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  host_device_free_recording(graph->recording);
  graph->recording = recording;
  graphs.made += refuse_updates ? 1 : 0;
  *ret_updated = !refuse_updates;
  return STG_OK;
}

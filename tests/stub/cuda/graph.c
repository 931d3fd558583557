/*
 * graph.c: the stub's graphs, what is made of them, captures, and user objects.
 */
#include "tests/stub/cuda/stub.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MAX_NODES 64
#define MAX_KEPT 16

struct user_object {
  struct stub_object object;
  unsigned references;
  CUhostFn destroy;
  void *user;
};

struct stub_node {
  size_t index;
  struct stub_launch launch;
};

/* A graph, or an executable one, whose nodes are then its own. */
struct stub_graph {
  struct stub_object object;
  struct stub_node nodes[MAX_NODES];
  size_t n_nodes;
  struct user_object *kept[MAX_KEPT];
  size_t n_kept;
};

static atomic_uint_fast64_t last_capture;

static void let_go(struct user_object *object, unsigned references) {
  object->references -= references;
  if (object->references == 0) {
    object->destroy(object->user);
    stub_free(object);
  }
}

/* They are kept, and with them the addresses of what was theirs: after a device is lost the library
 * leaves that to the driver, and it is no leak. */
void stub_user_objects_end(void) {
  static struct stub_object *ended;
  for (struct user_object *object; (object = stub_next(STUB_USER_OBJECT, NULL)) != NULL;) {
    stub_forget(object);
    object->destroy(object->user);
    object->object.next = ended;
    ended = &object->object;
  }
}

static void finish_graph(struct stub_object *object) {
  struct stub_graph *graph = (struct stub_graph *)(void *)object;
  for (size_t i = 0; i < graph->n_kept; i++) {
    let_go(graph->kept[i], 1);
  }
}

static struct stub_graph *new_graph(enum stub_kind kind) {
  struct stub_graph *graph = stub_new(kind, sizeof *graph);
  if (graph != NULL) {
    graph->object.finish = finish_graph;
  }
  return graph;
}

CUresult stub_graph_append(struct stub_graph *graph, const struct stub_launch *launch,
                           struct stub_node **ret_node) {
  if (graph->n_nodes == MAX_NODES) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct stub_node *node = &graph->nodes[graph->n_nodes];
  *node = (struct stub_node){.index = graph->n_nodes++, .launch = *launch};
  if (ret_node != NULL) {
    *ret_node = node;
  }
  return CUDA_SUCCESS;
}

struct stub_graph *stub_graph_recorded(const struct stub_stream *stream) {
  const bool records = stream != NULL &&
                       stream->capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
                       stream->capture.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  return records ? stream->capture.graph : NULL;
}

static CUresult read_params(const char *call, const CUDA_KERNEL_NODE_PARAMS_v2 *params,
                            struct stub_launch *ret) {
  return stub_launch_read(
      call, params->func, params->gridDimX * params->gridDimY * params->gridDimZ,
      params->blockDimX * params->blockDimY * params->blockDimZ, params->kernelParams, ret);
}

CUresult CUDAAPI stub_graph_create(CUgraph *ret_graph, unsigned flags) {
  const CUresult result = stub_enter("cuGraphCreate");
  (void)flags;
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_graph = (CUgraph)(void *)new_graph(STUB_GRAPH);
  return *ret_graph != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(const char *call, void *handle, enum stub_kind kind) {
  const CUresult result = stub_enter(call);
  struct stub_graph *graph = stub_find(call, handle, kind);
  if (graph == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graph->object.lost = result != CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) {
    stub_free(graph);
  }
  return result;
}

CUresult CUDAAPI stub_graph_destroy(CUgraph graph) {
  return destroy("cuGraphDestroy", graph, STUB_GRAPH);
}

CUresult CUDAAPI stub_graph_exec_destroy(CUgraphExec exec) {
  return destroy("cuGraphExecDestroy", exec, STUB_EXEC);
}

CUresult CUDAAPI stub_graph_add_kernel_node(CUgraphNode *ret_node, CUgraph handle,
                                            const CUgraphNode *after, size_t n_after,
                                            const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  CUresult result = stub_enter_context("cuGraphAddKernelNode");
  struct stub_launch launch = {.module = NULL};
  struct stub_node *node = NULL;
  (void)after;
  (void)n_after;
  if (result == CUDA_SUCCESS) {
    result = read_params("cuGraphAddKernelNode", params, &launch);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  struct stub_graph *graph = stub_find("cuGraphAddKernelNode", handle, STUB_GRAPH);
  result = graph != NULL ? stub_graph_append(graph, &launch, &node) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    *ret_node = (CUgraphNode)(void *)node;
  }
  return result;
}

CUresult CUDAAPI stub_graph_get_nodes(CUgraph handle, CUgraphNode *ret_nodes, size_t *count) {
  const CUresult result = stub_enter("cuGraphGetNodes");
  const struct stub_graph *graph = stub_find("cuGraphGetNodes", handle, STUB_GRAPH);
  (void)ret_nodes;
  if (result != CUDA_SUCCESS || graph == NULL) {
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  *count = graph->n_nodes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_graph_instantiate(CUgraphExec *ret_exec, CUgraph handle,
                                        unsigned long long flags) {
  const CUresult result = stub_enter_context("cuGraphInstantiateWithFlags");
  (void)flags;
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const struct stub_graph *graph = stub_find("cuGraphInstantiateWithFlags", handle, STUB_GRAPH);
  struct stub_graph *exec = graph != NULL ? new_graph(STUB_EXEC) : NULL;
  if (exec == NULL) {
    return graph == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
  }
  memcpy(exec->nodes, graph->nodes, sizeof exec->nodes);
  memcpy(exec->kept, graph->kept, sizeof(exec->kept));
  exec->n_nodes = graph->n_nodes;
  exec->n_kept = graph->n_kept;
  for (size_t i = 0; i < exec->n_kept; i++) {
    exec->kept[i]->references++;
  }
  *ret_exec = (CUgraphExec)(void *)exec;
  return CUDA_SUCCESS;
}

static CUresult enter_exec(const char *call, CUgraphExec exec, CUstream stream) {
  const CUresult result = stub_enter_context(call);
  if (result == CUDA_SUCCESS && stub_find(call, exec, STUB_EXEC) == NULL) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return result == CUDA_SUCCESS ? stub_stream_takes_work(call, stream) : result;
}

CUresult CUDAAPI stub_graph_upload(CUgraphExec exec, CUstream stream) {
  return enter_exec("cuGraphUpload", exec, stream);
}

CUresult CUDAAPI stub_graph_launch(CUgraphExec handle, CUstream stream) {
  const CUresult result = enter_exec("cuGraphLaunch", handle, stream);
  const struct stub_graph *exec = (const void *)handle;
  for (size_t i = 0; result == CUDA_SUCCESS && i < exec->n_nodes; i++) {
    if (exec->nodes[i].launch.to == NULL &&
        stub_find("cuGraphLaunch", exec->nodes[i].launch.module, STUB_MODULE) == NULL) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    stub_launch_run(&exec->nodes[i].launch);
  }
  return result;
}

/* As the driver's, it takes the same nodes in number alone. */
CUresult CUDAAPI stub_graph_exec_update(CUgraphExec handle, CUgraph graph,
                                        CUgraphExecUpdateResultInfo *ret_info) {
  const char *call = "cuGraphExecUpdate";
  const CUresult result = enter_exec(call, handle, NULL);
  struct stub_graph *exec = (void *)handle;
  (void)ret_info;
  if (result != CUDA_SUCCESS) {
    return result;
  }
  const struct stub_graph *from = stub_find(call, graph, STUB_GRAPH);
  if (from == NULL || from->n_nodes != exec->n_nodes) {
    return from == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  memcpy(exec->nodes, from->nodes, sizeof exec->nodes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_graph_exec_set_kernel(CUgraphExec handle, CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  const char *call = "cuGraphExecKernelNodeSetParams";
  CUresult result = enter_exec(call, handle, NULL);
  struct stub_graph *exec = (void *)handle;
  struct stub_launch launch = {.module = NULL};
  if (result == CUDA_SUCCESS) {
    result = read_params(call, params, &launch);
  }
  if (result == CUDA_SUCCESS) {
    exec->nodes[((const struct stub_node *)(const void *)node)->index].launch = launch;
  }
  return result;
}

/* user objects */

CUresult CUDAAPI stub_user_object_create(CUuserObject *ret_object, void *user, CUhostFn destroyer,
                                         unsigned references, unsigned flags) {
  const CUresult result = stub_enter("cuUserObjectCreate");
  (void)flags;
  if (result != CUDA_SUCCESS) {
    return result;
  }
  struct user_object *object = stub_new(STUB_USER_OBJECT, sizeof *object);
  if (object == NULL) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  object->references = references;
  object->destroy = destroyer;
  object->user = user;
  *ret_object = (CUuserObject)(void *)object;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_user_object_release(CUuserObject handle, unsigned references) {
  const CUresult result = stub_enter("cuUserObjectRelease");
  struct user_object *object = stub_find("cuUserObjectRelease", handle, STUB_USER_OBJECT);
  if (object == NULL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  object->object.lost = result != CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) {
    let_go(object, references);
  }
  return result;
}

/* The reference moves: that is all the library asks for. */
CUresult CUDAAPI stub_graph_retain_user_object(CUgraph handle, CUuserObject object,
                                               unsigned references, unsigned flags) {
  const CUresult result = stub_enter("cuGraphRetainUserObject");
  if (result != CUDA_SUCCESS) {
    return result;
  }
  struct stub_graph *graph = stub_find("cuGraphRetainUserObject", handle, STUB_GRAPH);
  struct user_object *kept = stub_find("cuGraphRetainUserObject", object, STUB_USER_OBJECT);
  if (graph == NULL || kept == NULL || references != 1 || flags != CU_GRAPH_USER_OBJECT_MOVE ||
      graph->n_kept == MAX_KEPT) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graph->kept[graph->n_kept++] = kept;
  return CUDA_SUCCESS;
}

/* captures */

static CUresult enter_stream(const char *call, CUstream handle, struct stub_stream **ret) {
  const CUresult result = stub_enter_context(call);
  if (result == CUDA_SUCCESS && !stub_stream_of(call, handle, ret)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return result;
}

CUresult CUDAAPI stub_stream_is_capturing(CUstream handle, CUstreamCaptureStatus *ret_status) {
  struct stub_stream *stream = NULL;
  const CUresult result = enter_stream("cuStreamIsCapturing", handle, &stream);
  *ret_status = stream != NULL ? stream->capture.status : CU_STREAM_CAPTURE_STATUS_NONE;
  return result;
}

CUresult CUDAAPI stub_stream_get_capture_info(CUstream handle, CUstreamCaptureStatus *ret_status,
                                              cuuint64_t *ret_id, CUgraph *ret_graph,
                                              const CUgraphNode **ret_after, size_t *ret_n_after) {
  struct stub_stream *stream = NULL;
  const CUresult result = enter_stream("cuStreamGetCaptureInfo", handle, &stream);
  (void)ret_after;
  (void)ret_n_after;
  if (result == CUDA_SUCCESS) {
    *ret_status = stream != NULL ? stream->capture.status : CU_STREAM_CAPTURE_STATUS_NONE;
    *ret_id = stream != NULL ? stream->capture.id : 0;
    *ret_graph = stream != NULL ? (CUgraph)(void *)stream->capture.graph : NULL;
  }
  return result;
}

CUresult CUDAAPI stub_stream_begin_capture(CUstream handle, CUstreamCaptureMode mode) {
  struct stub_stream *stream = NULL;
  const CUresult result = enter_stream("cuStreamBeginCapture", handle, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  struct stub_graph *graph = stream != NULL ? new_graph(STUB_GRAPH) : NULL;
  if (graph == NULL) {
    return stream == NULL ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
  }
  stream->capture = (struct stub_capture){.status = CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                          .mode = mode,
                                          .id = atomic_fetch_add(&last_capture, 1) + 1,
                                          .graph = graph};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stub_stream_end_capture(CUstream handle, CUgraph *ret_graph) {
  struct stub_stream *stream = NULL;
  const CUresult result = enter_stream("cuStreamEndCapture", handle, &stream);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (stream == NULL || stream->capture.status == CU_STREAM_CAPTURE_STATUS_NONE) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  const struct stub_capture capture = stream->capture;
  stream->capture = (struct stub_capture){.status = CU_STREAM_CAPTURE_STATUS_NONE};
  *ret_graph = (CUgraph)(void *)capture.graph;
  if (capture.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    stub_free(capture.graph);
    *ret_graph = NULL;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  return CUDA_SUCCESS;
}

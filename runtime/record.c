/*
 * record.c: see record.h. A stream for each capture: it may be left broken, and threads record side
 * by side.
 */
#include "runtime/record.h"

#include <stddef.h>

#include "runtime/base/alloc.h"
#include "runtime/graph.h"

stg_status stg_work_enqueue(struct stg_device *device, const struct stg_work *work,
                            stg_stream_handle stream, stg_error *reterr) {
  struct stg_scope scope;
  stg_status status = stg_scope_enter(&scope, device, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = work->enqueue(work->user, stream, reterr);
  stg_scope_exit(&scope);
  return status;
}

static bool is_end(stg_status status) {
  return status == STG_E_DEVICE_LOST || status == STG_E_FORKED;
}

/* What the driver says of a capture is about the work, unless it has no room or the device is lost.
 */
static stg_status refuse(struct stg_device *device, CUresult result, const char *call,
                         stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  const stg_status status = stg_device_fail(device, result, call, &error);
  return stg_error_set(reterr, is_end(status) || status == STG_E_NO_MEMORY ? status : STG_E_CAPTURE,
                       "%s", error.message);
}

static stg_status check_nodes(struct stg_device *device, CUgraph graph, stg_error *reterr) {
  size_t nodes = 0;
  const CUresult result = device->driver->graph_get_nodes(graph, NULL, &nodes);
  if (result != CUDA_SUCCESS) {
    return refuse(device, result, "cuGraphGetNodes", reterr);
  }
  return nodes > 0 ? STG_OK
                   : stg_error_set(reterr, STG_E_CAPTURE,
                                   "the callback enqueued nothing on the stream that it was given");
}

/* In the context. The capture is over when it returns, whatever the work made of it. */
static stg_status capture_on(struct stg_device *device, const struct stg_work *work,
                             CUstream stream, CUgraph *ret_graph, stg_error *reterr) {
  const struct stg_driver *driver = device->driver;
  stg_error said = STG_ERROR_INIT;
  CUgraph graph = NULL;
  CUresult result = driver->stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (result != CUDA_SUCCESS) {
    return refuse(device, result, "cuStreamBeginCapture", reterr);
  }
  const stg_status worked = work->enqueue(work->user, stream, &said);
  stg_status status = STG_OK;
  result = driver->stream_end_capture(stream, &graph);
  if (is_end(worked)) {
    status = stg_error_set(reterr, worked, "%s", said.message);
  } else if (worked != STG_OK) {
    status = stg_error_set(reterr, STG_E_CAPTURE, "the callback failed: %s: %s",
                           stg_status_name(worked), said.message);
  } else if (result != CUDA_SUCCESS) {
    status = refuse(device, result, "cuStreamEndCapture", reterr);
  } else {
    status = check_nodes(device, graph, reterr);
  }
  if (status != STG_OK && graph != NULL) {
    driver->graph_destroy(graph);
    graph = NULL;
  }
  *ret_graph = graph;
  return status;
}

static stg_status capture(struct stg_device *device, const struct stg_work *work,
                          CUgraph *ret_graph, stg_error *reterr) {
  stg_stream_handle stream = NULL;
  struct stg_scope scope;
  stg_status status = stg_stream_create(device, &stream, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = stg_scope_enter(&scope, device, reterr);
  if (status == STG_OK) {
    status = capture_on(device, work, stream, ret_graph, reterr);
    stg_scope_exit(&scope);
  }
  stg_stream_destroy(device, stream);
  return status;
}

static CUresult instantiate(const struct stg_driver *driver, CUgraph graph, CUstream stream,
                            CUgraphExec *ret_exec, const char **ret_call) {
  CUgraphExec exec = NULL;
  *ret_call = "cuGraphInstantiateWithFlags";
  CUresult result = driver->graph_instantiate(&exec, graph, 0);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  *ret_call = "cuGraphUpload";
  result = driver->graph_upload(exec, stream);
  if (result != CUDA_SUCCESS) {
    driver->graph_exec_destroy(exec);
    return result;
  }
  *ret_exec = exec;
  return CUDA_SUCCESS;
}

/* Destroy what was captured: an executable graph has its own copy. */
static stg_status leave(struct stg_scope *scope, CUgraph captured, CUresult result,
                        const char *call, stg_error *reterr) {
  scope->device->driver->graph_destroy(captured);
  return stg_scope_leave(scope, result, call, reterr);
}

/* A graph that nobody can enter the context to destroy goes with the context. */
static stg_status enter_captured(struct stg_device *device, const struct stg_work *work,
                                 struct stg_scope *scope, CUgraph *ret_captured,
                                 stg_error *reterr) {
  stg_status status = capture(device, work, ret_captured, reterr);
  return status == STG_OK ? stg_scope_enter_relaxed(scope, device, reterr) : status;
}

stg_status stg_record(struct stg_device *device, const struct stg_work *work,
                      stg_stream_handle stream, struct stg_graph **ret_graph, stg_error *reterr) {
  CUgraph captured = NULL;
  struct stg_scope scope;
  struct stg_graph *graph = stg_graph_new(0, reterr);
  if (graph == NULL) {
    return STG_E_NO_MEMORY;
  }
  stg_status status = enter_captured(device, work, &scope, &captured, reterr);
  if (status == STG_OK) {
    const char *call = NULL;
    const CUresult result = instantiate(device->driver, captured, stream, &graph->exec, &call);
    status = leave(&scope, captured, result, call, reterr);
  }
  if (status != STG_OK) {
    stg_free(graph);
    return status;
  }
  *ret_graph = graph;
  return STG_OK;
}

stg_status stg_record_again(struct stg_device *device, const struct stg_work *work,
                            stg_stream_handle stream, struct stg_graph *graph, bool *ret_updated,
                            stg_error *reterr) {
  CUgraph captured = NULL;
  struct stg_scope scope;
  CUgraphExecUpdateResultInfo info;
  stg_status status = enter_captured(device, work, &scope, &captured, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_driver *driver = device->driver;
  const char *call = NULL;
  CUresult result = driver->graph_exec_update(graph->exec, captured, &info);
  const bool updated = result == CUDA_SUCCESS;
  if (!updated) { /* other nodes, or others of their parameters than an update may change */
    CUgraphExec exec = NULL;
    result = instantiate(driver, captured, stream, &exec, &call);
    if (result == CUDA_SUCCESS) {
      driver->graph_exec_destroy(graph->exec);
      graph->exec = exec;
    }
  }
  *ret_updated = updated;
  return leave(&scope, captured, result, call, reterr);
}

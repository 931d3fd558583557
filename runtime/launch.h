/*
 * launch.h: loaded modules, kernel launches, and graphs of kernels.
 */
#ifndef STG_RUNTIME_LAUNCH_H
#define STG_RUNTIME_LAUNCH_H

#include "runtime/device.h"

struct stg_module; /* a loaded cubin and one kernel of it */
struct stg_graph;  /* an executable graph of kernel nodes in a line, one after the other */

/**
 * Load a cubin and get its kernel, eagerly (nothing is left for a first launch to do).
 * STG_E_CORRUPT when the driver answers INVALID_IMAGE, NO_BINARY_FOR_GPU or INVALID_PTX: the image
 * is at fault; any other driver error is STG_E_CUDA.
 */
STG_NODISCARD stg_status stg_module_load(struct stg_device *device, const void *cubin,
                                         const char *kernel, struct stg_module **ret_module,
                                         stg_error *reterr);
void stg_module_unload(struct stg_device *device, struct stg_module *module);

struct stg_launch_dims {
  uint32_t grid_x;
  uint32_t block_x;
  uint32_t shared_bytes;
};

/** One kernel launch on a stream; `args` are pointers to the parameter values, as cuLaunchKernel's.
 */
STG_NODISCARD stg_status stg_launch(struct stg_device *device, const struct stg_module *module,
                                    const struct stg_launch_dims *dims, void **args,
                                    stg_stream_handle stream, stg_error *reterr);

/**
 * The same for a kernel that itself waits (griddepcontrol.wait) before it touches what earlier
 * launches wrote: on sm_90 and later, with a driver of CUDA 12.3, it may begin before the kernel
 * ahead of it has ended. What is ahead of it on the stream must be a kernel, or nothing that it
 * reads before it waits.
 */
STG_NODISCARD stg_status stg_launch_early(struct stg_device *device,
                                          const struct stg_module *module,
                                          const struct stg_launch_dims *dims, void **args,
                                          stg_stream_handle stream, stg_error *reterr);

/* One node of a graph to be built. */
struct stg_graph_kernel {
  const struct stg_module *module;
  struct stg_launch_dims dims;
  void **args;
};
/** Build a line of `count` kernel nodes by adding nodes, instantiate it, and upload it to `stream`.
 */
STG_NODISCARD stg_status stg_graph_create(struct stg_device *device,
                                          const struct stg_graph_kernel *kernels, size_t count,
                                          stg_stream_handle stream, struct stg_graph **ret_graph,
                                          stg_error *reterr);
void stg_graph_destroy(struct stg_device *device, struct stg_graph *graph);
/**
 * Change kernel, dims and arguments of node `index`; takes effect at the next launch. STG_E_CUDA
 * when the driver refuses: the graph is then as it was.
 */
STG_NODISCARD stg_status stg_graph_set(struct stg_device *device, struct stg_graph *graph,
                                       size_t index, const struct stg_graph_kernel *kernel,
                                       stg_error *reterr);
/**
 * Build a graph of `count` nodes anew, in its place, for a driver that refuses to change it, and
 * upload it to `stream`. Allocates. On failure the graph is as it was.
 */
STG_NODISCARD stg_status stg_graph_remake(struct stg_device *device, struct stg_graph *graph,
                                          const struct stg_graph_kernel *kernels,
                                          stg_stream_handle stream, stg_error *reterr);
STG_NODISCARD stg_status stg_graph_launch(struct stg_device *device, struct stg_graph *graph,
                                          stg_stream_handle stream, stg_error *reterr);

/* A host-side capture, for tests and benchmarks. The graph owns what was captured. */
STG_NODISCARD stg_status stg_capture_begin(struct stg_device *device, stg_stream_handle stream,
                                           stg_error *reterr);
STG_NODISCARD stg_status stg_capture_end(struct stg_device *device, stg_stream_handle stream,
                                         struct stg_graph **ret_graph, size_t *ret_nodes,
                                         stg_error *reterr);

#endif

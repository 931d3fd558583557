/*
 * record.h: a host's own work as a graph: captured on a stream of ours, instantiated, and made
 * anew.
 *
 * Nothing is known of the nodes: their parameters are neither read nor set, so stg_graph_set
 * refuses such a graph. stg_graph_launch and stg_graph_destroy take it.
 */
#ifndef STG_RUNTIME_RECORD_H
#define STG_RUNTIME_RECORD_H

#include "runtime/launch.h"

/* What a host does: put its work on a stream. */
struct stg_work {
  stg_status (*enqueue)(void *user, stg_stream_handle stream, stg_error *reterr);
  void *user;
};

/** Let the work be enqueued on a stream, with the device's context current. What it returns;
 * STG_E_CUDA, STG_E_DEVICE_LOST, STG_E_FORKED. */
STG_NODISCARD stg_status stg_work_enqueue(struct stg_device *device, const struct stg_work *work,
                                          stg_stream_handle stream, stg_error *reterr);

/**
 * Capture the work, instantiate it and upload it to `stream`. The capture is of this thread alone,
 * on a stream of its own that goes with it, and has ended whatever comes of it; nothing of the work
 * has run then.
 * @return STG_E_CAPTURE when the work failed, broke or left the capture, or enqueued nothing there;
 * STG_E_CUDA, STG_E_NO_MEMORY, STG_E_DEVICE_LOST, STG_E_FORKED.
 */
STG_NODISCARD stg_status stg_record(struct stg_device *device, const struct stg_work *work,
                                    stg_stream_handle stream, struct stg_graph **ret_graph,
                                    stg_error *reterr);
/**
 * Capture the work again and bring a graph that stg_record made up to it; where the driver refuses
 * that, instantiate it in its place and upload it to `stream`. `*ret_updated` says which. On
 * failure the graph is as it was.
 */
STG_NODISCARD stg_status stg_record_again(struct stg_device *device, const struct stg_work *work,
                                          stg_stream_handle stream, struct stg_graph *graph,
                                          bool *ret_updated, stg_error *reterr);

#endif

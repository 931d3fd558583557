/*
 * apply.h: the parts of a steering of one layer, for who launches it together with other kernels.
 */
#ifndef STG_ENGINE_APPLY_H
#define STG_ENGINE_APPLY_H

#include "engine/exec.h"
#include "engine/steer.h"

/** The arguments of a launch over the frame's rows, for tensors that were checked. */
void stg_apply_args(const stg_frame *frame, const stg_apply *apply, int64_t stride,
                    struct stg_steer_args *args);
/** Its node, by a kernel of the frame's table; `args` is kept, and learns how memory is parted. */
struct stg_node_launch stg_apply_node(const stg_frame *frame, const struct stg_kernel *kernel,
                                      struct stg_steer_args *args);
/** The kernel that a capture records: the row bucket alone picks the tile. STG_E_NOT_WARM,
 * STG_E_COMPILE. */
STG_NODISCARD stg_status stg_apply_capture_kernel(const stg_frame *frame,
                                                  const struct stg_kernel **ret_kernel,
                                                  stg_error *reterr);
/** Let the graph that `stream` captures hold the frame and its table. */
STG_NODISCARD stg_status stg_apply_pin(stg_frame *frame, stg_stream stream, stg_error *reterr);
/** Count a launch that has gone out, not into a capture. */
void stg_apply_launched(stg_frame *frame, const struct stg_kernel *kernel, uint32_t layer);
/** Apply on the CPU. */
STG_NODISCARD stg_status stg_apply_cpu(stg_frame *frame, const stg_apply *apply, int64_t stride,
                                       stg_error *reterr);

#endif

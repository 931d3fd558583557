/*
 * steer_launch.h: how large a launch of a steer kernel is, and what its arguments say of that.
 */
#ifndef STG_ENGINE_STEER_LAUNCH_H
#define STG_ENGINE_STEER_LAUNCH_H

#include "codegen/steer.h"
#include "engine/kernels.h"
#include "runtime/launch.h"

/** The launch over the rows of `args`, which learn how shared memory is parted. `chain_bytes`: what
 * a chain of the table takes in it. */
struct stg_launch_dims stg_steer_dims(const struct stg_engine *engine,
                                      const struct stg_kernel *kernel, uint32_t chain_bytes,
                                      struct stg_steer_args *args);
/** Shared memory of one block of a launch over `rows`. */
uint32_t stg_steer_shared_bytes(const struct stg_engine *engine, const struct stg_kernel *kernel,
                                int64_t rows, uint32_t chain_bytes);

#endif

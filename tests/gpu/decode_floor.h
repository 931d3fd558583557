/*
 * decode_floor.h: a kernel that reads as many bytes of K and V as a call of the decode family and
 * does nothing with them: what the card itself gives.
 */
#ifndef STG_TESTS_GPU_DECODE_FLOOR_H
#define STG_TESTS_GPU_DECODE_FLOOR_H

#include "tests/gpu/gpu_test.h"

/* Arguments as a launch wants them; `pieces` of 16 bytes, of K and of V each. */
struct decode_floor_args {
  uint64_t k, v, out;
  int64_t pieces;
};

/** The kernel, to be unloaded. It waits for earlier launches, and lets the next one begin. */
struct stg_module *decode_floor_open(const struct gpu *gpu);
struct stg_launch_dims decode_floor_dims(const struct gpu *gpu);

#endif

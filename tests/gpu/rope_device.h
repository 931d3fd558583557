/*
 * rope_device.h: kernels of the rope family launched by their arguments, without an engine. What a
 * call takes as the CPU backend does is brought to the device, between guards, and back.
 */
#ifndef STG_TESTS_GPU_ROPE_DEVICE_H
#define STG_TESTS_GPU_ROPE_DEVICE_H

#include "codegen/rope_args.h"
#include "codegen/rope_text.h"
#include "engine/cpu/rope.h"
#include "tests/gpu/gpu_test.h"

struct rope_kernel_slot;
struct rope_memory;

/* The state of a group of tests; and how its launches are, which a test sets and resets. */
struct rope_device {
  struct gpu *gpu;
  struct rope_kernel_slot *kernels; /* that were loaded, by text */
  struct rope_memory *memory;       /* of the call that is being made */
  struct rope_how {
    int64_t room;    /* rows of the launch, where they are more than the call's */
    bool always_map; /* rows in a map even where all are of sequence 0 */
    bool largest;    /* the map says the largest position of each row's sequence */
    bool misaligned; /* addresses by an element, not by 16 bytes */
    bool spread;     /* spans as of a launch of one row */
    bool early;      /* may begin before the launch ahead of it has ended */
  } how;
};

/* cmocka group fixtures: `*state` is a struct rope_device. */
int rope_device_setup(void **state);
int rope_device_teardown(void **state);

/** What attn_rope_run_by wants; `user` is a struct rope_device. */
void rope_device_rotate(void *user, const struct stg_cpu_rope_batch *batch);
/** Append at lengths and advance them, so many times, without a look in between. */
void rope_device_steps(struct rope_device *device, const struct stg_cpu_rope_batch *batch,
                       int steps);
/** The way back. */
void rope_device_rotate_back(struct rope_device *device,
                             const struct stg_cpu_rope_gradient *gradient);
void rope_device_transpose(struct rope_device *device, const struct stg_cpu_transpose *transpose);
/** Lengths are rows->len, which is written; `on` false: the launch has nothing to do. */
void rope_device_advance(struct rope_device *device, const struct stg_step_rows *rows,
                         const struct stg_kv_view *kv, bool on);

/** Load a kernel, once. */
struct stg_module *rope_device_kernel(struct rope_device *device,
                                      const struct stg_rope_kernel *kernel,
                                      struct stg_launch_rule *ret_rule);

#endif

/*
 * components_device.h: kernels of the components family launched by their arguments, without an
 * engine. A case's tensors are brought to the device, between guards, and its results back.
 */
#ifndef STG_TESTS_GPU_COMPONENTS_DEVICE_H
#define STG_TESTS_GPU_COMPONENTS_DEVICE_H

#include "codegen/components_args.h"
#include "codegen/components_text.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/components_case.h"

struct components_slot;
struct components_memory;

/* The state of a group of tests; and how its launches are, which a test sets and resets. */
struct components_device {
  struct gpu *gpu;
  struct components_slot *kernels;  /* that were loaded, by text */
  struct components_memory *memory; /* of the call that is being made */
  struct components_how {
    bool aligned;    /* rows of x, y, dy, dx and the mask begin at 16 bytes in whole */
    bool misaligned; /* every address by an element */
    uint32_t tile;   /* 0: 32 */
    struct stg_components_choice choice; /* where a kernel has room for it */
    uint32_t sm;                         /* extents as of this architecture; 0: the device's */
    bool early;                          /* may begin before the launch ahead of it has ended */
  } how;
};

/* cmocka group fixtures: `*state` is a struct components_device. */
int components_device_setup(void **state);
int components_device_teardown(void **state);

/** y of the case. */
void components_device_apply(struct components_device *device, const struct components_case *c);
/** dx of the case, and dd where it has one; the other gradients are left alone. */
void components_device_turn(struct components_device *device, const struct components_case *c);

/** Those of dv, du, dm, dbias and ddelta that the case has: parts of them, which are NaN before,
 * and their sums. */
void components_device_back(struct components_device *device, const struct components_case *c);

/** Sums of parts, which the case's dv, du, dm, dbias and ddelta get; dm is that of a mask that rows
 * share. */
void components_device_sum(struct components_device *device, const struct components_case *c,
                           const float *parts);

/** Load a kernel, once. */
struct stg_module *components_device_kernel(struct components_device *device,
                                            const struct stg_components_kernel *kernel,
                                            struct stg_launch_rule *ret_rule);
/** The architecture whose extents launches have. */
uint32_t components_device_sm(const struct components_device *device);

#endif

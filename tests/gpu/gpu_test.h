/*
 * gpu_test.h: what the tests of this suite share: end with 77 where there is no device or no NVRTC,
 * a device with a stream as the group's state, kernels from text, and vectors on the device.
 */
#ifndef STG_TESTS_GPU_GPU_TEST_H
#define STG_TESTS_GPU_GPU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/compile.h"
#include "runtime/launch.h"

#define EXIT_SKIPPED 77

/* The state of a group of tests. */
struct gpu {
  struct stg_device *device;
  stg_stream_handle stream;
};

/** For main: 0 to go on, or the exit status after one line that says why. With STG_TEST_CASE the
 * group runs the cases alone whose names are like it, where * is anything. */
int skip_without_gpu(void);

/* cmocka group fixtures: `*state` is a struct gpu. */
int gpu_setup(void **state);
int gpu_teardown(void **state);

/** Fail the test with the error's message unless `status` is STG_OK. */
void check_ok(stg_status status, const stg_error *error);

/** A request for kernel `name` of `source` on this device's architecture. */
struct stg_kernel_request gpu_request(const struct gpu *gpu, const char *name, const char *source);
/** Compile and load it. */
struct stg_module *load_kernel(const struct gpu *gpu, const char *name, const char *source);

/** `n` floats on the device, all `value`; freed with stg_device_free. */
uint64_t new_floats(const struct gpu *gpu, size_t n, float value);
/** Wait for the stream, and fail unless each of the `n` floats is `expected`. */
void assert_floats(const struct gpu *gpu, uint64_t address, size_t n, float expected);

/* x[i] += value and x[i] *= value, for i < n; 128 threads a block. */
extern const char *const add_source;
extern const char *const scale_source;
#define TEST_THREADS 128

/* The arguments of both, as a launch wants them. */
struct vector_args {
  uint64_t address;
  float value;
  unsigned n;
  void *pointers[3];
};
void set_vector_args(struct vector_args *args, uint64_t address, float value, unsigned n);
struct stg_launch_dims vector_dims(unsigned n);

/** Write to an address that nobody has: the device is lost, and the process of little use. */
void lose_device(const struct gpu *gpu);
/** Whether compute-sanitizer runs this process. */
bool under_compute_sanitizer(void);

#endif

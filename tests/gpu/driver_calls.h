/*
 * driver_calls.h: calls of libcuda that only tests make, taken from the library that is loaded. No
 * CUDA header is needed for them.
 */
#ifndef STG_TESTS_GPU_DRIVER_CALLS_H
#define STG_TESTS_GPU_DRIVER_CALLS_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/** Put the address of `name` into `*ret_function`; the driver must have been used before. */
static inline void driver_call(const char *name, void *ret_function, size_t size) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(library);
  void *address = dlsym(library, name);
  assert_non_null(address);
  assert_int_equal(sizeof address, size);
  memcpy(ret_function, &address, size);
  dlclose(library); /* its one count more */
}

/** Reset the primary context of a device, as cudaDeviceReset of a host does. */
static inline void driver_reset_context(int ordinal) {
  int (*reset)(int device) = NULL;
  driver_call("cuDevicePrimaryCtxReset_v2", &reset, sizeof reset);
  assert_int_equal(0, reset(ordinal));
}

/** Bytes of the device that nobody has. A context must be current. */
static inline size_t driver_free_bytes(void) {
  int (*get_info)(size_t * ret_free, size_t * ret_total) = NULL;
  size_t free_bytes = 0, total_bytes = 0;
  driver_call("cuMemGetInfo_v2", &get_info, sizeof get_info);
  assert_int_equal(0, get_info(&free_bytes, &total_bytes));
  return free_bytes;
}

/** Threads' current context, as an address; NULL: none. */
static inline void *driver_current_context(void) {
  int (*get_current)(void **ret_context) = NULL;
  void *context = NULL;
  driver_call("cuCtxGetCurrent", &get_current, sizeof get_current);
  assert_int_equal(0, get_current(&context));
  return context;
}

#endif

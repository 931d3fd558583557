/*
 * host_device_loads.c: modules of a device of the host, for tests that take the caches and the
 * compiler from the library: a cubin is held for a kernel and not looked at. Any thread.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/steer.h"
#include "runtime/launch.h"
#include "tests/support/host_device.h"

/* many calls here have nothing to do */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct stg_module {
  const char *kernel;
};

static atomic_size_t live;

size_t host_device_modules(void) {
  return atomic_load(&live);
}

stg_status stg_module_load(struct stg_device *device, const void *cubin, const char *kernel,
                           struct stg_module **ret_module, stg_error *reterr) {
  struct stg_module *module = calloc(1, sizeof *module);
  if (module == NULL) {
    return stg_error_set(reterr, STG_E_NO_MEMORY, "a module");
  }
  module->kernel = kernel;
  atomic_fetch_add(&live, 1);
  *ret_module = module;
  return STG_OK;
}

void stg_module_unload(struct stg_device *device, struct stg_module *module) {
  atomic_fetch_sub(&live, 1);
  free(module);
}

/* The compiler is a real one, which a test says nothing to. */

void host_device_set_compiler(const struct host_compiler *now) {
}

size_t host_device_compiles(void) {
  return 0;
}

size_t host_device_compiles_here(void) {
  return 0;
}

void host_device_wait_for_compiles(size_t running) {
}

void host_device_note_launch(const struct stg_module *module) {
}

struct host_device_launch host_device_launch_of(const struct stg_module *module,
                                                const struct stg_launch_dims *dims,
                                                const void *args) {
  struct host_device_launch launch = {.signature = "steer"};
  memcpy(launch.args, args, sizeof(struct stg_steer_args));
  return launch;
}

const char *host_device_launched(void) {
  return "";
}

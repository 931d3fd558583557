/*
 * host_device_kernels.c: module_cache.h and compile.h on a device of the host: kernels without
 * code, that a test has in a cache or lets be compiled. Any thread.
 */
#include "tests/support/host_device.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/steer.h"
#include "runtime/module_cache.h"

/* many calls here have nothing to do */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct stg_device dev;

struct stg_module {
  struct stg_module *next;
  struct stg_key key;
  size_t refs;
  char signature[HOST_DEVICE_SIGNATURE_CHARS];
};

#define MAX_COMPILES 256

/* All that is here, under one lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct stg_module *modules;
static struct host_compiler compiler;
static size_t n_compiles, n_running;
static pthread_t compiled_on[MAX_COMPILES];
static char launched[HOST_DEVICE_SIGNATURE_CHARS];

void host_device_set_compiler(const struct host_compiler *now) {
  pthread_mutex_lock(&lock);
  compiler = *now;
  if (now->missing == NULL) {
    n_compiles = 0;
  }
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

size_t host_device_compiles(void) {
  pthread_mutex_lock(&lock);
  const size_t count = n_compiles;
  pthread_mutex_unlock(&lock);
  return count;
}

size_t host_device_compiles_here(void) {
  size_t count = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < n_compiles && i < MAX_COMPILES; i++) {
    count += pthread_equal(compiled_on[i], pthread_self()) != 0 ? 1 : 0;
  }
  pthread_mutex_unlock(&lock);
  return count;
}

void host_device_wait_for_compiles(size_t running) {
  pthread_mutex_lock(&lock);
  while (n_running < running) {
    pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
}

void host_device_note_launch(const struct stg_module *module) {
  memcpy(launched, module->signature, sizeof launched);
}

struct host_device_launch host_device_launch_of(const struct stg_module *module,
                                                const struct stg_launch_dims *dims,
                                                const void *args) {
  struct host_device_launch launch = {.signature = "",
                                      .grid = dims->grid_x,
                                      .threads = dims->block_x,
                                      .shared_bytes = dims->shared_bytes};
  const size_t others = host_device_attn_bytes(module->signature) +
                        host_device_prover_bytes(module->signature) +
                        host_device_components_bytes(module->signature);
  memcpy(launch.signature, module->signature, sizeof launch.signature);
  memcpy(launch.args, args, others > 0 ? others : sizeof(struct stg_steer_args));
  return launch;
}

const char *host_device_launched(void) {
  return launched;
}

/* Of all engines; the library asks one that there is for its counters alone. */
static struct stg_module_cache { char unused; } cache_of_all;

stg_status stg_module_cache_create(dev *device, struct stg_disk_cache *disk,
                                   const struct stg_log *log, struct stg_module_cache **ret_cache,
                                   stg_error *reterr) {
  *ret_cache = &cache_of_all;
  return STG_OK;
}

void stg_module_cache_destroy(struct stg_module_cache *cache) {
  assert(cache == NULL || modules == NULL);
}

static struct stg_module *find(struct stg_key key) {
  struct stg_module *module = modules;
  while (module != NULL && !stg_key_equal(module->key, key)) {
    module = module->next;
  }
  return module;
}

static bool has(const char *signature, const char *part) {
  return part != NULL && strstr(signature, part) != NULL;
}

/* Under the lock, but not while it waits. */
static stg_status compile(const struct stg_kernel_request *request, stg_error *reterr) {
  const struct timespec pause = {.tv_nsec = 500000};
  compiled_on[n_compiles++ % MAX_COMPILES] = pthread_self();
  n_running++;
  pthread_cond_broadcast(&changed);
  while (has(request->signature, compiler.held) && !atomic_load(request->cancel)) {
    pthread_mutex_unlock(&lock);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&lock);
  }
  n_running--;
  if (atomic_load(request->cancel)) {
    return stg_error_set(reterr, STG_E_CANCELLED, "given up");
  }
  return !has(request->signature, compiler.refused)
             ? STG_OK
             : stg_error_set(reterr, STG_E_COMPILE, "NVRTC refuses it: a test said so");
}

static struct stg_module *add(struct stg_key key, const char *signature) {
  struct stg_module *module = calloc(1, sizeof *module);
  assert(module != NULL && strlen(signature) < sizeof module->signature);
  module->next = modules;
  module->key = key;
  memcpy(module->signature, signature, strlen(signature) + 1);
  modules = module;
  return module;
}

/* Who asks has the key by then, and it is that of what is asked for. */
static struct stg_key checked_key(const struct stg_kernel_request *request) {
  struct stg_kernel_request anew = *request;
  struct stg_key key = {0};
  anew.key = NULL;
  const stg_status status = stg_kernel_request_key(&anew, &key, NULL);
  assert(status == STG_OK && request->key != NULL && stg_key_equal(key, *request->key));
  return status == STG_OK ? key : (struct stg_key){0};
}

stg_status stg_module_cache_get(struct stg_module_cache *cache,
                                const struct stg_kernel_request *request, bool may_compile,
                                struct stg_loaded_kernel *ret_kernel, stg_error *reterr) {
  struct stg_loaded_kernel kernel = {.origin = STG_FROM_MEMORY, .key = checked_key(request)};
  stg_status status = STG_OK;
  pthread_mutex_lock(&lock);
  struct stg_module *module = find(kernel.key);
  if (module == NULL && has(request->signature, compiler.missing)) {
    kernel.origin = STG_FROM_COMPILER;
    status = may_compile ? compile(request, reterr)
                         : stg_error_set(reterr, STG_E_NOT_WARM, "kernel '%s' is in no cache",
                                         request->signature);
    module = find(kernel.key);
  }
  if (status == STG_OK) {
    module = module != NULL ? module : add(kernel.key, request->signature);
    module->refs++;
    kernel.module = module;
    *ret_kernel = kernel;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

stg_status stg_module_cache_find(struct stg_module_cache *cache,
                                 const struct stg_kernel_request *request,
                                 struct stg_loaded_kernel *ret_kernel, stg_error *reterr) {
  return stg_module_cache_get(cache, request, false, ret_kernel, reterr);
}

void stg_module_cache_unref(struct stg_module_cache *cache, struct stg_key key) {
  pthread_mutex_lock(&lock);
  struct stg_module **link = &modules;
  while (!stg_key_equal((*link)->key, key)) {
    link = &(*link)->next;
  }
  struct stg_module *module = *link;
  if (--module->refs == 0) {
    *link = module->next;
    free(module);
  }
  pthread_mutex_unlock(&lock);
}

void stg_module_cache_counters(const struct stg_module_cache *cache,
                               struct stg_module_counters *ret) {
  *ret = (struct stg_module_counters){.compiles = host_device_compiles()};
}

/* what is not there */

#define FAILS(function, ...)                                                                       \
  stg_status function(__VA_ARGS__, stg_error *reterr) {                                            \
    return stg_error_set(reterr, STG_E_NO_DEVICE, #function ": not on a device of the host");      \
  }
FAILS(stg_module_load, dev *device, const void *cubin, const char *kernel,
      struct stg_module **ret_module)
FAILS(stg_nvrtc_info, struct stg_nvrtc_info *ret_info)
FAILS(stg_nvrtc_archs, int *ret, size_t capacity, size_t *ret_count)
FAILS(stg_compile, const struct stg_kernel_request *request, const struct stg_log *log,
      struct stg_kernel_image *ret_image)
FAILS(stg_module_build, struct stg_disk_cache *disk, const struct stg_kernel_request *request,
      const struct stg_log *log, bool *ret_compiled, double *ret_compile_ms)

void stg_module_unload(dev *device, struct stg_module *module) {
}

bool stg_nvrtc_is_loaded(void) {
  return false;
}

bool stg_nvrtc_known_compiler(char ret[STG_COMPILER_CHARS]) {
  return false;
}

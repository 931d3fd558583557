/*
 * module_cache.c: request -> loaded module: memory, then disk, then NVRTC.
 *
 * The single flight is flight.c, the bytes are disk_cache.c, the text is compile.c; this file only
 * joins them. Whatever is wrong with the disk costs a compile, never a failure.
 */
#include "runtime/module_cache.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/clock.h"
#include "runtime/disk_lock.h"
#include "runtime/flight.h"

/* What a flight lands with. */
struct loaded {
  struct stg_module *module;
  struct stg_cubin_info info;
};

struct stg_module_cache {
  struct stg_device *device;
  struct stg_disk_cache *disk;
  struct stg_log log;
  struct stg_flight_table *flights;
  atomic_uint_least64_t memory_hits, disk_hits, compiles, compile_ns, load_ns;
  atomic_uint_least64_t live, code_bytes;
};

stg_status stg_module_cache_create(struct stg_device *device, struct stg_disk_cache *disk,
                                   const struct stg_log *log, struct stg_module_cache **ret_cache,
                                   stg_error *reterr) {
  struct stg_module_cache *cache = stg_calloc(1, sizeof *cache);
  if (cache == NULL) {
    return stg_error_memory(reterr, "a module cache", sizeof *cache);
  }
  stg_status status = stg_flight_create(&cache->flights, reterr);
  if (status != STG_OK) {
    stg_free(cache);
    return status;
  }
  cache->device = device;
  cache->disk = disk;
  if (log != NULL) {
    cache->log = *log;
  }
  *ret_cache = cache;
  return STG_OK;
}

void stg_module_cache_destroy(struct stg_module_cache *cache) {
  if (cache == NULL) {
    return;
  }
  stg_disk_cache_note(cache->disk,
                      &(struct stg_disk_work){.memory_hits = atomic_load(&cache->memory_hits)});
  stg_flight_destroy(cache->flights);
  stg_free(cache);
}

/* What a request ends with: an entry that was on disk, or else an image of our own. */
struct made {
  bool found;
  struct stg_disk_hit hit;
  struct stg_kernel_image image;
  stg_error store_error; /* why the image is not on disk; code STG_OK when it is */
};

static void made_finish(struct made *made) {
  stg_disk_hit_finish(&made->hit);
  stg_kernel_image_finish(&made->image);
}

/* stg_disk_cache_find, stg_disk_cache_find_early or stg_disk_cache_find_again. */
typedef stg_status (*find_fn)(struct stg_disk_cache *disk, const struct stg_kernel_request *request,
                              const char *preferred_compiler, struct stg_disk_hit *ret_hit,
                              stg_error *reterr);

/*
 * Find the request's entry, of the NVRTC that is loaded if there is one. A disk that does not
 * answer is a miss: `made->found` false, one warning.
 */
static stg_status find_entry(struct stg_disk_cache *disk, find_fn find,
                             const struct stg_kernel_request *request, const struct stg_log *log,
                             struct made *made, stg_error *reterr) {
  char compiler[STG_COMPILER_CHARS];
  stg_error error = STG_ERROR_INIT;
  const char *preferred = stg_nvrtc_known_compiler(compiler) ? compiler : NULL;
  stg_status status = find(disk, request, preferred, &made->hit, &error);
  if (status == STG_E_NO_MEMORY) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  if (status != STG_OK && status != STG_E_NOT_FOUND) {
    stg_log_printf(log, STG_LOG_WARN, "the disk cache is passed over for kernel '%s': %s",
                   request->name, error.message);
  }
  made->found = status == STG_OK;
  return STG_OK;
}

static stg_status compile_and_store(struct stg_disk_cache *disk,
                                    const struct stg_kernel_request *request,
                                    const struct stg_log *log, struct made *made,
                                    stg_error *reterr) {
  stg_status status = stg_compile(request, log, &made->image, reterr);
  if (status == STG_OK) {
    made->store_error = (stg_error)STG_ERROR_INIT;
    stg_disk_cache_note(
        disk, &(struct stg_disk_work){.compiles = 1,
                                      .compile_us = (uint64_t)(made->image.compile_ms * 1e3)});
    (void)stg_disk_cache_store(disk, request, &made->image, &made->store_error);
  }
  return status;
}

/*
 * After a miss: compile and store, as the one process that does, or find what another one stored
 * while this one waited for it. Without a lock, or beyond its limit, every process compiles.
 */
static stg_status compile_once(struct stg_disk_cache *disk,
                               const struct stg_kernel_request *request, const struct stg_log *log,
                               struct made *made, stg_error *reterr) {
  struct stg_disk_lock lock = {0};
  struct stg_key key = {0};
  stg_status status = stg_kernel_request_key(request, &key, reterr);
  if (status == STG_OK && stg_disk_lock_take(disk, key, request->cancel, &lock)) {
    status = find_entry(disk, stg_disk_cache_find_again, request, log, made, reterr);
  }
  if (status == STG_OK && !made->found) {
    status = compile_and_store(disk, request, log, made, reterr);
  }
  stg_disk_lock_give(&lock);
  return status;
}

/* Load, timed. An entry's cubin lies anywhere in its file, and the driver reads it as an ELF. */
static stg_status load_module(struct stg_module_cache *cache, const void *cubin, size_t size,
                              const char *name, struct stg_loaded_kernel *kernel,
                              stg_error *reterr) {
  void *aligned = NULL;
  uint64_t start_ns = stg_clock_ns();
  if ((uintptr_t)cubin % sizeof(uint64_t) != 0) {
    aligned = stg_malloc_aligned(size);
    if (aligned == NULL) {
      return stg_error_memory(reterr, "a cubin", size);
    }
    memcpy(aligned, cubin, size);
  }
  stg_status status = stg_module_load(cache->device, aligned != NULL ? aligned : cubin, name,
                                      &kernel->module, reterr);
  stg_free(aligned);
  if (status == STG_OK) {
    uint64_t load_ns = stg_clock_ns() - start_ns;
    atomic_fetch_add(&cache->load_ns, load_ns);
    kernel->load_us = (double)load_ns * 1e-3;
    stg_disk_cache_note(cache->disk, &(struct stg_disk_work){.load_us = load_ns / 1000});
  }
  return status;
}

/* Load what was found on disk. An entry that the driver refuses is set aside: `made->found` false,
 * as if it had not been there. */
static stg_status load_entry(struct stg_module_cache *cache,
                             const struct stg_kernel_request *request, struct made *made,
                             struct stg_loaded_kernel *kernel, stg_error *reterr) {
  const struct stg_entry *entry = &made->hit.entry;
  stg_error error = STG_ERROR_INIT;
  stg_status status =
      load_module(cache, entry->cubin, entry->cubin_size, request->name, kernel, &error);
  if (status == STG_OK) {
    kernel->origin = STG_FROM_DISK;
    kernel->info = entry->meta.cubin;
    atomic_fetch_add(&cache->disk_hits, 1);
    return STG_OK;
  }
  if (status != STG_E_CORRUPT) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  stg_disk_cache_reject(cache->disk, &made->hit, error.message);
  stg_disk_hit_finish(&made->hit);
  made->found = false;
  return STG_OK;
}

static stg_status load_image(struct stg_module_cache *cache,
                             const struct stg_kernel_request *request,
                             const struct stg_kernel_image *image, struct stg_loaded_kernel *kernel,
                             stg_error *reterr) {
  stg_status status =
      stg_cubin_read(image->cubin, image->cubin_size, request->name, &kernel->info, reterr);
  if (status == STG_OK) {
    status = load_module(cache, image->cubin, image->cubin_size, request->name, kernel, reterr);
  }
  if (status == STG_OK) {
    kernel->origin = STG_FROM_COMPILER;
    kernel->compile_ms = image->compile_ms;
    atomic_fetch_add(&cache->compiles, 1);
    atomic_fetch_add(&cache->compile_ns, (uint64_t)(image->compile_ms * 1e6));
  }
  return status;
}

/* No lock is held while the driver loads, which may wait for the device. */
static stg_status make_from_source(struct stg_module_cache *cache,
                                   const struct stg_kernel_request *request, struct made *made,
                                   struct stg_loaded_kernel *kernel, stg_error *reterr) {
  stg_status status = compile_once(cache->disk, request, &cache->log, made, reterr);
  if (status == STG_OK && made->found) {
    status = load_entry(cache, request, made, kernel, reterr);
    if (status != STG_OK || made->found) {
      return status;
    }
    status = compile_and_store(cache->disk, request, &cache->log, made, reterr);
  }
  /* a failure to store was logged, and costs the next process a compile */
  return status == STG_OK ? load_image(cache, request, &made->image, kernel, reterr) : status;
}

static stg_status not_warm(const struct stg_kernel_request *request, const char *why,
                           stg_error *reterr) {
  return stg_error_set(reterr, STG_E_NOT_WARM,
                       "kernel '%s' %s, and compiling is not allowed here: warm or build it first",
                       request->signature, why);
}

static stg_status make_kernel(struct stg_module_cache *cache,
                              const struct stg_kernel_request *request, find_fn find,
                              bool may_compile, struct stg_loaded_kernel *kernel,
                              stg_error *reterr) {
  struct made made = {0};
  stg_status status = find_entry(cache->disk, find, request, &cache->log, &made, reterr);
  if (status == STG_OK && made.found) {
    status = load_entry(cache, request, &made, kernel, reterr);
  }
  if (status == STG_OK && !made.found) {
    if (may_compile) {
      stg_flight_slow(cache->flights, kernel->key);
      status = make_from_source(cache, request, &made, kernel, reterr);
    } else {
      status = not_warm(request, "is in no cache", reterr);
    }
  }
  made_finish(&made);
  return status;
}

/* Make it as the one thread that does, and land, whatever comes of it. */
static stg_status fly(struct stg_module_cache *cache, const struct stg_kernel_request *request,
                      find_fn find, bool may_compile, struct stg_loaded_kernel *kernel,
                      stg_error *reterr) {
  stg_error error = STG_ERROR_INIT;
  struct loaded *loaded = stg_calloc(1, sizeof *loaded);
  stg_status status = loaded != NULL
                          ? make_kernel(cache, request, find, may_compile, kernel, &error)
                          : stg_error_memory(&error, "a kernel", sizeof *loaded);
  if (loaded == NULL || status != STG_OK) {
    stg_free(loaded);
    stg_flight_land(cache->flights, kernel->key, status, NULL, &error);
    return stg_error_set(reterr, status, "%s", error.message);
  }
  loaded->module = kernel->module;
  loaded->info = kernel->info;
  atomic_fetch_add(&cache->live, 1);
  atomic_fetch_add(&cache->code_bytes, loaded->info.code_bytes);
  stg_flight_land(cache->flights, kernel->key, STG_OK, loaded, NULL);
  return STG_OK;
}

static stg_status get(struct stg_module_cache *cache, const struct stg_kernel_request *request,
                      find_fn find, bool may_compile, struct stg_loaded_kernel *ret_kernel,
                      stg_error *reterr) {
  struct stg_loaded_kernel kernel = {.origin = STG_FROM_MEMORY};
  enum stg_flight_role role = STG_FLIGHT_HAVE;
  void *value = NULL;
  stg_status status = stg_kernel_request_key(request, &kernel.key, reterr);
  if (status == STG_OK) {
    status = stg_flight_join(cache->flights, kernel.key, may_compile, &role, &value, reterr);
  }
  if (status == STG_OK && role == STG_FLIGHT_SLOW) {
    status = not_warm(request, "is still being compiled", reterr);
  }
  if (status == STG_OK && role == STG_FLIGHT_MAKE) {
    status = fly(cache, request, find, may_compile, &kernel, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  if (role == STG_FLIGHT_HAVE) {
    const struct loaded *loaded = value;
    kernel.module = loaded->module;
    kernel.info = loaded->info;
    atomic_fetch_add(&cache->memory_hits, 1);
  }
  *ret_kernel = kernel;
  return STG_OK;
}

stg_status stg_module_cache_get(struct stg_module_cache *cache,
                                const struct stg_kernel_request *request, bool may_compile,
                                struct stg_loaded_kernel *ret_kernel, stg_error *reterr) {
  return get(cache, request, stg_disk_cache_find, may_compile, ret_kernel, reterr);
}

stg_status stg_module_cache_find(struct stg_module_cache *cache,
                                 const struct stg_kernel_request *request,
                                 struct stg_loaded_kernel *ret_kernel, stg_error *reterr) {
  return get(cache, request, stg_disk_cache_find_early, false, ret_kernel, reterr);
}

void stg_module_cache_unref(struct stg_module_cache *cache, struct stg_key key) {
  struct loaded *last = stg_flight_drop(cache->flights, key);
  if (last != NULL) {
    atomic_fetch_sub(&cache->live, 1);
    atomic_fetch_sub(&cache->code_bytes, last->info.code_bytes);
    stg_module_unload(cache->device, last->module);
    stg_free(last);
  }
}

void stg_module_cache_counters(const struct stg_module_cache *cache,
                               struct stg_module_counters *ret) {
  *ret = (struct stg_module_counters){
      .memory_hits = atomic_load(&cache->memory_hits),
      .disk_hits = atomic_load(&cache->disk_hits),
      .compiles = atomic_load(&cache->compiles),
      .live = atomic_load(&cache->live),
      .code_bytes = atomic_load(&cache->code_bytes),
      .compile_ms = (double)atomic_load(&cache->compile_ns) * 1e-6,
      .load_us = (double)atomic_load(&cache->load_ns) * 1e-3,
  };
}

stg_status stg_module_build(struct stg_disk_cache *disk, const struct stg_kernel_request *request,
                            const struct stg_log *log, bool *ret_compiled, double *ret_compile_ms,
                            stg_error *reterr) {
  struct made made = {0};
  stg_status status = find_entry(disk, stg_disk_cache_find, request, log, &made, reterr);
  if (status == STG_OK && !made.found) {
    status = stg_disk_cache_probe(disk, request, reterr);
    if (status == STG_OK) {
      status = compile_once(disk, request, log, &made, reterr);
    }
  }
  if (status == STG_OK && made.store_error.code != STG_OK) {
    status = stg_error_set(reterr, made.store_error.code, "%s", made.store_error.message);
  }
  if (status == STG_OK) {
    *ret_compiled = !made.found;
    *ret_compile_ms = made.image.compile_ms;
  }
  made_finish(&made);
  return status;
}

stg_status stg_module_entry(struct stg_disk_cache *disk, const struct stg_kernel_request *request,
                            const struct stg_log *log, struct stg_strbuf *ret_bytes,
                            bool *ret_compiled, double *ret_compile_ms, stg_error *reterr) {
  struct made made = {0};
  stg_status status = find_entry(disk, stg_disk_cache_find, request, log, &made, reterr);
  if (status == STG_OK && !made.found) {
    status = compile_once(disk, request, log, &made, reterr);
  }
  if (status == STG_OK && made.found) {
    stg_strbuf_mem(ret_bytes, made.hit.bytes, made.hit.size);
    status = stg_strbuf_status(ret_bytes, reterr);
  } else if (status == STG_OK) {
    status = stg_entry_encode(request, &made.image, ret_bytes, reterr);
  }
  if (status == STG_OK) {
    *ret_compiled = !made.found;
    *ret_compile_ms = made.image.compile_ms;
  }
  made_finish(&made);
  return status;
}

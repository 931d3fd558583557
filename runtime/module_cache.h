/*
 * module_cache.h: from a kernel request to a loaded module, once: memory, then disk, then NVRTC.
 *
 * Single flight: threads that ask for the same key while it is being made wait for the one that
 * makes it; processes that miss one at once compile it once (disk_lock.h). Modules live until the
 * cache is destroyed or their last reference is dropped.
 */
#ifndef STG_RUNTIME_MODULE_CACHE_H
#define STG_RUNTIME_MODULE_CACHE_H

#include "runtime/compile.h"
#include "runtime/disk_cache.h"
#include "runtime/launch.h"

struct stg_module_cache;

enum stg_module_origin { STG_FROM_MEMORY, STG_FROM_DISK, STG_FROM_COMPILER };

/* A loaded kernel with a reference held. */
struct stg_loaded_kernel {
  struct stg_module *module;
  struct stg_key key;
  enum stg_module_origin origin; /* of this call */
  double compile_ms;             /* 0 unless origin is the compiler */
  double load_us;                /* 0 when from memory */
  struct stg_cubin_info info;
};

struct stg_module_counters {
  uint64_t memory_hits, disk_hits, compiles;
  uint64_t live, code_bytes;  /* kernels loaded now, and their code on the device */
  double compile_ms, load_us; /* sums */
};

/** `device` and `disk` are borrowed and must outlive the cache. */
STG_NODISCARD stg_status stg_module_cache_create(struct stg_device *device,
                                                 struct stg_disk_cache *disk,
                                                 const struct stg_log *log,
                                                 struct stg_module_cache **ret_cache,
                                                 stg_error *reterr);
/** All references must have been dropped. */
void stg_module_cache_destroy(struct stg_module_cache *cache);

/**
 * Get the kernel, with a reference. With `key` in the request a kernel that is loaded costs no hash
 * of its text. `may_compile` false: a miss is STG_E_NOT_WARM naming the signature. A disk entry
 * whose cubin the driver refuses is quarantined and compiled again.
 */
STG_NODISCARD stg_status stg_module_cache_get(struct stg_module_cache *cache,
                                              const struct stg_kernel_request *request,
                                              bool may_compile,
                                              struct stg_loaded_kernel *ret_kernel,
                                              stg_error *reterr);
/**
 * The same with `may_compile` false, for who then asks with it true for what is not there: a miss
 * is counted by that call alone.
 */
STG_NODISCARD stg_status stg_module_cache_find(struct stg_module_cache *cache,
                                               const struct stg_kernel_request *request,
                                               struct stg_loaded_kernel *ret_kernel,
                                               stg_error *reterr);
void stg_module_cache_unref(struct stg_module_cache *cache, struct stg_key key);
void stg_module_cache_counters(const struct stg_module_cache *cache,
                               struct stg_module_counters *ret);

/**
 * The same without a device: make sure that `disk` holds the request's entry, compiling if needed.
 * Whether it can be stored is found out before it is compiled. `*ret_compiled` says whether it was.
 */
STG_NODISCARD stg_status stg_module_build(struct stg_disk_cache *disk,
                                          const struct stg_kernel_request *request,
                                          const struct stg_log *log, bool *ret_compiled,
                                          double *ret_compile_ms, stg_error *reterr);
/**
 * Append the bytes of the request's .sgc file, from `disk` or else compiled. What is compiled is
 * stored as well, where the disk stores anything; that it cannot be is logged and no failure.
 */
STG_NODISCARD stg_status stg_module_entry(struct stg_disk_cache *disk,
                                          const struct stg_kernel_request *request,
                                          const struct stg_log *log, struct stg_strbuf *ret_bytes,
                                          bool *ret_compiled, double *ret_compile_ms,
                                          stg_error *reterr);

#endif

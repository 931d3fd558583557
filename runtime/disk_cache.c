/*
 * disk_cache.c: open the layers of a cache, store an entry, set a bad one aside.
 *
 * Nothing that the disk does is an error for who asked for a kernel: it costs a compile. Finding is
 * disk_find.c, folders and names are disk_layer.c, bytes are entry.c. Must not know what a kernel
 * is for.
 */
#include "runtime/disk_cache_private.h"

#include <string.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"

#define MAX_CWD_BYTES 4096

static char *absolute(const char *path, size_t len) {
  char cwd[MAX_CWD_BYTES];
  struct stg_strbuf text = {0};
  if (path[0] != '/' && getcwd(cwd, sizeof cwd) != NULL) {
    stg_strbuf_printf(&text, "%s/", cwd);
  }
  stg_strbuf_mem(&text, path, len);
  char *absolute_path = stg_strbuf_take(&text);
  size_t end = absolute_path == NULL ? 0 : strlen(absolute_path);
  while (end > 1 && absolute_path[end - 1] == '/') {
    absolute_path[--end] = '\0';
  }
  return absolute_path;
}

/* Open one folder of the list. One that is not there, or cannot be looked at, stays in the list: it
 * may come to be later. */
static stg_status open_layer(struct stg_disk_cache *cache, const char *path, size_t len, bool trust,
                             stg_error *reterr) {
  struct stg_disk_layer *layer = &cache->layers[cache->n_layers];
  stg_error error = STG_ERROR_INIT;
  layer->trust = trust;
  layer->root = absolute(path, len);
  if (layer->root == NULL) {
    return stg_error_memory(reterr, "a cache folder's path", len);
  }
  cache->n_layers++;
  stg_status status = stg_disk_layer_check(layer, &error);
  if (status == STG_E_INVALID) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  if (status == STG_E_IO) {
    stg_log_printf(&cache->log, STG_LOG_WARN, "%s", error.message);
  }
  return STG_OK;
}

static stg_status open_layers(struct stg_disk_cache *cache, const char *list, bool trust,
                              stg_error *reterr) {
  size_t capacity = 1;
  for (const char *c = list; *c != '\0'; c++) {
    capacity += *c == ':';
  }
  cache->layers = stg_calloc(capacity, sizeof *cache->layers);
  if (cache->layers == NULL) {
    return stg_error_memory(reterr, "cache layers", capacity * sizeof *cache->layers);
  }
  while (*list != '\0') {
    size_t len = strcspn(list, ":");
    if (len > 0) {
      stg_status status = open_layer(cache, list, len, trust, reterr);
      if (status != STG_OK) {
        return status;
      }
    }
    list += len + (list[len] == ':');
  }
  if (cache->n_layers > 0) {
    cache->layers[cache->n_layers - 1].writable = cache->mode != STG_DISK_READ_ONLY;
  }
  return STG_OK;
}

stg_status stg_disk_cache_open_with(const struct stg_disk_options *options,
                                    const struct stg_disk_io *io, struct stg_disk_cache **ret_cache,
                                    stg_error *reterr) {
  bool off = options->mode == STG_DISK_OFF || options->path_list == NULL;
  struct stg_disk_cache *cache = stg_calloc(1, sizeof *cache);
  if (cache == NULL) {
    return stg_error_memory(reterr, "a disk cache", sizeof *cache);
  }
  cache->mode = options->mode;
  cache->log = options->log;
  cache->io = *io;
  cache->lock_wait_ms = options->lock_wait_ms;
  stg_status status = open_layers(cache, off ? "" : options->path_list, options->trust, reterr);
  if (status != STG_OK) {
    stg_disk_cache_close(cache);
    return status;
  }
  *ret_cache = cache;
  return STG_OK;
}

stg_status stg_disk_cache_open(const struct stg_disk_options *options,
                               struct stg_disk_cache **ret_cache, stg_error *reterr) {
  struct stg_disk_io io = stg_disk_io_default();
  return stg_disk_cache_open_with(options, &io, ret_cache, reterr);
}

void stg_disk_cache_close(struct stg_disk_cache *cache) {
  if (cache == NULL) {
    return;
  }
  for (size_t i = 0; i < cache->n_layers; i++) {
    stg_free(cache->layers[i].root);
  }
  stg_free(cache->layers);
  stg_free(cache);
}

void stg_disk_hit_finish(struct stg_disk_hit *hit) {
  stg_arena_finish(&hit->arena);
  stg_free(hit->bytes);
  stg_free(hit->path);
  *hit = (struct stg_disk_hit){0};
}

static const struct stg_disk_layer *layer_of(const struct stg_disk_cache *cache, const char *path) {
  for (size_t i = 0; i < cache->n_layers; i++) {
    if (stg_disk_layer_holds(&cache->layers[i], path)) {
      return &cache->layers[i];
    }
  }
  return NULL;
}

void stg_disk_set_aside(struct stg_disk_cache *cache, const char *path, const char *why) {
  const struct stg_disk_layer *layer = layer_of(cache, path);
  stg_error error = STG_ERROR_INIT;
  if (layer == NULL || !layer->writable) {
    stg_log_printf(&cache->log, STG_LOG_WARN,
                   "cache entry '%s' is bad: %s; left in its read-only folder", path, why);
    return;
  }
  if (stg_disk_layer_quarantine(layer, &cache->io, path, &error) != STG_OK) {
    stg_log_printf(&cache->log, STG_LOG_WARN, "cache entry '%s' is bad: %s; %s", path, why,
                   error.message);
    return;
  }
  atomic_fetch_add(&cache->quarantined, 1u);
  stg_log_printf(&cache->log, STG_LOG_WARN, "cache entry '%s' is bad: %s; moved to quarantine",
                 path, why);
}

void stg_disk_cache_reject(struct stg_disk_cache *cache, const struct stg_disk_hit *hit,
                           const char *why) {
  stg_disk_set_aside(cache, hit->path, why);
}

stg_status stg_disk_cache_quarantine(struct stg_disk_cache *cache, const char *path,
                                     stg_error *reterr) {
  const struct stg_disk_layer *layer = layer_of(cache, path);
  if (layer == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "'%s' is in no folder of this cache", path);
  }
  stg_status status = stg_disk_layer_quarantine(layer, &cache->io, path, reterr);
  if (status == STG_OK) {
    atomic_fetch_add(&cache->quarantined, 1u);
  }
  return status;
}

/* Say once, where everybody looks, that kernels stay in memory. */
static void log_store_failure(struct stg_disk_cache *cache, const char *why) {
  bool again = atomic_exchange(&cache->store_failed, true);
  atomic_fetch_add(&cache->store_failures, 1u);
  stg_log_printf(&cache->log, again ? STG_LOG_INFO : STG_LOG_WARN,
                 "the kernel stays in memory only: %s", why);
}

static stg_status store(struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                        const struct stg_kernel_request *request,
                        const struct stg_kernel_image *image, stg_error *reterr) {
  struct stg_strbuf bytes = {0};
  struct stg_key key = {0};
  if (!stg_disk_compiler_is_plain(image->compiler)) {
    return stg_error_set(reterr, STG_E_INVALID, "compiler '%s' cannot be part of a file name",
                         image->compiler);
  }
  stg_status status = stg_disk_layer_check(layer, reterr);
  if (status != STG_OK && status != STG_E_NOT_FOUND) {
    return status;
  }
  status = stg_kernel_request_key(request, &key, reterr);
  if (status == STG_OK) {
    status = stg_entry_encode(request, image, &bytes, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_layer_publish(layer, &cache->io, key, image->compiler, bytes.data, bytes.len,
                                    reterr);
  }
  stg_strbuf_finish(&bytes);
  return status;
}

/* The layer that is written to. */
static stg_status writable_layer(const struct stg_disk_cache *cache,
                                 const struct stg_disk_layer **ret_layer, stg_error *reterr) {
  if (cache->n_layers == 0 || !cache->layers[cache->n_layers - 1].writable) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED, "the disk cache is off or read-only");
  }
  *ret_layer = &cache->layers[cache->n_layers - 1];
  return STG_OK;
}

stg_status stg_disk_cache_probe(struct stg_disk_cache *cache,
                                const struct stg_kernel_request *request, stg_error *reterr) {
  const struct stg_disk_layer *layer = NULL;
  struct stg_key key = {0};
  stg_status status = writable_layer(cache, &layer, reterr);
  if (status == STG_OK) {
    status = stg_kernel_request_key(request, &key, reterr);
  }
  return status == STG_OK ? stg_disk_layer_probe(layer, &cache->io, key, reterr) : status;
}

stg_status stg_disk_cache_store(struct stg_disk_cache *cache,
                                const struct stg_kernel_request *request,
                                const struct stg_kernel_image *image, stg_error *reterr) {
  const struct stg_disk_layer *layer = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_status status = writable_layer(cache, &layer, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = store(cache, layer, request, image, &error);
  if (status != STG_OK) {
    log_store_failure(cache, error.message);
    return stg_error_set(reterr, status, "%s", error.message);
  }
  atomic_fetch_add(&cache->stores, 1u);
  return STG_OK;
}

void stg_disk_cache_counters(const struct stg_disk_cache *cache, struct stg_disk_counters *ret) {
  *ret = (struct stg_disk_counters){.hits = atomic_load(&cache->hits),
                                    .misses = atomic_load(&cache->misses),
                                    .stores = atomic_load(&cache->stores),
                                    .store_failures = atomic_load(&cache->store_failures),
                                    .quarantined = atomic_load(&cache->quarantined)};
}

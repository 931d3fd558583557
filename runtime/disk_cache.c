/*
 * disk_cache.c: open the layers of a cache, store an entry, set a bad one aside.
 *
 * Nothing that the disk does is an error for who asked for a kernel: it costs a compile. Finding is
 * disk_find.c, folders and names are disk_layer.c, packs disk_pack.c, bytes entry.c. Must not know
 * what a kernel is for.
 */
#include "runtime/disk_cache_private.h"

#include <string.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/pack.h"

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

/* Add a pack, which stays out of the list when it cannot be used. Takes `path`. */
static stg_status add_pack(struct stg_disk_cache *cache, const struct stg_disk_options *options,
                           char *path, stg_error *reterr) {
  struct stg_pack *pack = NULL;
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_pack_open(path, options->trust, &pack, &error);
  if (status == STG_OK) {
    cache->layers[cache->n_layers++] = (struct stg_disk_layer){.root = path, .pack = pack};
    return STG_OK;
  }
  stg_free(path);
  if (status == STG_E_NO_MEMORY || options->strict) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  stg_log_printf(&cache->log, STG_LOG_WARN, "%s; passed over", error.message);
  return STG_OK;
}

/* Add a folder. One that is not there, or cannot be looked at, stays in the list: it may come to be
 * later. Takes `path`. */
static stg_status add_folder(struct stg_disk_cache *cache, const struct stg_disk_options *options,
                             char *path, stg_error *reterr) {
  struct stg_disk_layer *layer = &cache->layers[cache->n_layers++];
  stg_error error = STG_ERROR_INIT;
  *layer = (struct stg_disk_layer){.root = path, .trust = options->trust};
  stg_status status = stg_disk_layer_check(layer, &error);
  if (status == STG_E_INVALID) {
    return stg_error_set(reterr, status, "%s", error.message);
  }
  if (status == STG_E_IO) {
    stg_log_printf(&cache->log, STG_LOG_WARN, "%s", error.message);
  }
  return STG_OK;
}

/* Open one element of the list, `len` bytes of it; `is_last` of those that are not empty. */
static stg_status open_element(struct stg_disk_cache *cache, const struct stg_disk_options *options,
                               const char *element, size_t len, bool is_last, stg_error *reterr) {
  char *path = absolute(element, len);
  if (path == NULL) {
    return stg_error_memory(reterr, "a cache folder's path", len);
  }
  if (!stg_pack_is_file(path)) {
    if (cache->mode == STG_DISK_PACKS) {
      stg_free(path);
      return STG_OK;
    }
    return add_folder(cache, options, path, reterr);
  }
  if (is_last && cache->mode != STG_DISK_READ_ONLY && cache->mode != STG_DISK_PACKS) {
    stg_status status = stg_error_set(reterr, STG_E_INVALID,
                                      "cache folder '%s' is not a folder, and the last of a list "
                                      "is written to; put a folder after a pack, as in PACK:FOLDER",
                                      path);
    stg_free(path);
    return status;
  }
  return add_pack(cache, options, path, reterr);
}

static stg_status open_layers(struct stg_disk_cache *cache, const struct stg_disk_options *options,
                              stg_error *reterr) {
  const char *list = options->path_list != NULL ? options->path_list : "";
  size_t capacity = 2; /* the list's last element, and the pack below all */
  stg_status status = STG_OK;
  for (const char *c = list; *c != '\0'; c++) {
    capacity += *c == ':';
  }
  cache->layers = stg_calloc(capacity, sizeof *cache->layers);
  if (cache->layers == NULL) {
    return stg_error_memory(reterr, "cache layers", capacity * sizeof *cache->layers);
  }
  if (options->pack_path != NULL) {
    char *path = absolute(options->pack_path, strlen(options->pack_path));
    status = path != NULL ? add_pack(cache, options, path, reterr)
                          : stg_error_memory(reterr, "a pack's path", strlen(options->pack_path));
  }
  while (*list != '\0' && status == STG_OK) {
    size_t len = strcspn(list, ":");
    const char *rest = list + len;
    if (len > 0) {
      status = open_element(cache, options, list, len, rest[strspn(rest, ":")] == '\0', reterr);
    }
    list = rest + (*rest == ':');
  }
  if (status == STG_OK && cache->n_layers > 0) {
    struct stg_disk_layer *last = &cache->layers[cache->n_layers - 1];
    last->writable = last->pack == NULL && cache->mode != STG_DISK_READ_ONLY;
  }
  return status;
}

stg_status stg_disk_cache_open_with(const struct stg_disk_options *options,
                                    const struct stg_disk_io *io, struct stg_disk_cache **ret_cache,
                                    stg_error *reterr) {
  struct stg_disk_cache *cache = stg_calloc(1, sizeof *cache);
  if (cache == NULL) {
    return stg_error_memory(reterr, "a disk cache", sizeof *cache);
  }
  cache->mode = options->mode;
  cache->log = options->log;
  cache->io = *io;
  cache->lock_wait_ms = options->lock_wait_ms;
  stg_disk_room_init(&cache->room, options->max_bytes, options->max_entries);
  stg_disk_stats_init(&cache->stats);
  stg_status status = options->mode == STG_DISK_OFF ? STG_OK : open_layers(cache, options, reterr);
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
  stg_disk_stats_flush(cache);
  for (size_t i = 0; i < cache->n_layers; i++) {
    stg_pack_close(cache->layers[i].pack);
    stg_free(cache->layers[i].root);
  }
  stg_free(cache->layers);
  stg_disk_room_finish(&cache->room);
  stg_disk_stats_finish(&cache->stats);
  stg_free(cache);
}

bool stg_disk_cache_is_empty(const struct stg_disk_cache *cache) {
  bool empty = true;
  for (size_t i = 0; i < cache->n_layers && empty && cache->mode != STG_DISK_REFRESH; i++) {
    empty = stg_disk_layer_is_empty(&cache->layers[i]);
  }
  return empty;
}

void stg_disk_hit_finish(struct stg_disk_hit *hit) {
  stg_arena_finish(&hit->arena);
  stg_free(hit->bytes);
  stg_free(hit->path);
  *hit = (struct stg_disk_hit){0};
}

const struct stg_disk_layer *stg_disk_layer_of(const struct stg_disk_cache *cache,
                                               const char *path) {
  const struct stg_disk_layer *found = NULL;
  for (size_t i = 0; i < cache->n_layers; i++) {
    const struct stg_disk_layer *layer = &cache->layers[i];
    if (stg_disk_layer_holds(layer, path) &&
        (found == NULL || strlen(layer->root) > strlen(found->root))) {
      found = layer;
    }
  }
  return found;
}

void stg_disk_set_aside(struct stg_disk_cache *cache, const char *path, const char *why) {
  const struct stg_disk_layer *layer = stg_disk_layer_of(cache, path);
  stg_error error = STG_ERROR_INIT;
  if (layer == NULL || !layer->writable) {
    stg_log_printf(&cache->log, STG_LOG_WARN,
                   "cache entry '%s' is bad: %s; left in its read-only %s", path, why,
                   layer != NULL && layer->pack != NULL ? "pack" : "folder");
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
  const struct stg_disk_layer *layer = stg_disk_layer_of(cache, path);
  if (layer == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "'%s' is in no folder of this cache", path);
  }
  if (layer->pack != NULL) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "'%s' is in a pack, which is never written to; make the pack again", path);
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
                        const struct stg_kernel_image *image, uint64_t *ret_bytes,
                        stg_error *reterr) {
  struct stg_strbuf bytes = {0};
  struct stg_key key = {0};
  if (!stg_compiler_is_plain(image->compiler)) {
    return stg_error_set(reterr, STG_E_INVALID, "compiler '%s' cannot be part of a file name",
                         image->compiler);
  }
  stg_status status = stg_kernel_request_key(request, &key, reterr);
  if (status == STG_OK) {
    status = stg_entry_encode(request, image, &bytes, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_layer_publish(layer, &cache->io, key, image->compiler, bytes.data, bytes.len,
                                    reterr);
  }
  *ret_bytes = bytes.len;
  stg_strbuf_finish(&bytes);
  return status;
}

stg_status stg_disk_writable_layer(const struct stg_disk_cache *cache,
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
  stg_status status = stg_disk_writable_layer(cache, &layer, reterr);
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
  stg_status status = stg_disk_writable_layer(cache, &layer, reterr);
  if (status != STG_OK) {
    return status;
  }
  uint64_t bytes = 0;
  status = store(cache, layer, request, image, &bytes, &error);
  if (status != STG_OK) {
    log_store_failure(cache, error.message);
    return stg_error_set(reterr, status, "%s", error.message);
  }
  atomic_fetch_add(&cache->stores, 1u);
  stg_disk_room_stored(cache, bytes);
  stg_disk_stats_stored(cache);
  return STG_OK;
}

void stg_disk_cache_note(struct stg_disk_cache *cache, const struct stg_disk_work *work) {
  if (cache != NULL) {
    atomic_fetch_add(&cache->memory_hits, work->memory_hits);
    atomic_fetch_add(&cache->compiles, work->compiles);
    atomic_fetch_add(&cache->compile_us, work->compile_us);
    atomic_fetch_add(&cache->load_us, work->load_us);
  }
}

void stg_disk_cache_counters(const struct stg_disk_cache *cache, struct stg_disk_counters *ret) {
  *ret = (struct stg_disk_counters){.hits = atomic_load(&cache->hits),
                                    .misses = atomic_load(&cache->misses),
                                    .stores = atomic_load(&cache->stores),
                                    .store_failures = atomic_load(&cache->store_failures),
                                    .quarantined = atomic_load(&cache->quarantined),
                                    .pack_hits = atomic_load(&cache->pack_hits),
                                    .evictions = atomic_load(&cache->evictions),
                                    .evicted_bytes = atomic_load(&cache->evicted_bytes)};
}

/*
 * disk_put.c: keep an entry that was made elsewhere, in the folder that is written to.
 *
 * What is there under its name stays, unless it is damaged: an entry that is right is as good as
 * another of its name. Must not know where the entry comes from.
 */
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/disk_cache_private.h"

/* Where the entry's file is, or would be; stg_free. */
static char *place_of(const struct stg_disk_layer *layer, const struct stg_entry *entry) {
  struct stg_strbuf path = {0};
  char *name = stg_disk_file_name(entry->key, entry->meta.compiler);
  if (name == NULL) {
    return NULL;
  }
  stg_strbuf_printf(&path, "%s/v1/%.*s/%s", layer->root, STG_DISK_SHARD_CHARS, name, name);
  stg_free(name);
  return stg_strbuf_take(&path);
}

static bool is_file(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* Whether a good entry is there. `*ret_why` (when it is damaged) is what is wrong with it. */
static stg_status look(const struct stg_disk_cache *cache, const char *path, bool *ret_there,
                       stg_error *ret_why, stg_error *reterr) {
  struct stg_disk_hit there = {0};
  stg_status status = stg_disk_cache_read(cache, path, &there, ret_why);
  *ret_there = status == STG_OK && is_file(path); /* what a link leads to is no entry */
  if (status == STG_OK) {
    stg_disk_hit_finish(&there);
  }
  return status == STG_E_NO_MEMORY ? stg_error_set(reterr, status, "%s", ret_why->message) : STG_OK;
}

static stg_status publish(struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                          const struct stg_disk_hit *hit, stg_error *reterr) {
  stg_status status = stg_disk_layer_publish(
      layer, &cache->io, hit->entry.key, hit->entry.meta.compiler, hit->bytes, hit->size, reterr);
  if (status == STG_OK) {
    atomic_fetch_add(&cache->stores, 1u);
    stg_disk_room_stored(cache, hit->size);
  }
  return status;
}

stg_status stg_disk_cache_put(struct stg_disk_cache *cache, const struct stg_disk_hit *hit,
                              bool dry_run, bool *ret_there, stg_error *reterr) {
  const struct stg_disk_layer *layer = NULL;
  stg_error why = STG_ERROR_INIT;
  bool there = false;
  if (!stg_compiler_is_plain(hit->entry.meta.compiler)) {
    return stg_error_set(reterr, STG_E_INVALID, "compiler '%s' cannot be part of a file name",
                         hit->entry.meta.compiler);
  }
  stg_status status = stg_disk_writable_layer(cache, &layer, reterr);
  if (status != STG_OK) {
    return status;
  }
  char *path = place_of(layer, &hit->entry);
  status = path != NULL ? look(cache, path, &there, &why, reterr)
                        : stg_error_memory(reterr, "a path", strlen(layer->root));
  if (status == STG_OK && !there && !dry_run) {
    if (why.code == STG_E_CORRUPT && is_file(path)) {
      stg_disk_set_aside(cache, path, why.message);
    }
    status = publish(cache, layer, hit, reterr);
  }
  stg_free(path);
  if (status == STG_OK) {
    *ret_there = there;
  }
  return status;
}

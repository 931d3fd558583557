/*
 * disk_pack.c: list and read the entries of a layer that is a pack.
 *
 * "PACK.sgp/<32 hex>-<compiler>.sgc" is no file; it names an entry in messages, in listings and
 * when it is read. Must not know how a pack is laid out.
 */
#include "runtime/disk_pack.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/pack.h"

static stg_status add_file(const struct stg_disk_layer *layer, size_t index,
                           struct stg_arena *arena, struct stg_disk_files *files,
                           stg_error *reterr) {
  const struct stg_pack_item item = stg_pack_item_at(layer->pack, index);
  char *name = stg_disk_file_name(item.key, item.compiler);
  char *path = name == NULL ? NULL : stg_path_join(layer->root, name);
  struct stg_disk_file file = {.path = path == NULL ? NULL : stg_arena_strdup(arena, path),
                               .compiler = item.compiler,
                               .layer = layer,
                               .size_bytes = item.size_bytes};
  stg_free(path);
  stg_free(name);
  if (file.path == NULL || !stg_disk_files_push(files, file)) {
    return stg_error_memory(reterr, "a list of cache entries", sizeof file);
  }
  return STG_OK;
}

stg_status stg_disk_pack_list(const struct stg_disk_layer *layer, const struct stg_key *key,
                              struct stg_arena *arena, struct stg_disk_files *files,
                              stg_error *reterr) {
  size_t first = 0;
  size_t count =
      key != NULL ? stg_pack_find(layer->pack, *key, &first) : stg_pack_count(layer->pack);
  stg_status status = STG_OK;
  for (size_t i = 0; i < count && status == STG_OK; i++) {
    status = add_file(layer, first + i, arena, files, reterr);
  }
  return status;
}

/* Whether `name` is that of the entry. */
static bool is_name_of(const char *name, const struct stg_pack_item *item) {
  size_t len = strlen(item->compiler);
  const char *compiler = name + STG_KEY_HEX_CHARS + 1;
  return name[STG_KEY_HEX_CHARS] == '-' && strncmp(compiler, item->compiler, len) == 0 &&
         strcmp(compiler + len, STG_DISK_SUFFIX) == 0;
}

stg_status stg_disk_pack_find(const struct stg_disk_layer *layer, const char *path,
                              size_t *ret_index, stg_error *reterr) {
  const char *name = path + strlen(layer->root) + 1;
  char hex[STG_KEY_HEX_CHARS + 1] = "";
  struct stg_key key = {0};
  size_t first = 0;
  strncat(hex, name, STG_KEY_HEX_CHARS);
  size_t count = stg_key_parse(hex, &key) ? stg_pack_find(layer->pack, key, &first) : 0;
  for (size_t i = first; i < first + count; i++) {
    const struct stg_pack_item item = stg_pack_item_at(layer->pack, i);
    if (is_name_of(name, &item)) {
      *ret_index = i;
      return STG_OK;
    }
  }
  return stg_error_set(reterr, STG_E_NOT_FOUND, "'%s' is not in its pack", path);
}

stg_status stg_disk_pack_read(const struct stg_disk_layer *layer, const char *path,
                              char **ret_bytes, size_t *ret_size, stg_error *reterr) {
  size_t index = 0;
  stg_status status = stg_disk_pack_find(layer, path, &index, reterr);
  return status == STG_OK ? stg_pack_read(layer->pack, index, ret_bytes, ret_size, reterr) : status;
}

/*
 * kernels_there.c: see kernels_there.h. A guess at what is worth a trial beforehand: the engine has
 * the last word on each entry, so what cannot be read here is no error.
 */
#include "tools/kernels_there.h"

#include <steergraph/engine.h>

#include "engine/offline.h"
#include "runtime/base/error.h"
#include "tools/cache_folder.h"

/* STEERGRAPH_CACHE may keep engines from what a folder has. */
static bool is_read(void) {
  stg_options options;
  return stg_options_for_command(&options, NULL) == STG_OK &&
         (options.cache_mode == STG_CACHE_DEFAULT || options.cache_mode == STG_CACHE_READ_ONLY);
}

stg_cache *stg_kernels_there_open(const char *given) {
  const char *path = NULL;
  stg_cache *cache = NULL;
  if (!is_read() || stg_cache_folder_find(given, &path, NULL) != STG_OK || path[0] == '\0' ||
      stg_cache_open_as_engine(path, NULL, true, &cache, NULL) != STG_OK) {
    return NULL;
  }
  return cache;
}

bool stg_kernels_there_has(stg_cache *cache, const char *kernel_key) {
  stg_cache_entry entry;
  return cache != NULL && stg_cache_find(cache, kernel_key, &entry, NULL) == STG_OK && entry.ok;
}

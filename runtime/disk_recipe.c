/*
 * disk_recipe.c: put a graph's recipe into the folder that is written to; walk and read them.
 *
 * Must not know how a recipe is laid out, nor who makes graphs.
 */
#include "runtime/disk_recipe.h"

#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/disk_cache_private.h"

/* Read a file; `*ret_mtime_unix` is its stamp. */
static stg_status read_recipe(const char *path, struct stg_arena *arena,
                              struct stg_recipe *ret_recipe, int64_t *ret_mtime_unix,
                              stg_error *reterr) {
  struct stg_recipe recipe = {0};
  struct stg_key graph = {0};
  struct stg_key kernel = {0};
  char *bytes = NULL;
  size_t size = 0;
  stg_status status =
      stg_file_read_stamped(path, STG_RECIPE_MAX_BYTES, &bytes, &size, ret_mtime_unix, reterr);
  if (status == STG_E_INVALID) {
    return stg_error_set(reterr, STG_E_CORRUPT, "over %llu bytes",
                         (unsigned long long)STG_RECIPE_MAX_BYTES);
  }
  if (status != STG_OK) {
    return status;
  }
  status = stg_recipe_decode(bytes, size, arena, &recipe, reterr);
  stg_free(bytes);
  if (status == STG_OK &&
      !(stg_disk_is_recipe_name(stg_path_name(path), &graph, &kernel) &&
        stg_key_equal(graph, recipe.key) && stg_key_equal(kernel, recipe.nodes[0].key))) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "its name is not that of its keys");
  }
  if (status == STG_OK) {
    *ret_recipe = recipe;
  }
  return status;
}

stg_status stg_disk_recipe_read(const char *path, struct stg_arena *arena,
                                struct stg_recipe *ret_recipe, stg_error *reterr) {
  int64_t mtime_unix = 0;
  return read_recipe(path, arena, ret_recipe, &mtime_unix, reterr);
}

bool stg_disk_recipes_are_kept(const struct stg_disk_cache *cache) {
  const struct stg_disk_layer *layer = NULL;
  return stg_disk_writable_layer(cache, &layer, NULL) == STG_OK;
}

/* Whether a good one is there, which is in use from now on; a bad one is out of the way then. */
static bool is_there(struct stg_disk_cache *cache, const char *path) {
  struct stg_arena arena = {0};
  struct stg_recipe recipe;
  stg_error error = STG_ERROR_INIT;
  int64_t mtime_unix = 0;
  stg_status status = read_recipe(path, &arena, &recipe, &mtime_unix, &error);
  stg_arena_finish(&arena);
  if (status == STG_OK) {
    stg_disk_stamp(cache, path, mtime_unix);
  }
  if (status == STG_E_CORRUPT) {
    stg_disk_set_aside(cache, path, error.message);
  }
  /* another version's is left to it, or two versions would take turns */
  return status == STG_OK || status == STG_E_UNSUPPORTED;
}

static stg_status put(struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                      const struct stg_recipe *recipe, const char *name, stg_error *reterr) {
  struct stg_strbuf bytes = {0};
  stg_status status = stg_recipe_encode(recipe, &bytes, reterr);
  if (status == STG_OK) {
    status = stg_disk_layer_publish_recipe(layer, &cache->io, name, bytes.data, bytes.len, reterr);
  }
  if (status == STG_OK) {
    stg_disk_room_stored(cache, bytes.len);
  }
  stg_strbuf_finish(&bytes);
  return status;
}

stg_status stg_disk_recipe_put(struct stg_disk_cache *cache, const struct stg_recipe *recipe,
                               stg_error *reterr) {
  const struct stg_disk_layer *layer = NULL;
  struct stg_strbuf path = {0};
  stg_error error = STG_ERROR_INIT;
  stg_status status = stg_disk_writable_layer(cache, &layer, reterr);
  if (status != STG_OK) {
    return status;
  }
  char *name = stg_disk_recipe_name(stg_recipe_key(recipe), recipe->nodes[0].key);
  stg_strbuf_printf(&path, "%s/v1/" STG_DISK_GRAPHS "/%s", layer->root, name != NULL ? name : "");
  status = name != NULL ? stg_strbuf_status(&path, &error)
                        : stg_error_memory(&error, "a path", strlen(layer->root));
  if (status == STG_OK && !is_there(cache, path.data)) {
    status = put(cache, layer, recipe, name, &error);
  }
  stg_strbuf_finish(&path);
  stg_free(name);
  if (status != STG_OK) {
    if (!atomic_exchange(&cache->recipe_failed, true)) {
      stg_log_printf(&cache->log, STG_LOG_DEBUG, "recipes of graphs are not kept: %s",
                     error.message);
    }
    return stg_error_set(reterr, status, "%s", error.message);
  }
  return STG_OK;
}

stg_status stg_disk_recipe_walk(const struct stg_disk_cache *cache, stg_disk_visit visit,
                                void *user, stg_error *reterr) {
  struct stg_arena arena = {0};
  struct stg_disk_files files = {0};
  stg_status status = STG_OK;
  for (size_t i = 0; i < cache->n_layers && status == STG_OK; i++) {
    status = stg_disk_layer_list_recipes(&cache->layers[i], &arena, &files, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_visit_files(&files, visit, user, reterr);
  }
  stg_disk_files_finish(&files);
  stg_arena_finish(&arena);
  return status;
}

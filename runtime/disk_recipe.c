/*
 * disk_recipe.c: put a graph's recipe into the folder that is written to; walk and read them.
 *
 * Must not know how a recipe is laid out, nor who makes graphs.
 */
#include "runtime/disk_recipe.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/disk_cache_private.h"

#define TOUCH_S 3600 /* a stamp may be so wrong */

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
  const int64_t age_s = (int64_t)time(NULL) - mtime_unix;
  if (status == STG_OK && (age_s > TOUCH_S || age_s < -TOUCH_S)) {
    (void)cache->io.touch(cache->io.user, path);
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

/* Append the recipes of a folder, in no order. */
static stg_status list(const struct stg_disk_layer *layer, struct stg_arena *arena,
                       struct stg_disk_files *files, stg_error *reterr) {
  struct stg_key graph;
  struct stg_key kernel;
  char *path = stg_path_join(layer->root, "v1/" STG_DISK_GRAPHS);
  if (path == NULL) {
    return stg_error_memory(reterr, "a path", strlen(layer->root));
  }
  DIR *folder = opendir(path);
  stg_status status = STG_OK;
  if (folder == NULL && errno != ENOENT && errno != ENOTDIR) {
    status = stg_error_io(reterr, errno, "list", path);
  }
  const struct dirent *entry;
  while (folder != NULL && status == STG_OK && (entry = readdir(folder)) != NULL) {
    if (!stg_disk_is_recipe_name(entry->d_name, &graph, &kernel)) {
      continue;
    }
    char *file = stg_path_join(path, entry->d_name);
    const struct stg_disk_file found = {.path = file == NULL ? NULL : stg_arena_strdup(arena, file),
                                        .layer = layer};
    stg_free(file);
    if (found.path == NULL || !stg_disk_files_push(files, found)) {
      status = stg_error_memory(reterr, "a list of recipes", strlen(path));
    }
  }
  if (folder != NULL) {
    closedir(folder);
  }
  stg_free(path);
  return status;
}

static int compare_paths(const void *a, const void *b) {
  return strcmp(((const struct stg_disk_file *)a)->path, ((const struct stg_disk_file *)b)->path);
}

static stg_status visit_file(const struct stg_disk_file *file, stg_disk_visit visit, void *user,
                             stg_error *reterr) {
  struct stat info;
  if (stat(file->path, &info) != 0) {
    return STG_OK; /* gone since it was listed */
  }
  const struct stg_disk_item item = {.path = file->path,
                                     .layer = file->layer->root,
                                     .size_bytes = (uint64_t)info.st_size,
                                     .mtime_unix = (int64_t)info.st_mtime};
  return visit(user, &item, reterr);
}

stg_status stg_disk_recipe_walk(const struct stg_disk_cache *cache, stg_disk_visit visit,
                                void *user, stg_error *reterr) {
  struct stg_arena arena = {0};
  struct stg_disk_files files = {0};
  stg_status status = STG_OK;
  for (size_t i = 0; i < cache->n_layers && status == STG_OK; i++) {
    if (cache->layers[i].pack == NULL) {
      status = list(&cache->layers[i], &arena, &files, reterr);
    }
  }
  if (files.count > 1) {
    qsort(files.items, files.count, sizeof files.items[0], compare_paths);
  }
  for (size_t i = 0; i < files.count && status == STG_OK; i++) {
    status = visit_file(&files.items[i], visit, user, reterr);
  }
  stg_disk_files_finish(&files);
  stg_arena_finish(&arena);
  return status;
}

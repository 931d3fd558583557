/*
 * disk_survey.c: what a layer of a cache holds, counted without reading an entry.
 *
 * Must not know what is in a file.
 */
#include <sys/stat.h>

#include "runtime/disk_cache_private.h"
#include "runtime/pack.h"

#define NS_PER_S INT64_C(1000000000)

size_t stg_disk_cache_layers(const struct stg_disk_cache *cache) {
  return cache->n_layers;
}

static void count_file(struct stg_disk_survey *survey, const struct stg_disk_content_file *file) {
  const int64_t used_unix = file->stamp_ns / NS_PER_S;
  survey->bytes += file->size_bytes;
  switch (file->kind) {
  case STG_DISK_ENTRY:
    survey->entries++;
    survey->entry_bytes += file->size_bytes;
    if (survey->oldest_unix == 0 || used_unix < survey->oldest_unix) {
      survey->oldest_unix = used_unix;
    }
    break;
  case STG_DISK_RECIPE:
    survey->recipes++;
    break;
  case STG_DISK_TEMPORARY:
    survey->temporary++;
    break;
  case STG_DISK_QUARANTINED:
    survey->quarantined++;
    break;
  }
}

static stg_status copy_left_out(const struct stg_disk_layer *layer,
                                const struct stg_disk_files *files, struct stg_arena *arena,
                                struct stg_disk_survey *survey, stg_error *reterr) {
  struct stg_disk_item *items = stg_arena_alloc(arena, files->count + 1, sizeof *items);
  for (size_t i = 0; i < files->count && items != NULL; i++) {
    items[i] = (struct stg_disk_item){.path = stg_arena_strdup(arena, files->items[i].path),
                                      .layer = layer->root,
                                      .problem = stg_arena_strdup(arena, files->items[i].problem),
                                      .is_folder = true};
  }
  survey->left_out = items;
  survey->n_left_out = files->count;
  return stg_arena_status(arena, reterr);
}

stg_status stg_disk_cache_survey(const struct stg_disk_cache *cache, size_t index,
                                 struct stg_arena *arena, struct stg_disk_survey *ret,
                                 stg_error *reterr) {
  const struct stg_disk_layer *layer = &cache->layers[index];
  struct stg_disk_survey survey = {.root = layer->root, .is_pack = layer->pack != NULL};
  struct stat info;
  if (survey.is_pack) {
    survey.entries = stg_pack_count(layer->pack);
    survey.bytes = stat(layer->root, &info) == 0 ? (uint64_t)info.st_size : 0;
    survey.entry_bytes = survey.bytes;
    *ret = survey;
    return STG_OK;
  }
  struct stg_disk_content content = {0};
  stg_status status = stg_disk_scan(layer, &content, reterr);
  for (size_t i = 0; i < content.count && status == STG_OK; i++) {
    count_file(&survey, &content.items[i]);
  }
  if (status == STG_OK) {
    status = copy_left_out(layer, &content.left_out, arena, &survey, reterr);
  }
  stg_disk_content_finish(&content);
  if (status == STG_OK) {
    *ret = survey;
  }
  return status;
}

stg_status stg_disk_cache_totals(const struct stg_disk_cache *cache, struct stg_disk_totals *ret,
                                 stg_error *reterr) {
  const struct stg_disk_layer *last =
      cache->n_layers > 0 ? &cache->layers[cache->n_layers - 1] : NULL;
  if (last == NULL || last->pack != NULL) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "a pack keeps no statistics");
  }
  return stg_disk_stats_read(last, ret, reterr);
}

/*
 * cache_pack.c: entries of a cache into a pack, and those of a pack into a cache folder.
 *
 * Either way an entry travels as the bytes of its file, and is verified on the way. Must not know
 * what a pack looks like, nor which entries anybody wants.
 */
#include <steergraph/cache.h>

#include <string.h>

#include "engine/cache_disk.h"
#include "runtime/base/interrupt.h"
#include "runtime/base/strbuf.h"
#include "runtime/pack_writer.h"

/* An export on its way. */
struct export {
  stg_cache *cache;
  struct stg_pack_writer *writer;
  size_t n_bad;
  struct stg_strbuf first_bad; /* "PATH: PROBLEM" */
};

/* Add one entry; that it is bad is counted, and no failure yet. */
static stg_status add_entry(struct export *export, size_t index, stg_error *reterr) {
  struct stg_disk_hit hit = {0};
  stg_cache_entry entry;
  stg_error problem = STG_ERROR_INIT;
  stg_status status = stg_cache_peek(export->cache, index, &entry, reterr); /* for its path */
  if (status != STG_OK) {
    return status;
  }
  status = stg_disk_cache_read(stg_cache_disk(export->cache), entry.path, &hit, &problem);
  if (status == STG_OK) {
    status = stg_pack_writer_add(export->writer, hit.bytes, hit.size, &problem);
    stg_disk_hit_finish(&hit);
  }
  if (status == STG_E_NO_MEMORY) {
    return stg_error_set(reterr, status, "%s", problem.message);
  }
  if (status != STG_OK && export->n_bad++ == 0) {
    stg_strbuf_printf(&export->first_bad, "%s: %s", entry.path, problem.message);
  }
  return stg_strbuf_status(&export->first_bad, reterr);
}

static stg_status save(const struct export *export, const char *path, size_t *ret_size,
                       stg_error *reterr) {
  struct stg_interrupt_hold hold;
  stg_interrupt_hold(&hold);
  stg_status status = stg_pack_writer_save(export->writer, path, ret_size, reterr);
  stg_interrupt_release(&hold);
  return status;
}

static stg_status check_export(const stg_cache *cache, const size_t *indices, size_t n_indices,
                               const char *path, const stg_cache_export_options *options,
                               const stg_cache_export_result *result, stg_error *reterr) {
  if (cache == NULL || path == NULL || (indices == NULL && n_indices > 0)) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache, no entries or no file is given");
  }
  if ((options != NULL && options->struct_size != sizeof *options) ||
      (result != NULL && result->struct_size != sizeof *result)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_cache_export: a struct_size is not %zu for options, %zu for results",
                         sizeof *options, sizeof *result);
  }
  if (n_indices == 0) {
    return stg_error_set(reterr, STG_E_INVALID, "no entry was chosen, so no pack is written");
  }
  return STG_OK;
}

stg_status stg_cache_export(stg_cache *cache, const size_t *indices, size_t n_indices,
                            const char *path, const stg_cache_export_options *options,
                            stg_cache_export_result *ret_result, stg_error *reterr) {
  struct export export = {.cache = cache};
  size_t size = 0;
  stg_status status = check_export(cache, indices, n_indices, path, options, ret_result, reterr);
  if (status == STG_OK) {
    status = stg_pack_writer_create(&export.writer, reterr);
  }
  for (size_t i = 0; i < n_indices && status == STG_OK; i++) {
    status = add_entry(&export, indices[i], reterr);
    if (options != NULL && options->progress != NULL) {
      options->progress(options->user, i + 1, n_indices);
    }
  }
  if (status == STG_OK && export.n_bad > 0) {
    status = stg_error_set(reterr, STG_E_CORRUPT,
                           "no pack is written: of %zu entries %zu cannot be shipped "
                           "('steergraph cache verify' lists bad ones, with --repair moves them "
                           "away); the first: %s",
                           n_indices, export.n_bad, stg_strbuf_text(&export.first_bad));
  }
  if (status == STG_OK) {
    status = save(&export, path, &size, reterr);
  }
  if (status == STG_OK && ret_result != NULL) {
    ret_result->entries = stg_pack_writer_count(export.writer);
    ret_result->bytes = size;
  }
  stg_pack_writer_destroy(export.writer);
  stg_strbuf_finish(&export.first_bad);
  return status;
}

/* An import on its way. */
struct import {
  const struct stg_disk_cache *pack;
  struct stg_disk_cache *folder;
  const stg_cache_import_options *options; /* never NULL */
  size_t n_seen, n_entries;                /* of the pack, where progress is told */
  stg_cache_import_result done;
};

static stg_status count_entry(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct import *import = user;
  (void)item;
  (void)reterr;
  import->n_entries++;
  return STG_OK;
}

/* Import one entry; that it is bad is counted, and no failure. */
static stg_status import_entry(struct import *import, const struct stg_disk_item *item,
                               stg_error *reterr) {
  struct stg_disk_hit hit = {0};
  stg_error problem = STG_ERROR_INIT;
  bool there = false;
  stg_status status = stg_disk_cache_read(import->pack, item->path, &hit, &problem);
  if (status == STG_E_CORRUPT || status == STG_E_UNSUPPORTED) {
    import->done.bad++;
    if (import->options->on_bad != NULL) {
      import->options->on_bad(import->options->user, item->path, problem.message);
    }
    return STG_OK;
  }
  if (status != STG_OK) {
    return stg_error_set(reterr, status, "%s", problem.message);
  }
  status = stg_disk_cache_put(import->folder, &hit, import->options->dry_run, &there, reterr);
  if (status == STG_OK && there) {
    import->done.there++;
  } else if (status == STG_OK) {
    import->done.imported++;
    import->done.bytes += hit.size;
  }
  stg_disk_hit_finish(&hit);
  return status;
}

static stg_status visit_entry(void *user, const struct stg_disk_item *item, stg_error *reterr) {
  struct import *import = user;
  stg_status status = import_entry(import, item, reterr);
  if (import->options->progress != NULL) {
    import->options->progress(import->options->user, ++import->n_seen, import->n_entries);
  }
  return status;
}

static stg_status open_import(struct import *import, const char *folders, const char *pack,
                              struct stg_disk_cache **ret_pack, stg_error *reterr) {
  struct stg_arena arena = {0};
  const struct stg_disk_options to = {.path_list = stg_cache_last_folder(folders, &arena),
                                      .max_bytes = import->options->max_bytes,
                                      .max_entries = import->options->max_entries};
  const struct stg_disk_options from = {
      .pack_path = pack, .mode = STG_DISK_READ_ONLY, .strict = true};
  stg_status status = stg_arena_status(&arena, reterr);
  if (status == STG_OK && to.path_list[0] == '\0') {
    status = stg_error_set(reterr, STG_E_INVALID, "no cache folder is given");
  }
  if (status == STG_OK) {
    status = stg_disk_cache_open(&to, &import->folder, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_cache_open(&from, ret_pack, reterr);
    import->pack = *ret_pack;
  }
  stg_arena_finish(&arena);
  return status;
}

static stg_status check_import(const char *folders, const char *pack,
                               const stg_cache_import_options *options,
                               const stg_cache_import_result *result, stg_error *reterr) {
  if (folders == NULL || pack == NULL || pack[0] == '\0') {
    return stg_error_set(reterr, STG_E_INVALID, "no cache folder or no pack is given");
  }
  if ((options != NULL && options->struct_size != sizeof *options) ||
      (result != NULL && result->struct_size != sizeof *result)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_cache_import: a struct_size is not %zu for options, %zu for results",
                         sizeof *options, sizeof *result);
  }
  return STG_OK;
}

stg_status stg_cache_import(const char *folders, const char *pack,
                            const stg_cache_import_options *options,
                            stg_cache_import_result *ret_result, stg_error *reterr) {
  static const stg_cache_import_options defaults;
  struct import import = {.options = options != NULL ? options : &defaults,
                          .done = {.struct_size = sizeof import.done}};
  struct stg_disk_cache *from = NULL;
  stg_status status = check_import(folders, pack, options, ret_result, reterr);
  if (status == STG_OK) {
    status = open_import(&import, folders, pack, &from, reterr);
  }
  if (status == STG_OK && import.options->progress != NULL) {
    status = stg_disk_cache_walk(from, count_entry, &import, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_cache_walk(from, visit_entry, &import, reterr);
  }
  if (status != STG_OK && import.done.imported > 0) {
    stg_error_prefix(reterr, "%zu entries were imported, then: ", import.done.imported);
  }
  stg_disk_cache_close(from);
  stg_disk_cache_close(import.folder);
  if (status == STG_OK && ret_result != NULL) {
    *ret_result = import.done;
  }
  return status;
}

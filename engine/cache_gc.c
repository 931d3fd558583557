/*
 * cache_gc.c: make room in a cache folder: what is to go, and its removal or the mere list of it.
 *
 * Needs no engine and no device, and never waits for one: what is in use stays or is read whole
 * already. Must not know what is in an entry.
 */
#include <steergraph/cache.h>

#include <string.h>

#include "engine/cache_disk.h"
#include "engine/cache_left_out.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/disk_evict.h"
#include "runtime/pack.h"

#define NS_PER_S INT64_C(1000000000)
#define FILES_BETWEEN_REPORTS 64

/* The result and what it borrows from. */
struct gc {
  stg_cache_gc_result result; /* first: it is what the caller has */
  struct stg_arena arena;
  struct stg_disk_content content;
  stg_cache_victim *victims;
  struct stg_left_outs left_out;
};

static stg_cache_victim describe(const struct stg_disk_content_file *file) {
  static const char *const kinds[] = {[STG_DISK_ENTRY] = "entry",
                                      [STG_DISK_RECIPE] = "graph",
                                      [STG_DISK_TEMPORARY] = "temporary",
                                      [STG_DISK_QUARANTINED] = "quarantine"};
  stg_cache_victim victim = {.path = file->path,
                             .kind = kinds[file->kind],
                             .why = file->why,
                             .size_bytes = file->size_bytes,
                             .used_unix = file->used_ns / NS_PER_S};
  if (stg_disk_is_for_use(file->kind)) {
    memcpy(victim.key, stg_path_name(file->path), sizeof victim.key - 1); /* its name begins so */
  }
  return victim;
}

static void count_kept(stg_cache_gc_result *result, const struct stg_disk_content_file *file) {
  const bool is_entry = stg_disk_is_for_use(file->kind);
  result->kept_entries += is_entry;
  result->kept_files += !is_entry;
  result->kept_bytes += file->size_bytes;
}

/* Remove a file that was chosen, or say that it would be. */
static stg_status treat(struct gc *gc, const struct stg_disk_content_file *file, bool dry_run,
                        stg_error *reterr) {
  const struct stg_disk_io io = stg_disk_io_default();
  stg_cache_gc_result *result = &gc->result;
  stg_error error = STG_ERROR_INIT;
  enum stg_disk_fate fate = dry_run ? STG_DISK_REMOVED : stg_disk_remove(&io, file, &error);
  if (fate == STG_DISK_GONE) {
    return STG_OK;
  }
  if (fate != STG_DISK_REMOVED) {
    count_kept(result, file);
  }
  if (fate == STG_DISK_SPARED) {
    return STG_OK;
  }
  stg_cache_victim victim = describe(file);
  if (fate == STG_DISK_REMOVED) {
    victim.removed = !dry_run;
    result->removed_entries += victim.key[0] != '\0';
    result->removed_files += victim.key[0] == '\0';
    result->removed_bytes += file->size_bytes;
  } else {
    victim.problem = stg_arena_strdup(&gc->arena, error.message);
    result->failed++;
    if (victim.problem == NULL) {
      return stg_arena_status(&gc->arena, reterr);
    }
  }
  gc->victims[result->n_victims++] = victim;
  return STG_OK;
}

static stg_status treat_all(struct gc *gc, const stg_cache_limits *limits, stg_error *reterr) {
  size_t total = 0;
  size_t done = 0;
  stg_status status = STG_OK;
  for (size_t i = 0; i < gc->content.count; i++) {
    total += gc->content.items[i].why != NULL;
  }
  gc->victims = stg_arena_alloc(&gc->arena, total + 1, sizeof *gc->victims);
  if (gc->victims == NULL) {
    return stg_arena_status(&gc->arena, reterr);
  }
  gc->result.victims = gc->victims;
  for (size_t i = 0; i < gc->content.count && status == STG_OK; i++) {
    const struct stg_disk_content_file *file = &gc->content.items[i];
    if (file->why == NULL) {
      count_kept(&gc->result, file);
      continue;
    }
    status = treat(gc, file, limits->dry_run, reterr);
    done++;
    if (limits->progress != NULL && (done % FILES_BETWEEN_REPORTS == 0 || done == total)) {
      limits->progress(limits->user, done, total);
    }
  }
  return status;
}

/* What was not looked into may hold what is beyond the limits, or counts to them. */
static stg_status note_left_out(struct gc *gc, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; i < gc->content.left_out.count && status == STG_OK; i++) {
    const struct stg_disk_file *file = &gc->content.left_out.items[i];
    const struct stg_disk_item item = {
        .path = file->path, .problem = file->problem, .is_folder = true};
    status = stg_left_outs_add(&gc->left_out, &gc->arena, &item, reterr);
  }
  gc->result.left_out = gc->left_out.items;
  gc->result.n_left_out = gc->left_out.count;
  return status;
}

static stg_status collect(struct gc *gc, const char *path_list, const stg_cache_limits *limits,
                          stg_error *reterr) {
  char *folder = stg_cache_last_folder(path_list, &gc->arena);
  if (folder == NULL) {
    return stg_arena_status(&gc->arena, reterr);
  }
  if (folder[0] == '\0') {
    return stg_error_set(reterr, STG_E_INVALID, "no cache folder is given");
  }
  if (stg_pack_is_file(folder)) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "'%s' is a pack, which is never written to; make it again without what "
                         "is to go",
                         folder);
  }
  gc->result.folder = folder;
  const struct stg_disk_layer layer = {.root = folder};
  stg_status status = stg_disk_scan(&layer, &gc->content, reterr);
  if (status == STG_OK) {
    const struct stg_disk_limits bounds = {
        .bytes = limits->max_bytes != 0 ? limits->max_bytes : STG_DISK_DEFAULT_BYTES,
        .entries = limits->max_entries != 0 ? limits->max_entries : STG_DISK_DEFAULT_ENTRIES,
        .older_than_s = limits->by_age ? limits->older_than_s : -1,
    };
    stg_disk_choose(&gc->content, &bounds, stg_disk_now_ns());
    status = treat_all(gc, limits, reterr);
  }
  return status == STG_OK ? note_left_out(gc, reterr) : status;
}

stg_status stg_cache_gc(const char *path_list, const stg_cache_limits *limits,
                        const stg_cache_gc_result **ret_result, stg_error *reterr) {
  if (path_list == NULL || limits == NULL || ret_result == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_cache_gc: path_list, limits or ret_result is NULL");
  }
  if (limits->struct_size != sizeof *limits) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_cache_limits: struct_size is %zu, this library's is %zu",
                         limits->struct_size, sizeof *limits);
  }
  if (limits->by_age && limits->older_than_s < 0) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_cache_limits: older_than_s %lld is negative",
                         (long long)limits->older_than_s);
  }
  struct gc *gc = stg_calloc(1, sizeof *gc);
  if (gc == NULL) {
    return stg_error_memory(reterr, "a list of cache files", sizeof *gc);
  }
  stg_status status = collect(gc, path_list, limits, reterr);
  if (status != STG_OK) {
    stg_cache_gc_free(&gc->result);
    return status;
  }
  *ret_result = &gc->result;
  return STG_OK;
}

void stg_cache_gc_free(const stg_cache_gc_result *result) {
  struct gc *gc = (struct gc *)(uintptr_t)result;
  if (gc != NULL) {
    stg_disk_content_finish(&gc->content);
    stg_arena_finish(&gc->arena);
    stg_free(gc);
  }
}

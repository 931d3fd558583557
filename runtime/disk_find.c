/*
 * disk_find.c: find a request's entry among layers and compilers; read one; walk all of them.
 *
 * A file that is bad, gone or unreadable is passed over: the next candidate may do, and otherwise
 * it is a miss. Must not know how entries get to disk.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/disk_cache_private.h"
#include "runtime/disk_pack.h"
#include "runtime/pack.h"

#define TOUCH_S 3600 /* a stamp may be so wrong */

int stg_disk_compare_compilers(const char *a, const char *b) {
  static const char digits[] = "0123456789";
  while (*a != '\0' && *b != '\0') {
    size_t n_a = strspn(a, digits);
    size_t n_b = strspn(b, digits);
    if (n_a == 0 || n_b == 0) {
      if (*a != *b) {
        return *a < *b ? -1 : 1;
      }
      a++;
      b++;
      continue;
    }
    unsigned long long x = strtoull(a, NULL, 10);
    unsigned long long y = strtoull(b, NULL, 10);
    if (x != y) {
      return x < y ? -1 : 1;
    }
    a += n_a;
    b += n_b;
  }
  return (*a != '\0') - (*b != '\0');
}

bool stg_disk_is_named(const char *file_name, const char *wanted) {
  const size_t n_digits = strcspn(wanted, "-");
  const char *compiler = wanted + n_digits;
  return n_digits <= STG_KEY_HEX_CHARS && strncmp(file_name, wanted, n_digits) == 0 &&
         strncmp(file_name + STG_KEY_HEX_CHARS, compiler, strlen(compiler)) == 0;
}

/* Whether `a` is to be tried before `b`, which was listed after it: later layers come first. */
static bool goes_before(const struct stg_disk_file *a, const struct stg_disk_file *b,
                        const char *preferred) {
  if (preferred != NULL) {
    bool wanted_a = strcmp(a->compiler, preferred) == 0;
    bool wanted_b = strcmp(b->compiler, preferred) == 0;
    if (wanted_a != wanted_b) {
      return wanted_a;
    }
  }
  int order = stg_disk_compare_compilers(a->compiler, b->compiler);
  return order > 0 || (order == 0 && a->layer > b->layer);
}

/* Insertion sort: a key has as many files as there are compilers and layers. */
static void sort_candidates(struct stg_disk_files *files, const char *preferred) {
  for (size_t i = 1; i < files->count; i++) {
    struct stg_disk_file file = files->items[i];
    size_t at = i;
    while (at > 0 && goes_before(&file, &files->items[at - 1], preferred)) {
      files->items[at] = files->items[at - 1];
      at--;
    }
    files->items[at] = file;
  }
}

/* What cannot be read costs a compile each time, and one warning. */
static void log_read_failure(struct stg_disk_cache *cache, const char *why) {
  const bool again = atomic_exchange(&cache->read_failed, true);
  stg_log_printf(&cache->log, again ? STG_LOG_INFO : STG_LOG_WARN, "%s", why);
}

/* The files of one key in every layer that may be used, from one on. */
static stg_status find_candidates(struct stg_disk_cache *cache, size_t first_layer,
                                  struct stg_key key, struct stg_arena *arena,
                                  struct stg_disk_files *files, stg_error *reterr) {
  for (size_t i = first_layer; i < cache->n_layers; i++) {
    stg_error error = STG_ERROR_INIT;
    stg_status status = stg_disk_layer_check(&cache->layers[i], &error);
    if (status == STG_OK) {
      status = stg_disk_layer_list(&cache->layers[i], &key, arena, files, &error);
    }
    if (status == STG_E_NO_MEMORY) {
      return stg_error_set(reterr, status, "%s", error.message);
    }
    if (status != STG_OK && status != STG_E_NOT_FOUND) {
      log_read_failure(cache, error.message);
    }
  }
  return STG_OK;
}

/* An entry under a name that is not its own would answer for another kernel or compiler. */
stg_status stg_disk_check_name(const char *path, struct stg_key key, const char *compiler,
                               stg_error *reterr) {
  char *expected = stg_disk_file_name(key, compiler);
  stg_status status = STG_OK;
  if (expected == NULL) {
    status = stg_error_memory(reterr, "a file name", strlen(compiler));
  } else if (strcmp(stg_path_name(path), expected) != 0) {
    status = stg_error_set(reterr, STG_E_CORRUPT, "its name should be '%s'", expected);
  }
  stg_free(expected);
  return status;
}

/* The bytes of a file, or those that a pack has under its name. */
static stg_status read_bytes(const struct stg_disk_layer *layer, const char *path,
                             struct stg_disk_hit *hit, stg_error *reterr) {
  if (layer != NULL && layer->pack != NULL) {
    return stg_disk_pack_read(layer, path, &hit->bytes, &hit->size, reterr);
  }
  stg_status status = stg_file_read_stamped(path, STG_ENTRY_MAX_BYTES, &hit->bytes, &hit->size,
                                            &hit->mtime_unix, reterr);
  if (status == STG_E_INVALID) {
    return stg_error_set(reterr, STG_E_CORRUPT, "over %llu bytes",
                         (unsigned long long)STG_ENTRY_MAX_BYTES);
  }
  return status;
}

stg_status stg_disk_cache_read(const struct stg_disk_cache *cache, const char *path,
                               struct stg_disk_hit *ret_hit, stg_error *reterr) {
  const struct stg_disk_layer *layer = stg_disk_layer_of(cache, path);
  struct stg_disk_hit hit = {.from_pack = layer != NULL && layer->pack != NULL};
  stg_status status = read_bytes(layer, path, &hit, reterr);
  if (status == STG_OK) {
    hit.path = stg_strdup(path);
    status = hit.path == NULL ? stg_error_memory(reterr, "a path", strlen(path)) : STG_OK;
  }
  if (status == STG_OK) {
    status = stg_entry_decode(hit.bytes, hit.size, &hit.arena, &hit.entry, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_check_name(path, hit.entry.key, hit.entry.meta.compiler, reterr);
  }
  if (status != STG_OK) {
    stg_disk_hit_finish(&hit);
    return status;
  }
  *ret_hit = hit;
  ret_hit->entry.arena = &ret_hit->arena;
  return STG_OK;
}

/* A stamp far in the future would keep it for ever. */
void stg_disk_stamp(const struct stg_disk_cache *cache, const char *path, int64_t mtime_unix) {
  const int64_t age_s = (int64_t)time(NULL) - mtime_unix;
  if (age_s > TOUCH_S || age_s < -TOUCH_S) {
    (void)cache->io.touch(cache->io.user, path);
  }
}

/* Stamp an entry that is in use, where it might be evicted. */
static void touch(const struct stg_disk_cache *cache, const struct stg_disk_layer *layer,
                  const struct stg_disk_hit *hit) {
  if (layer->writable) {
    stg_disk_stamp(cache, hit->path, hit->mtime_unix);
  }
}

/* The first candidate that is good. Bad ones are set aside on the way; those of another format are
 * left to the version that wrote them, and spoken of by the first look alone. */
static stg_status take_first(struct stg_disk_cache *cache, const struct stg_disk_files *files,
                             const struct stg_kernel_request *request, bool again,
                             struct stg_disk_hit *ret_hit, stg_error *reterr) {
  for (size_t i = 0; i < files->count; i++) {
    const char *path = files->items[i].path;
    stg_error error = STG_ERROR_INIT;
    stg_status status = stg_disk_cache_read(cache, path, ret_hit, &error);
    if (status == STG_OK &&
        stg_kernel_is_material(request, ret_hit->entry.material, ret_hit->entry.material_size)) {
      touch(cache, files->items[i].layer, ret_hit);
      return STG_OK;
    }
    if (status == STG_OK) {
      stg_log_printf(&cache->log, STG_LOG_WARN,
                     "cache entry '%s' is of another kernel with the same key; passed over", path);
      stg_disk_hit_finish(ret_hit);
    } else if (status == STG_E_UNSUPPORTED) {
      stg_log_printf(&cache->log, again ? STG_LOG_DEBUG : STG_LOG_INFO,
                     "cache entry '%s' is passed over: %s", path, error.message);
    } else if (status == STG_E_CORRUPT) {
      stg_disk_set_aside(cache, path, error.message);
    } else if (status == STG_E_NO_MEMORY) {
      return stg_error_set(reterr, status, "%s", error.message);
    } else if (status != STG_E_NOT_FOUND) { /* gone since it was listed is nothing to speak of */
      log_read_failure(cache, error.message);
    }
  }
  return stg_error_set(reterr, STG_E_NOT_FOUND, "not in the disk cache");
}

/* Find in all layers, or `again` in the last alone, the only one that is stored in. A hit is
 * counted, and a miss is the caller's to count. */
static stg_status find_in(struct stg_disk_cache *cache, bool again,
                          const struct stg_kernel_request *request, const char *preferred_compiler,
                          struct stg_disk_hit *ret_hit, stg_error *reterr) {
  struct stg_arena arena = {0};
  struct stg_disk_files files = {0};
  struct stg_key key = {0};
  struct stg_disk_hit hit = {0};
  const size_t first_layer = again && cache->n_layers > 0 ? cache->n_layers - 1 : 0;
  if (cache->n_layers == 0 || cache->mode == STG_DISK_REFRESH) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "the disk cache is off or being refreshed");
  }
  stg_status status = stg_kernel_request_key(request, &key, reterr);
  if (status == STG_OK) {
    status = find_candidates(cache, first_layer, key, &arena, &files, reterr);
  }
  if (status == STG_OK) {
    sort_candidates(&files, preferred_compiler);
    status = take_first(cache, &files, request, again, &hit, reterr);
  }
  if (status == STG_OK) {
    *ret_hit = hit;
    ret_hit->entry.arena = &ret_hit->arena;
    atomic_fetch_add(&cache->hits, 1u);
    atomic_fetch_add(&cache->pack_hits, hit.from_pack);
  }
  stg_disk_files_finish(&files);
  stg_arena_finish(&arena);
  return status;
}

stg_status stg_disk_cache_find_early(struct stg_disk_cache *cache,
                                     const struct stg_kernel_request *request,
                                     const char *preferred_compiler, struct stg_disk_hit *ret_hit,
                                     stg_error *reterr) {
  return find_in(cache, false, request, preferred_compiler, ret_hit, reterr);
}

stg_status stg_disk_cache_find(struct stg_disk_cache *cache,
                               const struct stg_kernel_request *request,
                               const char *preferred_compiler, struct stg_disk_hit *ret_hit,
                               stg_error *reterr) {
  stg_status status = find_in(cache, false, request, preferred_compiler, ret_hit, reterr);
  atomic_fetch_add(&cache->misses, status != STG_OK);
  return status;
}

/* What is bad in the other layers was warned of by the first look. */
stg_status stg_disk_cache_find_again(struct stg_disk_cache *cache,
                                     const struct stg_kernel_request *request,
                                     const char *preferred_compiler, struct stg_disk_hit *ret_hit,
                                     stg_error *reterr) {
  return find_in(cache, true, request, preferred_compiler, ret_hit, reterr);
}

static int compare_paths(const void *a, const void *b) {
  return strcmp(((const struct stg_disk_file *)a)->path, ((const struct stg_disk_file *)b)->path);
}

static stg_status visit_file(const struct stg_disk_file *file, stg_disk_visit visit, void *user,
                             stg_error *reterr) {
  const struct stg_pack *pack = file->layer->pack;
  struct stat info;
  if (file->problem != NULL) {
    const struct stg_disk_item left_out = {.path = file->path,
                                           .layer = file->layer->root,
                                           .problem = file->problem,
                                           .is_folder = file->is_folder};
    return visit(user, &left_out, reterr);
  }
  if (pack != NULL) {
    struct stg_disk_item entry = {.path = file->path,
                                  .layer = file->layer->root,
                                  .size_bytes = file->size_bytes,
                                  .mtime_unix = stg_pack_mtime_unix(pack)};
    return visit(user, &entry, reterr);
  }
  if (stat(file->path, &info) != 0) {
    return STG_OK; /* gone since it was listed */
  }
  struct stg_disk_item item = {.path = file->path,
                               .layer = file->layer->root,
                               .size_bytes = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0,
                               .mtime_unix = (int64_t)info.st_mtime};
  return visit(user, &item, reterr);
}

stg_status stg_disk_visit_files(struct stg_disk_files *files, stg_disk_visit visit, void *user,
                                stg_error *reterr) {
  stg_status status = STG_OK;
  if (files->count > 1) {
    qsort(files->items, files->count, sizeof files->items[0], compare_paths);
  }
  for (size_t i = 0; i < files->count && status == STG_OK; i++) {
    status = visit_file(&files->items[i], visit, user, reterr);
  }
  return status;
}

stg_status stg_disk_cache_walk(struct stg_disk_cache *cache, stg_disk_visit visit, void *user,
                               stg_error *reterr) {
  struct stg_arena arena = {0};
  struct stg_disk_files files = {0};
  stg_status status = STG_OK;
  for (size_t i = 0; i < cache->n_layers && status == STG_OK; i++) {
    status = stg_disk_layer_list(&cache->layers[i], NULL, &arena, &files, reterr);
  }
  if (status == STG_OK) {
    status = stg_disk_visit_files(&files, visit, user, reterr);
  }
  stg_disk_files_finish(&files);
  stg_arena_finish(&arena);
  return status;
}

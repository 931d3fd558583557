/*
 * doctor/cache.c: the cache as an engine would open it, a sample of its entries, and each element
 * of its path list. Prints nothing.
 */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "tools/cache/left_out.h"

/* No more of the entries are read, and for no longer. */
#define SAMPLE 200
#define SAMPLE_S 1.0

/* The path itself where something is there, else the nearest folder above it that is; stg_free. */
static char *nearest_there(const char *path) {
  struct stat facts;
  char *at = stg_strdup(path);
  while (at != NULL && lstat(at, &facts) != 0 && strcmp(at, "/") != 0 && strcmp(at, ".") != 0) {
    char *above = stg_path_folder(at);
    stg_free(at);
    at = above;
  }
  return at;
}

/* A folder that is not there yet is made on the first store, where its parent allows. */
static stg_status check_folder(const char *folder, bool *ret_writable, stg_error *reterr) {
  struct stat facts;
  stg_status status = STG_OK;
  char *path = nearest_there(folder);
  if (path == NULL) {
    return stg_error_memory(reterr, "a cache folder's path", strlen(folder));
  }
  const bool writable = access(path, W_OK | X_OK) == 0;
  if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    status =
        stg_error_set(reterr, STG_E_IO, "the cache folder '%s': '%s' is no folder", folder, path);
  } else if (strcmp(path, folder) != 0 && !writable) {
    status = stg_error_set(reterr, STG_E_IO,
                           "the cache folder '%s' is not there, and '%s' cannot be written", folder,
                           path);
  } else {
    *ret_writable = writable;
  }
  stg_free(path);
  return status;
}

/* Note an element of the list that is a pack, when no engine would use it. */
static stg_status check_pack(struct stg_doctor_cache *cache, const char *element, size_t len,
                             stg_error *reterr) {
  struct stg_doctor_passed_over pack = {0};
  struct stat facts;
  stg_strbuf_mem(&pack.path, element, len);
  stg_status status = stg_strbuf_status(&pack.path, reterr);
  const char *path = stg_strbuf_text(&pack.path);
  if (status != STG_OK || len == 0 || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode) ||
      stg_offline_pack_check(path, &pack.found.problem) == STG_OK) {
    stg_strbuf_finish(&pack.path);
    return status;
  }
  size_t bytes = (cache->n_packs + 1) * sizeof *cache->packs;
  struct stg_doctor_passed_over *packs = stg_realloc(cache->packs, bytes);
  if (packs == NULL) {
    stg_strbuf_finish(&pack.path);
    return stg_error_memory(reterr, "a list of packs", bytes);
  }
  cache->packs = packs;
  cache->packs[cache->n_packs++] = pack;
  return STG_OK;
}

static stg_status check_packs(struct stg_doctor_cache *cache, stg_error *reterr) {
  stg_status status = STG_OK;
  for (const char *piece = cache->path; piece != NULL && status == STG_OK;) {
    size_t len = strcspn(piece, ":");
    status = check_pack(cache, piece, len, reterr);
    piece = piece[len] == ':' ? piece + len + 1 : NULL;
  }
  return status;
}

/* The elements of the list that are not empty, the last of which is written to. */
static stg_status examine_folders(struct stg_doctor_cache *cache, const stg_options *options,
                                  stg_error *reterr) {
  size_t capacity = 1;
  for (const char *c = cache->path; *c != '\0'; c++) {
    capacity += *c == ':';
  }
  cache->folders = stg_calloc(capacity, sizeof *cache->folders);
  if (cache->folders == NULL) {
    return stg_error_memory(reterr, "a list of folders", capacity * sizeof *cache->folders);
  }
  for (const char *piece = cache->path; piece != NULL;) {
    const size_t len = strcspn(piece, ":");
    const char *rest = piece + len;
    if (len > 0) {
      struct stg_doctor_folder *folder = &cache->folders[cache->n_folders++];
      folder->is_last = rest[strspn(rest, ":")] == '\0';
      folder->max_bytes =
          options->cache_max_bytes != 0 ? options->cache_max_bytes : STG_CACHE_DEFAULT_BYTES;
      folder->max_entries =
          options->cache_max_entries != 0 ? options->cache_max_entries : STG_CACHE_DEFAULT_ENTRIES;
      stg_doctor_folder_examine(piece, len, folder);
      stg_doctor_folder_advise(folder);
    }
    piece = *rest == ':' ? rest + 1 : NULL;
  }
  return STG_OK;
}

static double seconds(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Entries are their owner's alone: what another user made is not damaged, and not to be repaired.
 */
static bool is_forbidden(const stg_cache_entry *entry) {
  errno = 0;
  return access(entry->path, R_OK) != 0 && errno == EACCES;
}

/* Read some of the entries, spread over all of them. */
static stg_status check_entries(struct stg_doctor_cache *ret, stg_cache *cache, stg_error *reterr) {
  const double start_s = seconds();
  const size_t wanted = ret->entries < SAMPLE ? ret->entries : SAMPLE;
  stg_status status = STG_OK;
  while (status == STG_OK && ret->checked < wanted && seconds() - start_s < SAMPLE_S) {
    stg_cache_entry entry;
    const size_t index = ret->checked * ret->entries / wanted;
    status = stg_cache_get(cache, index, &entry, reterr);
    ret->checked += status == STG_OK;
    if (status == STG_OK && !entry.ok && !entry.other_format) {
      ret->bad++;
      ret->unreadable += is_forbidden(&entry);
    }
    stg_cache_forget(cache, index);
  }
  return status;
}

/* An engine compiles again what is in a folder that cannot be listed. */
static stg_status check_folders_listed(const stg_cache *cache, stg_error *reterr) {
  const char *problem = stg_cache_folder_left_out(cache);
  return problem == NULL ? STG_OK : stg_error_set(reterr, STG_E_IO, "%s", problem);
}

/* As an engine would do it that the environment's switch is said to. */
static stg_status open_as_engine(struct stg_doctor_cache *ret, stg_error *reterr) {
  const bool writes = ret->mode == STG_CACHE_DEFAULT || ret->mode == STG_CACHE_REFRESH;
  stg_cache *cache = NULL;
  stg_status status = stg_cache_open_as_engine(ret->path, NULL, !writes, &cache, reterr);
  if (status == STG_OK) {
    status = check_folders_listed(cache, reterr);
  }
  if (status == STG_OK) {
    status = check_packs(ret, reterr);
  }
  if (status == STG_OK && writes && ret->n_folders > 0) {
    const char *last = stg_strbuf_text(&ret->folders[ret->n_folders - 1].path);
    status = check_folder(last, &ret->writable, reterr);
  }
  ret->entries = cache != NULL ? stg_cache_count(cache) : 0;
  if (status == STG_OK) {
    status = check_entries(ret, cache, reterr);
  }
  stg_cache_close(cache);
  return status;
}

static void read_totals(struct stg_doctor_cache *ret) {
  stg_cache *cache = NULL;
  ret->totals.struct_size = sizeof ret->totals;
  ret->has_totals = stg_cache_open(ret->path, &cache, NULL) == STG_OK &&
                    stg_cache_read_totals(cache, &ret->totals, NULL) == STG_OK;
  stg_cache_close(cache);
}

void stg_doctor_cache_examine(struct stg_doctor_cache *ret) {
  stg_options options;
  stg_error *problem = &ret->found.problem;
  if (stg_options_for_command(&options, problem) != STG_OK) {
    return;
  }
  ret->mode = options.cache_mode;
  ret->path = options.cache_path;
  if (ret->path == NULL || ret->path[0] == '\0') {
    ret->path = NULL;
    ret->found.ok = true;
    return;
  }
  ret->found.ok = examine_folders(ret, &options, problem) == STG_OK &&
                  (ret->mode == STG_CACHE_OFF || open_as_engine(ret, problem) == STG_OK);
  read_totals(ret);
}

void stg_doctor_cache_finish(struct stg_doctor_cache *cache) {
  for (size_t i = 0; i < cache->n_packs; i++) {
    stg_strbuf_finish(&cache->packs[i].path);
  }
  for (size_t i = 0; i < cache->n_folders; i++) {
    stg_doctor_folder_finish(&cache->folders[i]);
  }
  stg_free(cache->packs);
  stg_free(cache->folders);
}

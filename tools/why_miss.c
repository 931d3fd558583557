/*
 * why_miss.c: the entry of a cache that is nearest to a kernel.
 *
 * Every entry is read, one at a time, and verified: what is bad serves nobody. Must not know what a
 * factor is.
 */
#include "tools/why_miss.h"

#include <string.h>

#include <steergraph/engine.h>

#include "engine/offline.h"
#include "runtime/base/error.h"
#include "tools/cache_folder.h"

/* A switch that keeps runs from what a folder has is the reason, whatever is in it. */
static stg_status check_switch(stg_error *reterr) {
  stg_options options;
  stg_status status = stg_options_for_command(&options, reterr);
  if (status != STG_OK) {
    return status;
  }
  const char *word = options.cache_mode == STG_CACHE_OFF       ? "off"
                     : options.cache_mode == STG_CACHE_REFRESH ? "refresh"
                     : options.cache_mode == STG_CACHE_MEMORY  ? "memory"
                                                               : NULL;
  return word == NULL ? STG_OK
                      : stg_error_set(
                            reterr, STG_E_INVALID,
                            "STEERGRAPH_CACHE=%s: a run takes no kernel from a cache folder; unset "
                            "it to ask what the folders have",
                            word);
}

stg_status stg_why_miss_open(const struct stg_job_options *options, stg_cache **ret_cache,
                             stg_error *reterr) {
  const char *path = NULL;
  stg_status status = check_switch(reterr);
  if (status == STG_OK) {
    status = stg_cache_folder_find(options->cache_path, &path, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const char *pack = options->pack_path != NULL ? options->pack_path : stg_installed_pack();
  return stg_cache_open_as_engine(path, pack, options->cache_read_only, ret_cache, reterr);
}

/* By the name, since an entry that is bad has no key. */
static bool is_of(const struct stg_explained *kernel, const stg_cache_entry *entry) {
  const char *slash = strrchr(entry->path, '/');
  const char *name = slash == NULL ? entry->path : slash + 1;
  return strncmp(name, kernel->kernel_key, strlen(kernel->kernel_key)) == 0;
}

/* The entry that serves the kernel, or else the one with the fewest differing factors. What should
 * serve it and is bad is noted in `miss`. */
static stg_status find_nearest(const struct stg_explained *kernel, stg_cache *cache,
                               struct stg_miss *miss, size_t *ret_index, size_t *ret_distance,
                               stg_error *reterr) {
  size_t nearest = SIZE_MAX;
  size_t distance = SIZE_MAX;
  for (size_t i = 0; i < stg_cache_count(cache) && distance > 0; i++) {
    stg_cache_entry entry;
    stg_status status = stg_cache_get(cache, i, &entry, reterr);
    if (status != STG_OK) {
      return status;
    }
    size_t found = !entry.ok ? SIZE_MAX
                             : stg_material_distance(kernel->material, kernel->material_size,
                                                     entry.material, entry.material_bytes);
    if (found < distance) {
      nearest = i;
      distance = found;
    }
    if (!entry.ok && is_of(kernel, &entry)) {
      miss->bad_path = entry.path; /* outlives the entry, as its problem does */
      miss->bad_problem = entry.problem;
    }
    stg_cache_forget(cache, i);
  }
  *ret_index = nearest;
  *ret_distance = distance;
  return STG_OK;
}

stg_status stg_why_miss(const struct stg_explained *kernel, stg_cache *cache,
                        struct stg_miss *ret_miss, stg_error *reterr) {
  size_t index = 0;
  size_t distance = 0;
  struct stg_miss miss = {.hit = false};
  stg_status status = find_nearest(kernel, cache, &miss, &index, &distance, reterr);
  if (status != STG_OK) {
    return status;
  }
  miss.hit = distance == 0;
  if (miss.hit) {
    miss.bad_path = miss.bad_problem = NULL;
  }
  if (index != SIZE_MAX) {
    stg_cache_entry entry;
    const stg_cache_entry wanted = {.material = kernel->material,
                                    .material_bytes = kernel->material_size};
    status = stg_cache_get(cache, index, &entry, reterr);
    if (status == STG_OK && !entry.ok) { /* gone meanwhile */
      *ret_miss = (struct stg_miss){0};
      return STG_OK;
    }
    if (status == STG_OK) {
      status = stg_cache_explain(cache, &wanted, &entry, &miss.factors, &miss.n_factors, reterr);
    }
    miss.path = entry.path;
    memcpy(miss.key, entry.key, sizeof miss.key);
  }
  if (status == STG_OK) {
    *ret_miss = miss;
  }
  return status;
}

/*
 * cache_totals.c: what the layers of an inspected cache hold, and what was done with its last
 * folder.
 *
 * Must not know how either is kept.
 */
#include "engine/cache_disk.h"
#include "engine/cache_left_out.h"
#include "runtime/disk_stats.h"

size_t stg_cache_layer_count(const stg_cache *cache) {
  return cache == NULL ? 0 : stg_disk_cache_layers(stg_cache_disk(cache));
}

stg_status stg_cache_layer_get(stg_cache *cache, size_t index, stg_cache_layer *ret_layer,
                               stg_error *reterr) {
  struct stg_disk_survey survey = {0};
  const size_t count = stg_cache_layer_count(cache);
  if (ret_layer == NULL || index >= count) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache layer %zu, the cache has %zu", index,
                         count);
  }
  if (ret_layer->struct_size != sizeof *ret_layer) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_cache_layer: struct_size is %zu, this library's is %zu",
                         ret_layer->struct_size, sizeof *ret_layer);
  }
  struct stg_left_outs left_out = {0};
  struct stg_arena *arena = stg_cache_arena(cache);
  stg_status status = stg_disk_cache_survey(stg_cache_disk(cache), index, arena, &survey, reterr);
  for (size_t i = 0; i < survey.n_left_out && status == STG_OK; i++) {
    status = stg_left_outs_add(&left_out, arena, &survey.left_out[i], reterr);
  }
  if (status == STG_OK) {
    *ret_layer = (stg_cache_layer){.struct_size = sizeof *ret_layer,
                                   .path = survey.root,
                                   .is_pack = survey.is_pack,
                                   .is_last = index + 1 == count,
                                   .entries = survey.entries,
                                   .graphs = survey.recipes,
                                   .temporary = survey.temporary,
                                   .quarantined = survey.quarantined,
                                   .entry_bytes = survey.entry_bytes,
                                   .bytes = survey.bytes,
                                   .oldest_unix = survey.oldest_unix,
                                   .left_out = left_out.items,
                                   .n_left_out = left_out.count};
  }
  return status;
}

stg_status stg_cache_read_totals(stg_cache *cache, stg_cache_totals *ret_totals,
                                 stg_error *reterr) {
  struct stg_disk_totals totals;
  if (cache == NULL || ret_totals == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_cache_read_totals: cache or ret_totals is NULL");
  }
  if (ret_totals->struct_size != sizeof *ret_totals) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_cache_totals: struct_size is %zu, this library's is %zu",
                         ret_totals->struct_size, sizeof *ret_totals);
  }
  stg_status status = stg_disk_cache_totals(stg_cache_disk(cache), &totals, reterr);
  if (status == STG_OK) {
    ret_totals->since_unix = totals.since_unix;
#define COPY(name) ret_totals->name = totals.name;
    STG_DISK_TOTALS_LIST(COPY)
#undef COPY
  }
  return status;
}

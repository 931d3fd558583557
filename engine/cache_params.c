/*
 * cache_params.c: what the kernel of a cache entry takes, for its inspector.
 */
#include <steergraph/cache.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/cubin_params.h"

stg_status stg_cache_params(const stg_cache_entry *entry, stg_cache_param *ret_params,
                            size_t capacity, size_t *ret_count, stg_error *reterr) {
  struct stg_cubin_param *params = NULL;
  size_t count = 0;
  if (entry == NULL || ret_count == NULL || (ret_params == NULL && capacity > 0)) {
    return stg_error_set(reterr, STG_E_INVALID, "no cache entry or no room for its parameters");
  }
  if (entry->cubin == NULL) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "the cubin of a cache entry is not read; take one of stg_cache_get");
  }
  stg_status status =
      stg_cubin_params(entry->cubin, entry->cubin_bytes, entry->kernel, &params, &count, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; i < count && i < capacity; i++) {
    ret_params[i] = (stg_cache_param){.ordinal = params[i].ordinal,
                                      .offset_bytes = params[i].offset_bytes,
                                      .size_bytes = params[i].size_bytes};
  }
  stg_free(params);
  *ret_count = count;
  return STG_OK;
}

/*
 * region_bucket.c: padded sizes for a host's own work, and what is larger cut into pieces of them.
 */
#include <steergraph/region.h>

#include "engine/signature.h"

/* The next power of two of what is larger does not fit an int64_t. */
#define LARGEST_PADDED (INT64_C(1) << 62)

static stg_status check(const char *function, const int64_t *sizes, size_t n_sizes, int64_t size,
                        stg_error *reterr) {
  if (size < 0) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: size %lld is negative", function,
                         (long long)size);
  }
  if (sizes == NULL && n_sizes > 0) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: sizes is NULL, and n_sizes %zu", function,
                         n_sizes);
  }
  for (size_t i = 0; i < n_sizes; i++) {
    const int64_t before = i > 0 ? sizes[i - 1] : 0;
    if (sizes[i] <= before) {
      return stg_error_set(reterr, STG_E_INVALID, "%s: sizes[%zu] is %lld, which is not above %lld",
                           function, i, (long long)sizes[i], (long long)before);
    }
  }
  return STG_OK;
}

static int64_t largest_of(const int64_t *sizes, size_t n_sizes) {
  return n_sizes > 0 ? sizes[n_sizes - 1] : LARGEST_PADDED;
}

static stg_status pad(const int64_t *sizes, size_t n_sizes, int64_t size, int64_t *ret_padded,
                      stg_error *reterr) {
  const struct stg_buckets buckets = {.sizes = sizes, .count = n_sizes};
  const int64_t largest = largest_of(sizes, n_sizes);
  if (size > largest) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "stg_region_bucket: size %lld is more than the largest bucket %lld; cut "
                         "it by stg_region_chunks",
                         (long long)size, (long long)largest);
  }
  return stg_row_bucket(&buckets, size, ret_padded, reterr);
}

stg_status stg_region_bucket(const int64_t *sizes, size_t n_sizes, int64_t size,
                             int64_t *ret_padded, stg_error *reterr) {
  if (ret_padded == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_region_bucket: ret_padded is NULL");
  }
  stg_status status = check("stg_region_bucket", sizes, n_sizes, size, reterr);
  return status == STG_OK ? pad(sizes, n_sizes, size, ret_padded, reterr) : status;
}

stg_status stg_region_chunks(const int64_t *sizes, size_t n_sizes, int64_t size,
                             stg_region_chunk *ret_chunks, size_t capacity, size_t *ret_n_chunks,
                             stg_error *reterr) {
  if (ret_n_chunks == NULL || (ret_chunks == NULL && capacity > 0)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_region_chunks: ret_n_chunks is NULL, or ret_chunks with a capacity");
  }
  stg_status status = check("stg_region_chunks", sizes, n_sizes, size, reterr);
  if (status != STG_OK) {
    return status;
  }
  const int64_t largest = largest_of(sizes, n_sizes);
  const uint64_t n_full = (uint64_t)(size / largest);
  const int64_t rest = size % largest;
  const size_t n_chunks = (size_t)n_full + (rest > 0 ? 1 : 0);
  *ret_n_chunks = n_chunks;
  if (ret_chunks == NULL) {
    return STG_OK;
  }
  if (n_chunks > capacity) {
    return stg_error_set(reterr, STG_E_CAPACITY,
                         "stg_region_chunks: %lld is %zu chunks of at most %lld, and there is room "
                         "for %zu",
                         (long long)size, n_chunks, (long long)largest, capacity);
  }
  for (size_t i = 0; i < n_chunks && status == STG_OK; i++) {
    stg_region_chunk *chunk = &ret_chunks[i];
    *chunk = (stg_region_chunk){
        .first = (int64_t)i * largest, .size = i < n_full ? largest : rest, .padded = largest};
    if (i == n_full) {
      status = pad(sizes, n_sizes, rest, &chunk->padded, reterr);
    }
  }
  return status;
}

/*
 * signature.c: see signature.h.
 */
#include "engine/signature.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/intmath.h"
#include "runtime/recipe.h"

#define SMALLEST_BATCH_BUCKET 8
#define SIGNATURE_BAR " | "

stg_status stg_buckets_check(const char *field, const int64_t *sizes, size_t count, int64_t max,
                             stg_error *reterr) {
  if (count > 0 && sizes == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: NULL with a count of %zu", field, count);
  }
  for (size_t i = 0; i < count; i++) {
    if (sizes[i] < 1 || sizes[i] > max || (i > 0 && sizes[i] <= sizes[i - 1])) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "%s[%zu]: %lld; buckets ascend and are in 1..%lld", field, i,
                           (long long)sizes[i], (long long)max);
    }
  }
  return STG_OK;
}

static stg_status from_list(const struct stg_buckets *buckets, const char *what, int64_t size,
                            int64_t *ret_bucket, stg_error *reterr) {
  for (size_t i = 0; i < buckets->count; i++) {
    if (buckets->sizes[i] >= size) {
      *ret_bucket = buckets->sizes[i];
      return STG_OK;
    }
  }
  return stg_error_set(reterr, STG_E_CAPACITY, "%s: %lld is more than the largest bucket %lld",
                       what, (long long)size, (long long)buckets->sizes[buckets->count - 1]);
}

static int64_t default_row_bucket(int64_t rows) {
  static const struct { int64_t up_to, unit; } ranges[] = {{64, 8}, {128, 16}, {256, 32}};
  if (rows <= 8) {
    return (int64_t)stg_next_pow2((size_t)(rows < 1 ? 1 : rows));
  }
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    if (rows <= ranges[i].up_to) {
      return (int64_t)stg_round_up((size_t)rows, (size_t)ranges[i].unit);
    }
  }
  return (int64_t)stg_next_pow2((size_t)rows);
}

stg_status stg_row_bucket(const struct stg_buckets *buckets, int64_t rows, int64_t *ret_bucket,
                          stg_error *reterr) {
  if (buckets->count > 0) {
    return from_list(buckets, "rows", rows, ret_bucket, reterr);
  }
  *ret_bucket = default_row_bucket(rows);
  return STG_OK;
}

stg_status stg_batch_bucket(const struct stg_buckets *buckets, int64_t requests,
                            int64_t *ret_bucket, stg_error *reterr) {
  if (buckets->count > 0) {
    return from_list(buckets, "requests", requests, ret_bucket, reterr);
  }
  size_t bucket = stg_next_pow2((size_t)(requests < 1 ? 1 : requests));
  *ret_bucket = bucket < SMALLEST_BATCH_BUCKET ? SMALLEST_BATCH_BUCKET : (int64_t)bucket;
  return STG_OK;
}

void stg_graph_shape_print(const struct stg_graph_shape *shape, struct stg_strbuf *out) {
  stg_strbuf_printf(out, " | batch<=%lld seq<=%lld rows<=%lld", (long long)shape->batch,
                    (long long)shape->seq, (long long)shape->rows);
}

size_t stg_signature_chars(const char *kernel, const char *arch) {
  const size_t end = strlen(SIGNATURE_BAR) + strlen(arch);
  const size_t len = strlen(kernel);
  assert(len > end && strcmp(kernel + len - strlen(arch), arch) == 0);
  return len - end;
}

size_t stg_signature_join(const char *const *kernels, size_t count, const char *arch,
                          struct stg_strbuf *out) {
  const size_t begin = out->len;
  for (size_t i = 0; i < count; i++) {
    stg_strbuf_str(out, i > 0 ? STG_SIGNATURE_BETWEEN : "");
    stg_strbuf_mem(out, kernels[i], stg_signature_chars(kernels[i], arch));
  }
  const size_t joined = out->len - begin;
  stg_strbuf_printf(out, SIGNATURE_BAR "%s", arch);
  return joined;
}

struct stg_key stg_graph_key(const struct stg_key *kernels, size_t count,
                             const struct stg_graph_shape *shape) {
  char text[STG_RECIPE_KEY_TEXT_CHARS];
  struct stg_key all = kernels[0];
  for (size_t i = 1; i < count; i++) {
    all = stg_recipe_fold_key(all, kernels[i]);
  }
  const size_t len = stg_recipe_key_text(all, shape->batch, shape->seq, shape->rows, text);
  return stg_key_of(text, len);
}

/*
 * spec_frame.c: the members that workloads of all families have: version, family, element types,
 * runs and buckets.
 */
#include "specs/spec_frame.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "specs/workload.h"

stg_status stg_spec_read_family(const struct stg_spec_reader *reader, const struct stg_json *root,
                                enum stg_spec_kind *ret_kind) {
  struct stg_json member;
  const char *family = NULL;
  int64_t version = 0;
  stg_status status = stg_json_get(root, "steergraph", &member, reader->err);
  if (status == STG_OK) {
    status = stg_json_int(&member, 1, 1, &version, reader->err);
  }
  if (status == STG_OK) {
    status = stg_json_get(root, "family", &member, reader->err);
  }
  if (status == STG_OK) {
    status = stg_json_string(&member, &family, reader->err);
  }
  if (status == STG_OK && !stg_spec_kind_find(family, ret_kind)) {
    status = stg_json_error(reader->err, STG_E_UNSUPPORTED, &member,
                            "'%.40s' is not a family; use 'steer', 'rope', 'decode', 'step', "
                            "'prover' or 'components'",
                            family);
  }
  return status;
}

stg_status stg_spec_read_dtype(const struct stg_spec_reader *reader, const struct stg_json *at,
                               stg_dtype *ret_dtype) {
  const char *text = NULL;
  stg_status status = stg_json_string(at, &text, reader->err);
  if (status == STG_OK && !stg_dtype_parse(text, ret_dtype)) {
    status = stg_json_error(reader->err, STG_E_FORMAT, at,
                            "'%.40s' is not a dtype; use 'bf16', 'f16' or 'f32'", text);
  }
  return status;
}

stg_status stg_spec_read_optional_int(const struct stg_spec_reader *reader,
                                      const struct stg_json *object, const char *key, int64_t min,
                                      int64_t max, int64_t *ret) {
  struct stg_json member;
  if (!stg_json_find(object, key, &member)) {
    return STG_OK;
  }
  return stg_json_int(&member, min, max, ret, reader->err);
}

stg_status stg_spec_read_run(const struct stg_spec_reader *reader, const struct stg_json *root,
                             uint32_t *ret_warmup, uint32_t *ret_repeats) {
  static const char *const keys[] = {"warmup", "repeats", NULL};
  struct stg_json run;
  int64_t warmup = *ret_warmup;
  int64_t repeats = *ret_repeats;
  stg_status status = STG_OK;
  if (stg_json_find(root, "run", &run)) {
    status = stg_json_check_keys(&run, keys, reader->err);
    if (status == STG_OK) {
      status =
          stg_spec_read_optional_int(reader, &run, "warmup", 0, STG_WORKLOAD_MAX_REPEATS, &warmup);
    }
    if (status == STG_OK) {
      status = stg_spec_read_optional_int(reader, &run, "repeats", 1, STG_WORKLOAD_MAX_REPEATS,
                                          &repeats);
    }
  }
  *ret_warmup = (uint32_t)warmup;
  *ret_repeats = (uint32_t)repeats;
  return status;
}

/* An ascending list of sizes whose last one holds `needed` of `what`. */
static stg_status read_bucket_list(const struct stg_spec_reader *reader,
                                   const struct stg_json *list, int64_t needed,
                                   const int64_t **ret_buckets, size_t *ret_count) {
  struct stg_arena *arena = reader->arena;
  stg_status status = stg_json_expect_array(list, reader->err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(list);
  if (n == 0 || n > STG_WORKLOAD_MAX_BUCKETS) {
    return stg_json_error(reader->err, STG_E_FORMAT, list,
                          "%zu buckets; give 1 to %d, or leave '%s' out", n,
                          STG_WORKLOAD_MAX_BUCKETS, list->key);
  }
  int64_t *buckets = stg_arena_alloc(arena, n, sizeof *buckets);
  if (buckets == NULL) {
    return stg_arena_status(arena, reader->err);
  }
  struct stg_json item;
  bool more = stg_json_first(list, &item);
  for (; more; more = stg_json_next(&item)) {
    size_t i = item.index;
    status = stg_json_int(&item, 1, STG_WORKLOAD_MAX_ROWS, &buckets[i], reader->err);
    if (status != STG_OK) {
      return status;
    }
    if (i > 0 && buckets[i] <= buckets[i - 1]) {
      return stg_json_error(reader->err, STG_E_FORMAT, &item,
                            "%" PRId64 " comes after %" PRId64 "; write buckets in ascending order",
                            buckets[i], buckets[i - 1]);
    }
  }
  if (needed > buckets[n - 1]) {
    return stg_json_error(reader->err, STG_E_FORMAT, list,
                          "the batch has %" PRId64 ", but the largest bucket is %" PRId64
                          "; add a larger one",
                          needed, buckets[n - 1]);
  }
  *ret_buckets = buckets;
  *ret_count = n;
  return STG_OK;
}

stg_status stg_spec_read_buckets(const struct stg_spec_reader *reader, const struct stg_json *root,
                                 int64_t rows, int64_t requests, struct stg_spec_buckets *ret) {
  static const char *const keys[] = {"rows", "batch", NULL};
  struct stg_json buckets;
  struct stg_json list;
  if (!stg_json_find(root, "buckets", &buckets)) {
    return STG_OK;
  }
  stg_status status = stg_json_check_keys(&buckets, keys, reader->err);
  if (status == STG_OK && stg_json_find(&buckets, "rows", &list)) {
    status = read_bucket_list(reader, &list, rows, &ret->rows, &ret->n_rows);
  }
  if (status == STG_OK && stg_json_find(&buckets, "batch", &list)) {
    status = read_bucket_list(reader, &list, requests, &ret->batch, &ret->n_batch);
  }
  return status;
}

/*
 * attention_workload.c: read a workload of rope, decode or step: the geometry, the steering of a
 * step, and the order in which members are read.
 *
 * Knows no device and no formula; members with rules of their own are read by attention_cache.c,
 * attention_rope.c, attention_rows.c and attention_input.c.
 */
#include "specs/attention_workload.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/base/dtype.h"
#include "specs/attention_reader.h"
#include "specs/workload_reader.h"

typedef stg_status (*read_part)(struct stg_attention_reader *, const struct stg_json *);

static stg_status read_family(struct stg_attention_reader *reader, const struct stg_json *root) {
  return stg_spec_read_family(&reader->spec, root, &reader->workload->kind);
}

static stg_status read_required_int(struct stg_attention_reader *reader,
                                    const struct stg_json *object, const char *key, int64_t min,
                                    int64_t max, int64_t *ret) {
  struct stg_json member;
  stg_status status = stg_json_get(object, key, &member, reader->spec.err);
  return status == STG_OK ? stg_json_int(&member, min, max, ret, reader->spec.err) : status;
}

static stg_status read_kv_heads(struct stg_attention_reader *reader,
                                const struct stg_json *geometry) {
  struct stg_attention_workload *w = reader->workload;
  struct stg_json member;
  int64_t kv_heads = w->heads;
  if (!stg_json_find(geometry, "kv_heads", &member)) {
    w->kv_heads = w->heads;
    return STG_OK;
  }
  stg_status status =
      stg_json_int(&member, 1, STG_ATTENTION_MAX_HEADS, &kv_heads, reader->spec.err);
  if (status == STG_OK && w->heads % kv_heads != 0) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 " does not divide the %u heads", kv_heads, w->heads);
  }
  w->kv_heads = (uint32_t)kv_heads;
  return status;
}

static stg_status read_dim(struct stg_attention_reader *reader, const struct stg_json *geometry) {
  struct stg_json member;
  int64_t dim = 0;
  stg_status status = read_required_int(reader, geometry, "dim", STG_ATTENTION_MIN_DIM,
                                        STG_ATTENTION_MAX_DIM, &dim);
  if (status == STG_OK && dim % 2 != 0 && stg_json_find(geometry, "dim", &member)) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "%" PRId64 " is odd; a rotation takes elements in pairs", dim);
  }
  reader->workload->dim = (uint32_t)dim;
  return status;
}

static stg_status read_geometry(struct stg_attention_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"heads", "kv_heads", "dim", "layers", "dtype", NULL};
  struct stg_attention_workload *w = reader->workload;
  struct stg_json geometry;
  struct stg_json member;
  int64_t heads = 0;
  int64_t layers = 1;
  stg_status status = stg_json_get(root, "geometry", &geometry, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&geometry, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_required_int(reader, &geometry, "heads", 1, STG_ATTENTION_MAX_HEADS, &heads);
  }
  w->heads = (uint32_t)heads;
  if (status == STG_OK) {
    status = read_kv_heads(reader, &geometry);
  }
  if (status == STG_OK) {
    status = read_dim(reader, &geometry);
  }
  if (status == STG_OK) {
    status = stg_spec_read_optional_int(&reader->spec, &geometry, "layers", 1,
                                        STG_WORKLOAD_MAX_LAYERS, &layers);
  }
  w->layers = (uint32_t)layers;
  if (status == STG_OK) {
    status = stg_json_get(&geometry, "dtype", &member, reader->spec.err);
  }
  return status == STG_OK ? stg_spec_read_dtype(&reader->spec, &member, &w->dtype) : status;
}

/* Lengths grow once in a step of all layers, behind the last one. */
static stg_status read_advance(struct stg_attention_reader *reader, const struct stg_json *root) {
  struct stg_attention_workload *w = reader->workload;
  struct stg_json member;
  const bool is_last = w->layer == w->layers - 1;
  w->advance = is_last;
  if (!stg_json_find(root, "advance", &member)) {
    return STG_OK;
  }
  stg_status status = stg_json_bool(&member, &w->advance, reader->spec.err);
  if (status == STG_OK && w->advance && !is_last) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "lengths grow behind the last layer, %u; rows.layer is %u",
                            w->layers - 1, w->layer);
  }
  return status;
}

/* Fail at a member of the steering's object `in`; it may have been left out. */
static stg_status fail_steer(struct stg_attention_reader *reader, const struct stg_json *steer,
                             const char *in, const char *key, const char *message) {
  struct stg_json object;
  struct stg_json member;
  const struct stg_json *at = steer;
  if (stg_json_find(steer, in, &object)) {
    at = stg_json_find(&object, key, &member) ? &member : &object;
  }
  return stg_json_error(reader->spec.err, STG_E_FORMAT, at, "%s", message);
}

/* What is steered are the rows that the attention gives out. */
static stg_status check_steer(struct stg_attention_reader *reader, const struct stg_json *at) {
  const struct stg_attention_workload *w = reader->workload;
  const struct stg_workload *steer = &w->steer;
  const int64_t hidden_size = (int64_t)w->heads * w->dim;
  char text[160];
  if (steer->hidden_size != hidden_size) {
    snprintf(text, sizeof text, "%" PRId64 ", but rows of %u heads of %u have %" PRId64 " elements",
             steer->hidden_size, w->heads, w->dim, hidden_size);
    return fail_steer(reader, at, "geometry", "hidden_size", text);
  }
  if (steer->dtype != w->dtype) {
    snprintf(text, sizeof text, "'%s', but the step's is '%s'", stg_dtype_name(steer->dtype),
             stg_dtype_name(w->dtype));
    return fail_steer(reader, at, "geometry", "dtype", text);
  }
  if (steer->pair) {
    return fail_steer(reader, at, "geometry", "state",
                      "a step has no residual; leave it out, or use 'hidden'");
  }
  if (steer->rows != w->rows) {
    snprintf(text, sizeof text, "%" PRId64 " rows, but rows.requests has %" PRId64, steer->rows,
             w->rows);
    return fail_steer(reader, at, "batch", "requests", text);
  }
  if (w->attend.order != STG_SPEC_ORDER_ROWS) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "steering takes whole rows; attend.order must be 'rows'");
  }
  return STG_OK;
}

static stg_status read_steer(struct stg_attention_reader *reader, const struct stg_json *root) {
  struct stg_json at;
  if (!stg_json_find(root, "steer", &at)) {
    return STG_OK;
  }
  stg_status status = stg_workload_read_part(&reader->spec, &at, &reader->workload->steer);
  if (status != STG_OK) {
    return status;
  }
  reader->workload->steered = true;
  return check_steer(reader, &at);
}

static stg_status read_buckets(struct stg_attention_reader *reader, const struct stg_json *root) {
  struct stg_attention_workload *w = reader->workload;
  struct stg_spec_buckets buckets = {0};
  stg_status status =
      stg_spec_read_buckets(&reader->spec, root, w->rows, (int64_t)w->sequences, &buckets);
  w->row_buckets = buckets.rows;
  w->n_row_buckets = buckets.n_rows;
  w->batch_buckets = buckets.batch;
  w->n_batch_buckets = buckets.n_batch;
  return status;
}

static stg_status read_run(struct stg_attention_reader *reader, const struct stg_json *root) {
  struct stg_attention_workload *w = reader->workload;
  w->warmup = STG_WORKLOAD_WARMUP;
  w->repeats = STG_WORKLOAD_REPEATS;
  return stg_spec_read_run(&reader->spec, root, &w->warmup, &w->repeats);
}

/* The family first, then its members. */
static stg_status read_root(struct stg_attention_reader *reader, const struct stg_json *root) {
  static const char *const keys[STG_SPEC_KINDS][13] = {
      [STG_SPEC_ROPE] = {"steergraph", "family", "geometry", "rope", "cache", "rows", "buckets",
                         "input", "run", NULL},
      [STG_SPEC_DECODE] = {"steergraph", "family", "geometry", "attend", "cache", "tokens", "rows",
                           "buckets", "input", "run", NULL},
      [STG_SPEC_STEP] = {"steergraph", "family", "geometry", "rope", "attend", "cache", "rows",
                         "advance", "steer", "buckets", "input", "run", NULL},
  };
  static const read_part parts[STG_SPEC_KINDS][10] = {
      [STG_SPEC_ROPE] = {read_geometry, stg_attention_read_cache, stg_attention_read_rope,
                         stg_attention_read_rows, stg_attention_read_input, read_buckets, read_run},
      [STG_SPEC_DECODE] = {read_geometry, stg_attention_read_cache, stg_attention_read_attend,
                           stg_attention_read_rows, stg_attention_read_input, read_buckets,
                           read_run},
      [STG_SPEC_STEP] = {read_geometry, stg_attention_read_cache, stg_attention_read_rope,
                         stg_attention_read_attend, stg_attention_read_rows, read_advance,
                         read_steer, stg_attention_read_input, read_buckets, read_run},
  };
  stg_status status = read_family(reader, root);
  if (status != STG_OK) {
    return status;
  }
  const enum stg_spec_kind kind = reader->workload->kind;
  status = stg_json_check_keys(root, keys[kind], reader->spec.err);
  for (size_t i = 0; i < sizeof parts[0] / sizeof parts[0][0] && parts[kind][i] != NULL; i++) {
    status = status == STG_OK ? parts[kind][i](reader, root) : status;
  }
  return status;
}

stg_status stg_attention_read_root(const struct stg_spec_reader *outer, const struct stg_json *root,
                                   struct stg_attention_workload *ret_workload) {
  struct stg_attention_workload workload = {0};
  struct stg_attention_reader reader = {.spec = *outer, .workload = &workload};
  reader.spec.arena = &workload.arena;
  workload.file = stg_arena_strdup(&workload.arena, outer->file);
  stg_status status =
      stg_spec_open_init(&workload.arena, workload.file, &workload.open, outer->err);
  status = status == STG_OK ? read_root(&reader, root) : status;
  if (status != STG_OK) {
    stg_attention_finish(&workload);
    return status;
  }
  *ret_workload = workload;
  return STG_OK;
}

void stg_attention_finish(struct stg_attention_workload *workload) {
  if (workload == NULL) {
    return;
  }
  stg_workload_finish(&workload->steer);
  stg_spec_open_fini(workload->open);
  stg_arena_finish(&workload->arena);
  *workload = (struct stg_attention_workload){0};
}

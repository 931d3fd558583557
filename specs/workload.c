/*
 * workload.c: read a steer workload: the frame of the file, its geometry, its inputs and its run.
 *
 * The members with their own rules are read by workload_vectors.c, workload_slots.c,
 * workload_batch.c and workload_epilogue.c, in an order in which references only point backwards.
 * Knows no device and no op's meaning.
 */
#include "specs/workload.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "runtime/base/utf8.h"
#include "specs/workload_reader.h"

static stg_status read_family(struct stg_workload_reader *reader, const struct stg_json *root) {
  enum stg_spec_kind kind = STG_SPEC_STEER;
  stg_status status = stg_spec_read_family(&reader->spec, root, &kind);
  if (status == STG_OK && kind != STG_SPEC_STEER) {
    status = stg_error_set(reader->spec.err, STG_E_UNSUPPORTED,
                           "%s: family: '%s' where steering is read; use 'steer'",
                           reader->spec.file, stg_spec_kind_name(kind));
  }
  return status;
}

static stg_status read_dtypes(struct stg_workload_reader *reader, const struct stg_json *geometry) {
  struct stg_workload *workload = reader->workload;
  struct stg_json member;
  stg_status status = stg_json_get(geometry, "dtype", &member, reader->spec.err);
  if (status == STG_OK) {
    status = stg_spec_read_dtype(&reader->spec, &member, &workload->dtype);
  }
  if (status != STG_OK) {
    return status;
  }
  workload->bank_dtype = workload->dtype;
  if (!stg_json_find(geometry, "bank_dtype", &member)) {
    return STG_OK;
  }
  status = stg_spec_read_dtype(&reader->spec, &member, &workload->bank_dtype);
  if (status == STG_OK && workload->bank_dtype != workload->dtype &&
      workload->bank_dtype != STG_F32) {
    status = stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'%s' with dtype '%s'; the bank has the same dtype, or 'f32'",
                            stg_dtype_name(workload->bank_dtype), stg_dtype_name(workload->dtype));
  }
  return status;
}

/* The model's name, which files may be for. */
static stg_status read_model(struct stg_workload_reader *reader, const struct stg_json *geometry) {
  struct stg_json member;
  const char *model = NULL;
  if (!stg_json_find(geometry, "model", &member)) {
    return STG_OK;
  }
  stg_status status = stg_json_string(&member, &model, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  if (strpbrk(model, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == NULL ||
      strlen(model) > STG_WORKLOAD_MAX_NAME_BYTES || !stg_utf8_is_name(model, strlen(model))) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                          "not a model's name; it has letters or digits, at most %d bytes, and no "
                          "control characters",
                          STG_WORKLOAD_MAX_NAME_BYTES);
  }
  reader->workload->model = stg_arena_strdup(&reader->workload->arena, model);
  return stg_arena_status(&reader->workload->arena, reader->spec.err);
}

static stg_status read_geometry(struct stg_workload_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"hidden_size", "layers", "dtype", "bank_dtype",
                                     "state",       "model",  NULL};
  struct stg_workload *workload = reader->workload;
  struct stg_json geometry;
  struct stg_json member;
  const char *state = "hidden";
  int64_t layers = 1;
  stg_status status = stg_json_get(root, "geometry", &geometry, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&geometry, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_get(&geometry, "hidden_size", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_int(&member, 1, STG_WORKLOAD_MAX_HIDDEN_SIZE, &workload->hidden_size,
                          reader->spec.err);
  }
  if (status == STG_OK && stg_json_find(&geometry, "layers", &member)) {
    status = stg_json_int(&member, 1, STG_WORKLOAD_MAX_LAYERS, &layers, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_dtypes(reader, &geometry);
  }
  if (status == STG_OK) {
    status = read_model(reader, &geometry);
  }
  if (status == STG_OK && stg_json_find(&geometry, "state", &member)) {
    status = stg_json_string(&member, &state, reader->spec.err);
  }
  if (status != STG_OK) {
    return status;
  }
  workload->layers = (uint32_t)layers;
  workload->pair = strcmp(state, "hidden+residual") == 0;
  if (!workload->pair && strcmp(state, "hidden") != 0) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                          "'%.40s' is not a state; use 'hidden' or 'hidden+residual'", state);
  }
  return STG_OK;
}

static stg_status read_op_file(struct stg_workload_reader *reader, const struct stg_json *at,
                               const struct stg_op_decl **ops) {
  const char *path = NULL;
  stg_status status = stg_spec_read_path(&reader->spec, at, &path);
  if (status != STG_OK) {
    return status;
  }
  status = stg_op_decl_load(&reader->workload->arena, path, &ops[at->index], reader->spec.err);
  if (status != STG_OK) {
    char place[STG_JSON_PATH_BYTES];
    stg_json_path(at, place);
    stg_error_prefix(reader->spec.err, "%s: %s: ", reader->workload->file, place);
    return status;
  }
  const char *name = ops[at->index]->name;
  if (stg_op_name_is_builtin(name)) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "'%s' defines the built-in op '%s'; choose another name", path, name);
  }
  for (size_t i = 0; i < at->index; i++) {
    if (strcmp(ops[i]->name, name) == 0) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                            "op '%s' is defined in '%s' already; rename one", name, ops[i]->file);
    }
  }
  return STG_OK;
}

static stg_status read_ops(struct stg_workload_reader *reader, const struct stg_json *root) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json list;
  if (!stg_json_find(root, "ops", &list)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_array(&list, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(&list);
  if (n > STG_WORKLOAD_MAX_OPS) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &list, "%zu op files; at most %d", n,
                          STG_WORKLOAD_MAX_OPS);
  }
  const struct stg_op_decl **ops = stg_arena_alloc(arena, n, sizeof(const struct stg_op_decl *));
  if (ops == NULL) {
    return stg_arena_status(arena, reader->spec.err);
  }
  struct stg_json item;
  bool more = stg_json_first(&list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = read_op_file(reader, &item, ops);
  }
  reader->workload->ops = ops;
  reader->workload->n_ops = n;
  return status;
}

stg_status stg_spec_check_count(struct stg_workload_reader *reader, const struct stg_json *source,
                                const struct stg_spec_vector_source *read, int64_t needed) {
  const struct stg_workload *workload = reader->workload;
  struct stg_json count;
  if (read->count == 0 || read->count == needed || !stg_json_find(source, "count", &count)) {
    return STG_OK;
  }
  if (needed == workload->hidden_size) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &count,
                          "%" PRId64 ", but geometry.hidden_size is %" PRId64, read->count, needed);
  }
  return stg_json_error(reader->spec.err, STG_E_FORMAT, &count,
                        "%" PRId64 ", but %" PRId64 " rows of %" PRId64 " need %" PRId64,
                        read->count, workload->rows, workload->hidden_size, needed);
}

/* A source of [rows, hidden_size] elements. */
static stg_status read_rows_source(struct stg_workload_reader *reader, const struct stg_json *at,
                                   struct stg_spec_vector_source *ret_source) {
  static const char *const keys[] = {"file", "tensor", "offset", "count", "values", "random", NULL};
  const struct stg_workload *workload = reader->workload;
  stg_status status = stg_json_check_keys(at, keys, reader->spec.err);
  if (status == STG_OK) {
    status = stg_spec_read_source(&reader->spec, at, STG_LAYERS_REFUSED, ret_source);
  }
  /* at most 2^42, see the limits */
  int64_t needed = workload->rows * workload->hidden_size;
  if (status == STG_OK) {
    status = stg_spec_check_count(reader, at, ret_source, needed);
  }
  if (status != STG_OK || ret_source->kind != STG_VECTOR_VALUES) {
    return status;
  }
  if ((int64_t)ret_source->n_values != needed) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "%zu values, but %" PRId64 " rows of %" PRId64 " need %" PRId64,
                          ret_source->n_values, workload->rows, workload->hidden_size, needed);
  }
  return STG_OK;
}

static stg_status read_input(struct stg_workload_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"hidden", "residual", NULL};
  struct stg_workload *workload = reader->workload;
  struct stg_json input;
  struct stg_json member;
  stg_status status = stg_json_get(root, "input", &input, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(&input, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_json_get(&input, "hidden", &member, reader->spec.err);
  }
  if (status == STG_OK) {
    status = read_rows_source(reader, &member, &workload->hidden);
  }
  if (status != STG_OK) {
    return status;
  }
  if (stg_json_find(&input, "residual", &member) && !workload->pair) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                          "geometry.state is 'hidden'; leave 'residual' out, or set the state to "
                          "'hidden+residual'");
  }
  if (!workload->pair) {
    return STG_OK;
  }
  status = stg_json_get(&input, "residual", &member, reader->spec.err);
  return status == STG_OK ? read_rows_source(reader, &member, &workload->residual) : status;
}

static stg_status read_run(struct stg_workload_reader *reader, const struct stg_json *root) {
  struct stg_workload *w = reader->workload;
  w->warmup = STG_WORKLOAD_WARMUP;
  w->repeats = STG_WORKLOAD_REPEATS;
  return stg_spec_read_run(&reader->spec, root, &w->warmup, &w->repeats);
}

static stg_status read_buckets(struct stg_workload_reader *reader, const struct stg_json *root) {
  struct stg_workload *workload = reader->workload;
  struct stg_spec_buckets buckets = {0};
  stg_status status = stg_spec_read_buckets(&reader->spec, root, workload->rows,
                                            (int64_t)workload->n_requests, &buckets);
  workload->row_buckets = buckets.rows;
  workload->n_row_buckets = buckets.n_rows;
  workload->batch_buckets = buckets.batch;
  workload->n_batch_buckets = buckets.n_batch;
  return status;
}

typedef stg_status (*read_part)(struct stg_workload_reader *, const struct stg_json *);

static stg_status read_members(struct stg_workload_reader *reader, const struct stg_json *at,
                               const char *const *keys, const read_part *parts, size_t n_parts) {
  stg_status status = stg_json_check_keys(at, keys, reader->spec.err);
  for (size_t i = 0; i < n_parts && status == STG_OK; i++) {
    status = parts[i](reader, at);
  }
  return status;
}

static stg_status read_root(struct stg_workload_reader *reader, const struct stg_json *root) {
  static const char *const keys[] = {"steergraph", "family", "geometry", "ops",
                                     "vectors",    "slots",  "batch",    "buckets",
                                     "input",      "run",    "epilogue", NULL};
  /* each part refers to earlier parts only */
  static const read_part parts[] = {read_family,
                                    read_geometry,
                                    read_ops,
                                    stg_spec_read_vectors,
                                    stg_spec_read_slots,
                                    stg_spec_read_batch,
                                    read_buckets,
                                    stg_spec_read_epilogue,
                                    read_input,
                                    read_run};
  return read_members(reader, root, keys, parts, sizeof parts / sizeof parts[0]);
}

/* What a step has of a steer workload. */
static stg_status read_step_part(struct stg_workload_reader *reader, const struct stg_json *at) {
  static const char *const keys[] = {"geometry", "ops", "vectors", "slots", "batch", NULL};
  static const read_part parts[] = {read_geometry, read_ops, stg_spec_read_vectors,
                                    stg_spec_read_slots, stg_spec_read_batch};
  return read_members(reader, at, keys, parts, sizeof parts / sizeof parts[0]);
}

/* `folder` and `err` of `outer` are the readers'. */
static stg_status build(const struct stg_spec_reader *outer, const struct stg_json *at,
                        read_part read, struct stg_workload *ret_workload) {
  struct stg_workload workload = {0};
  struct stg_workload_reader reader = {.workload = &workload, .spec = *outer};
  reader.spec.arena = &workload.arena;
  workload.file = stg_arena_strdup(&workload.arena, outer->file);
  stg_status status =
      stg_spec_open_init(&workload.arena, workload.file, &workload.open, outer->err);
  status = status == STG_OK ? read(&reader, at) : status;
  if (status != STG_OK) {
    stg_workload_finish(&workload);
    return status;
  }
  *ret_workload = workload;
  return STG_OK;
}

stg_status stg_workload_read_root(const struct stg_spec_reader *spec, const struct stg_json *root,
                                  struct stg_workload *ret_workload) {
  return build(spec, root, read_root, ret_workload);
}

stg_status stg_workload_read_part(const struct stg_spec_reader *spec, const struct stg_json *at,
                                  struct stg_workload *ret_workload) {
  return build(spec, at, read_step_part, ret_workload);
}

void stg_workload_finish(struct stg_workload *workload) {
  if (workload == NULL) {
    return;
  }
  stg_spec_open_fini(workload->open);
  stg_arena_finish(&workload->arena);
  *workload = (struct stg_workload){0};
}

/*
 * workload_vectors.c: the member "vectors": named directions and what is to be done with them.
 *
 * Knows nothing of ops; who uses a vector is noted by workload_calls.c.
 */
#include <inttypes.h>

#include "specs/tensor_layers.h"
#include "specs/workload_reader.h"

static stg_status read_copies(struct stg_workload_reader *reader, const struct stg_json *at,
                              struct stg_spec_vector *vector) {
  struct stg_json member;
  int64_t copies = 1;
  if (stg_json_find(at, "copies", &member)) {
    stg_status status =
        stg_json_int(&member, 1, STG_WORKLOAD_MAX_COPIES, &copies, reader->spec.err);
    if (status != STG_OK) {
      return status;
    }
    if (vector->source.kind != STG_VECTOR_RANDOM) {
      return stg_json_error(reader->spec.err, STG_E_FORMAT, &member,
                            "'copies' goes with 'random'; leave it out");
    }
    vector->indexable = true;
  }
  if (vector->source.layer_in != STG_LAYER_IN_NONE) {
    copies = STG_LAYER_MAX + 1;
    vector->indexable = true;
  }
  vector->copies = (uint32_t)copies;
  return STG_OK;
}

static stg_status read_vector(struct stg_workload_reader *reader, const struct stg_json *at,
                              struct stg_spec_vector *vector) {
  static const char *const keys[] = {"file",   "tensor", "row",    "offset",    "count",
                                     "values", "random", "copies", "normalize", NULL};
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json member;
  bool normalize = false;
  stg_status status = stg_spec_check_name(at, reader->spec.err);
  if (status == STG_OK) {
    status = stg_json_check_keys(at, keys, reader->spec.err);
  }
  if (status == STG_OK) {
    status = stg_spec_read_source(&reader->spec, at, STG_LAYERS_ALLOWED, &vector->source);
  }
  if (status == STG_OK) {
    status = read_copies(reader, at, vector);
  }
  vector->normalize = -1;
  if (status == STG_OK && stg_json_find(at, "normalize", &member)) {
    status = stg_json_bool(&member, &normalize, reader->spec.err);
    vector->normalize = normalize;
  }
  if (status != STG_OK) {
    return status;
  }
  int64_t width = reader->workload->hidden_size;
  status = stg_spec_check_count(reader, at, &vector->source, width);
  if (status != STG_OK) {
    return status;
  }
  if (vector->source.kind == STG_VECTOR_VALUES && (int64_t)vector->source.n_values != width) {
    return stg_json_error(reader->spec.err, STG_E_FORMAT, at,
                          "%zu values, but geometry.hidden_size is %" PRId64,
                          vector->source.n_values, width);
  }
  vector->where = vector->source.where;
  vector->name = stg_arena_strdup(arena, at->key);
  return stg_arena_status(arena, reader->spec.err);
}

stg_status stg_spec_read_vectors(struct stg_workload_reader *reader, const struct stg_json *root) {
  struct stg_arena *arena = &reader->workload->arena;
  struct stg_json object;
  if (!stg_json_find(root, "vectors", &object)) {
    return STG_OK;
  }
  stg_status status = stg_json_expect_object(&object, reader->spec.err);
  if (status != STG_OK) {
    return status;
  }
  size_t n = stg_json_count(&object);
  struct stg_spec_vector *vectors = stg_arena_alloc(arena, n, sizeof *vectors);
  struct stg_spec_name *names = stg_arena_alloc(arena, n, sizeof *names);
  if (vectors == NULL || names == NULL) {
    return stg_arena_status(arena, reader->spec.err);
  }
  struct stg_json member;
  bool more = stg_json_first(&object, &member);
  for (; more && status == STG_OK; more = stg_json_next(&member)) {
    status = read_vector(reader, &member, &vectors[member.index]);
    names[member.index] =
        (struct stg_spec_name){vectors[member.index].name, (uint32_t)member.index};
  }
  if (status != STG_OK) {
    return status;
  }
  reader->vectors = vectors;
  reader->vectors_capacity = n;
  reader->vector_names = stg_spec_names_of(names, n);
  reader->workload->vectors = vectors;
  reader->workload->n_vectors = n;
  return STG_OK;
}

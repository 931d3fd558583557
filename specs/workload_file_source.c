/*
 * workload_file_source.c: a source that is a file: which members it needs, by what its name says.
 *
 * A suffix decides here only what can be said before the file is opened; what the file is, its
 * content says then (vector_file.h). Opens nothing.
 */
#include <inttypes.h>
#include <string.h>

#include "specs/workload_reader.h"

#define MAX_ELEMS (((int64_t)1 << 53) - 1)

enum kind {
  KIND_UNKNOWN, /* raw where "count" is given, otherwise what its content says */
  KIND_NAMED,   /* tensors with names */
  KIND_ARRAY,   /* one array */
  KIND_RAW,
  KIND_LATER,
  KIND_PYTORCH,
  KIND_PICKLE,
  KIND_ARCHIVE
};

static enum kind kind_of(const char *suffix) {
  static const struct {
    const char *suffix;
    enum kind kind;
  } kinds[] = {
      {".safetensors", KIND_NAMED}, {".npy", KIND_ARRAY},    {".f32", KIND_RAW},
      {".gguf", KIND_NAMED},        {".json", KIND_LATER},   {".pt", KIND_PYTORCH},
      {".pth", KIND_PYTORCH},       {".ckpt", KIND_PYTORCH}, {".pkl", KIND_PICKLE},
      {".npz", KIND_ARCHIVE},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(kinds[i].suffix, suffix) == 0) {
      return kinds[i].kind;
    }
  }
  return KIND_UNKNOWN;
}

/* What no version, or not this one, reads. */
static stg_status refuse_kind(const struct stg_json *at, enum kind kind, const char *name,
                              const char *suffix, stg_error *err) {
  switch (kind) {
  case KIND_LATER:
    return stg_json_error(err, STG_E_UNSUPPORTED, at,
                          "'%s' files are not supported by this version; convert '%s' to "
                          "safetensors",
                          suffix, name);
  case KIND_PYTORCH:
    return stg_json_error(err, STG_E_UNSUPPORTED, at,
                          "'%s' is a PyTorch file, a pickle, which is never read; convert it to "
                          "safetensors",
                          name);
  case KIND_PICKLE:
    return stg_json_error(err, STG_E_UNSUPPORTED, at,
                          "'%s' is a pickle, which is never read; convert it to safetensors", name);
  case KIND_ARCHIVE:
    return stg_json_error(err, STG_E_UNSUPPORTED, at,
                          "'%s' is a zip archive of arrays; save one with numpy.save", name);
  case KIND_UNKNOWN:
  case KIND_NAMED:
  case KIND_ARRAY:
  case KIND_RAW:
    break;
  }
  return STG_OK;
}

/* "offset" and "count" say where in a raw file the vector lies. */
static stg_status read_range(struct stg_workload_reader *reader, const struct stg_json *source,
                             enum kind kind, struct stg_spec_vector_source *ret) {
  struct stg_json offset;
  struct stg_json count;
  bool has_offset = stg_json_find(source, "offset", &offset);
  bool has_count = stg_json_find(source, "count", &count);
  if ((has_offset || has_count) && (kind == KIND_NAMED || kind == KIND_ARRAY)) {
    return stg_json_error(reader->err, STG_E_FORMAT, has_offset ? &offset : &count,
                          "goes with a raw file; leave it out");
  }
  if (!has_count && (has_offset || kind == KIND_RAW)) {
    return stg_json_error(reader->err, STG_E_FORMAT, source,
                          "'count' is missing; a raw file does not say its width: give the number "
                          "of float32 elements");
  }
  stg_status status = STG_OK;
  if (has_offset) {
    status = stg_json_int(&offset, 0, MAX_ELEMS, &ret->offset, reader->err);
  }
  if (status == STG_OK && has_count) {
    status = stg_json_int(&count, 1, MAX_ELEMS, &ret->count, reader->err);
  }
  return status;
}

static stg_status read_tensor(struct stg_workload_reader *reader, const struct stg_json *source,
                              enum kind kind, const char *name,
                              struct stg_spec_vector_source *ret) {
  struct stg_json member;
  const char *tensor = NULL;
  if (!stg_json_find(source, "tensor", &member)) {
    return kind != KIND_NAMED
               ? STG_OK
               : stg_json_error(reader->err, STG_E_FORMAT, source,
                                "'tensor' is missing; '%s' holds tensors by name, see "
                                "'steergraph vectors ls'",
                                name);
  }
  if (kind == KIND_ARRAY) {
    return stg_json_error(reader->err, STG_E_FORMAT, &member,
                          "a .npy file holds one array; leave it out");
  }
  if (ret->count > 0) {
    return stg_json_error(reader->err, STG_E_FORMAT, &member,
                          "a raw file has no names; leave it out");
  }
  stg_status status = stg_json_string(&member, &tensor, reader->err);
  if (status != STG_OK) {
    return status;
  }
  ret->tensor = stg_arena_strdup(&reader->workload->arena, tensor);
  return stg_arena_status(&reader->workload->arena, reader->err);
}

stg_status stg_spec_read_file_source(struct stg_workload_reader *reader,
                                     const struct stg_json *source, const struct stg_json *file,
                                     struct stg_spec_vector_source *ret_source) {
  struct stg_json member;
  const char *name = NULL;
  stg_status status = stg_json_string(file, &name, reader->err);
  if (status != STG_OK) {
    return status;
  }
  const char *dot = strrchr(name, '.');
  const char *suffix = dot != NULL && strchr(dot, '/') == NULL ? dot : "";
  enum kind kind = kind_of(suffix);
  status = refuse_kind(file, kind, name, suffix, reader->err);
  if (status == STG_OK) {
    status = stg_spec_read_path(reader, file, &ret_source->path);
  }
  if (status == STG_OK) {
    status = read_range(reader, source, kind, ret_source);
  }
  if (status == STG_OK) {
    status = read_tensor(reader, source, kind, name, ret_source);
  }
  if (status == STG_OK && stg_json_find(source, "row", &member)) {
    status = stg_json_int(&member, 0, INT32_MAX, &ret_source->row, reader->err);
  }
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
    return stg_json_error(reader->err, STG_E_FORMAT, &count,
                          "%" PRId64 ", but geometry.hidden_size is %" PRId64, read->count, needed);
  }
  return stg_json_error(reader->err, STG_E_FORMAT, &count,
                        "%" PRId64 ", but %" PRId64 " rows of %" PRId64 " need %" PRId64,
                        read->count, workload->rows, workload->hidden_size, needed);
}

/*
 * spec_file_source.c: a source that is a file: which members it needs, by what its name says.
 *
 * A suffix decides here only what can be said before the file is opened; what the file is, its
 * content says then (vector_file.h). Opens nothing.
 */
#include <inttypes.h>
#include <string.h>

#include "runtime/base/file.h"
#include "specs/spec_frame.h"
#include "specs/tensor_layers.h"
#include "specs/workload.h"

#define MAX_ELEMS (((int64_t)1 << 53) - 1)

enum kind {
  KIND_UNKNOWN, /* raw where "count" is given, otherwise what its content says */
  KIND_NAMED,   /* tensors with names */
  KIND_ARRAY,   /* one array */
  KIND_RAW,
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
      {".gguf", KIND_NAMED},        {".json", KIND_NAMED},   {".pt", KIND_PYTORCH},
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

/* What no version reads. */
static stg_status refuse_kind(const struct stg_json *at, enum kind kind, const char *name,
                              stg_error *err) {
  switch (kind) {
  case KIND_PYTORCH:
    return stg_json_error(err, STG_E_UNSUPPORTED, at,
                          "'%s' is a PyTorch file, a pickle, which is never read; convert it with "
                          "tools/pt_to_safetensors.py",
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
static stg_status read_range(const struct stg_spec_reader *reader, const struct stg_json *source,
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

/* "{}" in the name of a tensor, at `member`, stands for the layer. */
static stg_status read_mark(const struct stg_spec_reader *reader, const struct stg_json *member,
                            enum stg_spec_layers layers, const char *tensor,
                            struct stg_spec_vector_source *ret) {
  if (strstr(tensor, STG_LAYER_MARK) == NULL) {
    return STG_OK;
  }
  if (layers == STG_LAYERS_REFUSED) {
    return stg_json_error(reader->err, STG_E_FORMAT, member,
                          "'%.160s': {} stands for a layer in \"vectors\"; name one tensor here",
                          tensor);
  }
  if (!stg_layer_is_pattern(tensor)) {
    return stg_json_error(reader->err, STG_E_FORMAT, member,
                          "'%.160s': one {} stands for the layer", tensor);
  }
  if (strlen(tensor) > STG_WORKLOAD_MAX_PATTERN_BYTES) {
    return stg_json_error(reader->err, STG_E_FORMAT, member,
                          "%zu bytes with {}; at most %d, so name each tensor", strlen(tensor),
                          STG_WORKLOAD_MAX_PATTERN_BYTES);
  }
  ret->layer_in = STG_LAYER_IN_TENSOR;
  return STG_OK;
}

static stg_status read_row(const struct stg_spec_reader *reader, const struct stg_json *source,
                           enum stg_spec_layers layers, struct stg_spec_vector_source *ret) {
  struct stg_json member;
  const char *text = NULL;
  if (!stg_json_find(source, "row", &member)) {
    return STG_OK;
  }
  if (layers == STG_LAYERS_REFUSED || !stg_json_is_string(&member)) {
    return stg_json_int(&member, 0, INT32_MAX, &ret->row, reader->err);
  }
  stg_status status = stg_json_string(&member, &text, reader->err);
  if (status == STG_OK && strcmp(text, STG_LAYER_MARK) != 0) {
    return stg_json_error(reader->err, STG_E_FORMAT, &member,
                          "'%.40s': a row is a number, or \"{}\" for a row per layer", text);
  }
  if (status == STG_OK && ret->layer_in != STG_LAYER_IN_NONE) {
    return stg_json_error(reader->err, STG_E_FORMAT, &member,
                          "one {} stands for the layer, and 'tensor' has it");
  }
  ret->layer_in = STG_LAYER_IN_ROW;
  return status;
}

/* A GGUF file may be a control vector, whose names need not be given. */
static bool needs_name(enum kind kind, enum stg_spec_layers layers, const char *suffix) {
  return kind == KIND_NAMED && !(layers == STG_LAYERS_WANTED && strcmp(suffix, ".gguf") == 0);
}

static stg_status read_tensor(const struct stg_spec_reader *reader, const struct stg_json *source,
                              enum kind kind, enum stg_spec_layers layers, const char *name,
                              struct stg_spec_vector_source *ret) {
  struct stg_json member;
  const char *tensor = NULL;
  if (!stg_json_find(source, "tensor", &member)) {
    return !needs_name(kind, layers, stg_path_suffix(name))
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
  ret->tensor = stg_arena_strdup(reader->arena, tensor);
  status = stg_arena_status(reader->arena, reader->err);
  return status == STG_OK ? read_mark(reader, &member, layers, tensor, ret) : status;
}

stg_status stg_spec_read_file_source(const struct stg_spec_reader *reader,
                                     const struct stg_json *source, const struct stg_json *file,
                                     enum stg_spec_layers layers,
                                     struct stg_spec_vector_source *ret_source) {
  const char *name = NULL;
  stg_status status = stg_json_string(file, &name, reader->err);
  if (status != STG_OK) {
    return status;
  }
  enum kind kind = kind_of(stg_path_suffix(name));
  status = refuse_kind(file, kind, name, reader->err);
  if (status == STG_OK) {
    status = stg_spec_read_path(reader, file, &ret_source->path);
  }
  if (status == STG_OK) {
    ret_source->name = stg_arena_strdup(reader->arena, name);
    status = stg_arena_status(reader->arena, reader->err);
  }
  if (status == STG_OK) {
    status = read_range(reader, source, kind, ret_source);
  }
  if (status == STG_OK) {
    status = read_tensor(reader, source, kind, layers, name, ret_source);
  }
  return status == STG_OK ? read_row(reader, source, layers, ret_source) : status;
}

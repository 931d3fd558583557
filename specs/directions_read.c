/*
 * directions_read.c: JSON files of directions by layer: {"directions": {"12": [numbers], ...}}.
 *
 * What people write by hand or with a few lines of a script. A tensor's name is its layer. All
 * layers have one width. The tree is freed before the reader returns; 4 bytes a number stay.
 */
#include <inttypes.h>

#include "specs/json.h"
#include "specs/tensor_layers.h"
#include "specs/tensor_readers.h"

#define HINT_KEY "controlvector.model_hint" /* as a GGUF file says the same */

static bool is_space(unsigned char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool stg_directions_is(const unsigned char *bytes, size_t size) {
  size_t i = 0;
  while (i < size && is_space(bytes[i])) {
    i++;
  }
  return i < size && bytes[i] == '{';
}

static stg_status read_layer(struct stg_tensor_file *file, const struct stg_json *list,
                             struct stg_tensor_info *ret, stg_error *reterr) {
  if (stg_layer_of(STG_LAYER_MARK, list->key) < 0) {
    return stg_json_error(reterr, STG_E_FORMAT, list,
                          "not a layer; write 0 to %d without leading zeros", STG_LAYER_MAX);
  }
  stg_status status = stg_json_expect_array(list, reterr);
  if (status != STG_OK) {
    return status;
  }
  const size_t n = stg_json_count(list);
  if (n == 0) {
    return stg_json_error(reterr, STG_E_FORMAT, list, "no numbers; a direction has hidden_size");
  }
  float *values = stg_arena_alloc(&file->arena, n, sizeof *values);
  *ret = (struct stg_tensor_info){.name = stg_arena_strdup(&file->arena, list->key),
                                  .dtype_name = "F32",
                                  .elem = STG_ELEM_F32,
                                  .n_dims = 1,
                                  .shape = {(int64_t)n},
                                  .n_elems = n,
                                  .data = values};
  status = stg_arena_status(&file->arena, reterr);
  struct stg_json item;
  bool more = status == STG_OK && stg_json_first(list, &item);
  for (; more && status == STG_OK; more = stg_json_next(&item)) {
    status = stg_json_float(&item, &values[item.index], reterr);
  }
  return status;
}

static stg_status read_layers(struct stg_tensor_file *file, const struct stg_json *layers,
                              stg_error *reterr) {
  stg_status status = stg_json_expect_object(layers, reterr);
  if (status != STG_OK) {
    return status;
  }
  const size_t n = stg_json_count(layers);
  if (n == 0) {
    return stg_json_error(reterr, STG_E_FORMAT, layers, "no layer; a member is \"12\": [numbers]");
  }
  struct stg_tensor_info *tensors = stg_arena_alloc(&file->arena, n, sizeof *tensors);
  if (tensors == NULL) {
    return stg_arena_status(&file->arena, reterr);
  }
  struct stg_json list;
  bool more = stg_json_first(layers, &list);
  for (; more && status == STG_OK; more = stg_json_next(&list)) {
    struct stg_tensor_info *tensor = &tensors[list.index];
    status = read_layer(file, &list, tensor, reterr);
    if (status == STG_OK && tensor->n_elems != tensors[0].n_elems) {
      status = stg_json_error(reterr, STG_E_FORMAT, &list,
                              "%zu number%s, but directions.%s has %zu", tensor->n_elems,
                              tensor->n_elems == 1 ? "" : "s", tensors[0].name, tensors[0].n_elems);
    }
  }
  file->tensors = tensors;
  file->n_tensors = n;
  return status;
}

/* A text beside the directions becomes metadata under `as`. */
static stg_status read_text(struct stg_tensor_file *file, const struct stg_json *root,
                            const char *member, const char *as, const char **metadata,
                            stg_error *reterr) {
  struct stg_json at;
  const char *text = NULL;
  if (!stg_json_find(root, member, &at)) {
    return STG_OK;
  }
  stg_status status = stg_json_string(&at, &text, reterr);
  if (status != STG_OK) {
    return status;
  }
  metadata[2 * file->n_metadata] = as;
  metadata[2 * file->n_metadata + 1] = stg_arena_strdup(&file->arena, text);
  file->n_metadata++;
  return stg_arena_status(&file->arena, reterr);
}

static stg_status read_root(struct stg_tensor_file *file, const struct stg_json *root,
                            stg_error *reterr) {
  static const char *const keys[] = {"directions", "model_hint", "note", NULL};
  struct stg_json layers;
  if (!stg_json_find(root, "directions", &layers)) {
    /* before the other members, which are strange only because the file is another */
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: directions: missing; a vector file is {\"directions\": {\"12\": "
                         "[numbers]}}",
                         file->path);
  }
  const char **metadata = stg_arena_alloc(&file->arena, 4, sizeof(const char *));
  if (metadata == NULL) {
    return stg_arena_status(&file->arena, reterr);
  }
  file->metadata = metadata;
  stg_status status = stg_json_check_keys(root, keys, reterr);
  if (status == STG_OK) {
    status = read_text(file, root, "model_hint", HINT_KEY, metadata, reterr);
  }
  if (status == STG_OK) {
    status = read_text(file, root, "note", "note", metadata, reterr);
  }
  return status == STG_OK ? read_layers(file, &layers, reterr) : status;
}

stg_status stg_directions_read(struct stg_tensor_file *file, stg_error *reterr) {
  struct stg_json_doc doc = {0};
  if (file->size > STG_JSON_MAX_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: %zu bytes, at most %" PRIu64 "; write it as safetensors", file->path,
                         file->size, STG_JSON_MAX_BYTES);
  }
  stg_status status = stg_json_parse(file->path, file->size > 0 ? (const char *)file->bytes : "",
                                     file->size, &doc, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_json root = stg_json_root(&doc);
  status = stg_json_expect_object(&root, reterr);
  if (status == STG_OK) {
    status = read_root(file, &root, reterr);
  }
  stg_json_finish(&doc);
  file->format = STG_FILE_DIRECTIONS;
  file->format_text = "JSON directions";
  return status;
}

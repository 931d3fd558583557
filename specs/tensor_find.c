/*
 * tensor_find.c: find a tensor of an open file by its name, and say which names are near.
 *
 * A file may have any number of tensors with names of any length: what a message compares and shows
 * of them is bounded. Must not know any file format but by whether its tensors have names.
 */
#include <string.h>

#include "runtime/base/strbuf.h"
#include "runtime/base/suggest.h"
#include "specs/vector_file.h"

#define NEAREST 3            /* names in a message */
#define NEAREST_CHARS 96     /* of a name that are shown */
#define NEAREST_TENSORS 4096 /* that are looked at */

struct nearest {
  const struct stg_tensor_info *tensor[NEAREST];
  size_t distance[NEAREST];
  size_t count;
};

static void offer(struct nearest *best, const struct stg_tensor_info *tensor, size_t far) {
  size_t at = best->count;
  while (at > 0 && best->distance[at - 1] > far) {
    at--;
  }
  if (at == NEAREST) {
    return;
  }
  const size_t last = best->count < NEAREST ? best->count : NEAREST - 1;
  for (size_t i = last; i > at; i--) {
    best->tensor[i] = best->tensor[i - 1];
    best->distance[i] = best->distance[i - 1];
  }
  best->tensor[at] = tensor;
  best->distance[at] = far;
  best->count = last + 1;
}

static stg_status not_found(const struct stg_tensor_file *file, const char *name,
                            stg_error *reterr) {
  if (file->n_tensors == 0) {
    return stg_error_set(reterr, STG_E_NOT_FOUND, "'%s' holds no tensors", file->path);
  }
  struct nearest best = {0};
  for (size_t i = 0; i < file->n_tensors && i < NEAREST_TENSORS; i++) {
    offer(&best, &file->tensors[i], stg_suggest_distance(name, file->tensors[i].name));
  }
  struct stg_strbuf names = {0};
  for (size_t i = 0; i < best.count; i++) {
    stg_strbuf_printf(&names, "%s'%.*s'", i == 0 ? "" : ", ", NEAREST_CHARS, best.tensor[i]->name);
  }
  stg_error_set(reterr, STG_E_NOT_FOUND, "'%s' has no tensor '%.*s'; nearest of %zu: %s",
                file->path, NEAREST_CHARS, name, file->n_tensors, stg_strbuf_text(&names));
  stg_strbuf_finish(&names);
  return STG_E_NOT_FOUND;
}

static stg_status find_only(const struct stg_tensor_file *file,
                            const struct stg_tensor_info **ret_tensor, stg_error *reterr) {
  if (file->format != STG_FILE_NPY && file->format != STG_FILE_RAW) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "'%s' is %s, which holds tensors by name; name one of its %zu, see "
                         "'steergraph vectors ls'",
                         file->path, file->format_text, file->n_tensors);
  }
  *ret_tensor = &file->tensors[0];
  return STG_OK;
}

stg_status stg_tensor_find(const struct stg_tensor_file *file, const char *name,
                           const struct stg_tensor_info **ret_tensor, stg_error *reterr) {
  if (name == NULL) {
    return find_only(file, ret_tensor, reterr);
  }
  for (size_t i = 0; i < file->n_tensors; i++) {
    const struct stg_tensor_info *tensor = &file->tensors[i];
    if (strcmp(tensor->name, name) != 0) {
      continue;
    }
    if (tensor->elem == STG_ELEM_NONE) {
      return stg_error_set(reterr, STG_E_UNSUPPORTED,
                           "'%s': tensor '%.*s' has dtype %.16s; convert it to F32, F16 or BF16",
                           file->path, NEAREST_CHARS, name, tensor->dtype_name);
    }
    *ret_tensor = tensor;
    return STG_OK;
  }
  return not_found(file, name, reterr);
}

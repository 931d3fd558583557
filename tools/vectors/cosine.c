/*
 * vectors/cosine.c: find a row's counterpart in another file.
 */
#include "tools/vectors/cosine.h"

#include <inttypes.h>

/* A width is for a file that says nothing of itself, which either of two files may be. */
static stg_status open_other(const struct stg_vectors_cosine_options *options,
                             struct stg_vectors *ret_vectors, stg_error *reterr) {
  if (options->width > 0 && stg_vectors_open(options->path, 0, ret_vectors, NULL) == STG_OK) {
    return STG_OK;
  }
  return stg_vectors_open(options->path, options->width, ret_vectors, reterr);
}

/* The tensor that is named, or the only one. */
static stg_status find_tensor(const struct stg_vectors_cosine_options *options,
                              struct stg_vectors_cosine *cosine, stg_error *reterr) {
  const struct stg_tensor_file *file = &cosine->vectors.file;
  const char *name = options->tensor;
  if (name == NULL && file->n_tensors == 1) {
    name = file->tensors[0].name;
  }
  if (name != NULL) {
    return stg_tensor_find(file, name, &cosine->tensor, reterr);
  }
  return options->row < 0
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID,
                             "'%s': --cosine-row %" PRId64
                             " of which of its %zu tensors? Name one with --cosine-tensor",
                             file->path, options->row, file->n_tensors);
}

static stg_status find_row(const struct stg_vectors_cosine_options *options,
                           struct stg_vectors_cosine *cosine, stg_error *reterr) {
  if (cosine->tensor == NULL) {
    return STG_OK;
  }
  const size_t rows = stg_tensor_rows(cosine->tensor);
  if (options->row >= 0 && (size_t)options->row >= rows) {
    return stg_error_set(
        reterr, STG_E_NOT_FOUND, "'%s': --cosine-row %" PRId64 ", but tensor '%.96s' has %zu row%s",
        cosine->vectors.file.path, options->row, cosine->tensor->name, rows, rows == 1 ? "" : "s");
  }
  cosine->one = options->row >= 0 || rows == 1;
  cosine->row = options->row >= 0 ? (size_t)options->row : 0;
  return STG_OK;
}

stg_status stg_vectors_cosine_open(const struct stg_vectors_cosine_options *options,
                                   struct stg_vectors_cosine *ret_cosine, stg_error *reterr) {
  struct stg_vectors_cosine cosine = {0};
  stg_status status = open_other(options, &cosine.vectors, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = find_tensor(options, &cosine, reterr);
  if (status == STG_OK) {
    status = find_row(options, &cosine, reterr);
  }
  if (status != STG_OK) {
    stg_vectors_cosine_close(&cosine);
    return status;
  }
  *ret_cosine = cosine;
  return STG_OK;
}

void stg_vectors_cosine_close(struct stg_vectors_cosine *cosine) {
  stg_vectors_close(&cosine->vectors);
  *cosine = (struct stg_vectors_cosine){0};
}

/* Whether the rows of the side's one tensor are its layers. */
static bool rows_are_layers(const struct stg_vectors_side *side) {
  return side->n_tensors == 1 && stg_tensor_rows(&side->tensors[0]) > 1;
}

stg_status stg_vectors_cosine_check(const struct stg_vectors_cosine *cosine,
                                    const struct stg_vectors_side *side, stg_error *reterr) {
  const bool theirs = cosine->tensor != NULL || cosine->vectors.layers.pattern != NULL;
  const bool ours = side->vectors->layers.pattern != NULL || rows_are_layers(side);
  if (cosine->one || (theirs && ours)) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_INVALID,
                       "'%s' has several vectors, and the names in '%s' tell no layers; name one "
                       "vector with --cosine-tensor or --cosine-row",
                       cosine->vectors.file.path,
                       ours ? cosine->vectors.file.path : side->vectors->file.path);
}

/* The layer of a row; -1: none. */
static int32_t layer_of(const struct stg_vectors_side *side, const struct stg_tensor_info *tensor,
                        size_t row) {
  if (rows_are_layers(side)) {
    return row <= STG_LAYER_MAX ? (int32_t)row : -1;
  }
  return stg_tensor_rows(tensor) == 1 ? stg_vectors_layer_of(side->vectors, tensor) : -1;
}

/* The other file's vector of a layer; NULL: it has none. */
static const struct stg_tensor_info *find_layer(const struct stg_vectors_cosine *cosine,
                                                int32_t layer, size_t *ret_row) {
  const struct stg_layer_map *layers = &cosine->vectors.layers;
  *ret_row = 0;
  if (layer < 0) {
    return NULL;
  }
  if (cosine->tensor != NULL) {
    *ret_row = (size_t)layer;
    return (size_t)layer < stg_tensor_rows(cosine->tensor) ? cosine->tensor : NULL;
  }
  if (layer < layers->first || layer > layers->last || layers->tensor_of[layer] < 0) {
    return NULL;
  }
  const struct stg_tensor_info *tensor = &cosine->vectors.file.tensors[layers->tensor_of[layer]];
  return tensor->elem != STG_ELEM_NONE && stg_tensor_rows(tensor) == 1 ? tensor : NULL;
}

bool stg_vectors_cosine_of(const struct stg_vectors_cosine *cosine,
                           const struct stg_vectors_side *side,
                           const struct stg_tensor_info *tensor, size_t row, double *ret_cosine) {
  const struct stg_tensor_info *other = cosine->tensor;
  size_t other_row = cosine->row;
  if (!cosine->one) {
    other = find_layer(cosine, layer_of(side, tensor, row), &other_row);
  }
  return other != NULL && stg_tensor_cosine(tensor, row, other, other_row, ret_cosine);
}

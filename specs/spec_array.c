/*
 * spec_array.c: sources of arrays of a known shape: checked while a workload is read, their
 * elements made when they are wanted.
 *
 * Any part of an array can be read on its own, in pieces of a fixed size; a tensor may have the
 * last two dimensions as one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "specs/random.h"
#include "specs/spec_frame.h"

#define PIECE_ELEMS 512
#define SHAPE_BYTES 96

static void print_shape(const int64_t *shape, uint32_t n_dims, char ret[SHAPE_BYTES]) {
  size_t used = 0;
  for (uint32_t i = 0; i < n_dims; i++) {
    used += (size_t)snprintf(ret + used, SHAPE_BYTES - used, "%s%" PRId64, i == 0 ? "[" : ", ",
                             shape[i]);
  }
  snprintf(ret + used, SHAPE_BYTES - used, "]");
}

stg_status stg_spec_read_array(const struct stg_spec_reader *reader, const struct stg_json *at,
                               bool with_positions, struct stg_spec_array *array) {
  static const char *const keys[] = {"file",   "tensor", "offset",    "count",
                                     "values", "random", "positions", NULL};
  static const char *const plain[] = {"file",   "tensor", "offset", "count",
                                      "values", "random", NULL};
  char shape[SHAPE_BYTES];
  struct stg_json count;
  stg_status status = stg_json_check_keys(at, with_positions ? keys : plain, reader->err);
  if (status == STG_OK) {
    status = stg_spec_read_source(reader, at, STG_LAYERS_REFUSED, &array->source);
  }
  if (status != STG_OK) {
    return status;
  }
  array->elems = 1;
  for (uint32_t i = 0; i < array->n_dims; i++) {
    if (__builtin_mul_overflow(array->elems, array->shape[i], &array->elems)) {
      array->elems = INT64_MAX; /* no source of values has so many, and none is read whole */
    }
  }
  print_shape(array->shape, array->n_dims, shape);
  const struct stg_spec_vector_source *source = &array->source;
  if (source->count > 0 && source->count != array->elems && stg_json_find(at, "count", &count)) {
    return stg_json_error(reader->err, STG_E_FORMAT, &count,
                          "%" PRId64 ", but %s has %" PRId64 " elements", source->count, shape,
                          array->elems);
  }
  if (source->kind == STG_VECTOR_VALUES && (int64_t)source->n_values != array->elems) {
    return stg_json_error(reader->err, STG_E_FORMAT, at,
                          "%zu values, but %s has %" PRId64 " elements", source->n_values, shape,
                          array->elems);
  }
  return STG_OK;
}

/* The array's dimensions, or with the last two of them as one. */
static bool has_shape(const struct stg_tensor_info *tensor, const struct stg_spec_array *array) {
  const uint32_t n = array->n_dims;
  const bool joined = tensor->n_dims + 1 == n;
  if (tensor->n_dims != n && !joined) {
    return false;
  }
  for (uint32_t i = 0; i + 1 < tensor->n_dims; i++) {
    if (tensor->shape[i] != array->shape[i]) {
      return false;
    }
  }
  const int64_t last = array->shape[n - 1] * (joined ? array->shape[n - 2] : 1);
  return tensor->n_dims > 0 && tensor->shape[tensor->n_dims - 1] == last;
}

static stg_status read_file(struct stg_open_file *open, const struct stg_spec_array *array,
                            int64_t first, size_t count, stg_dtype dtype, void *ret_elems,
                            stg_error *err) {
  const struct stg_tensor_info *tensor = NULL;
  stg_status status = stg_spec_open_tensor(open, &array->source, &tensor, err);
  if (status != STG_OK) {
    return status;
  }
  /* the count of a raw file was checked when the workload was read */
  if (array->source.count == 0 && !has_shape(tensor, array)) {
    char needed[SHAPE_BYTES];
    print_shape(array->shape, array->n_dims, needed);
    return stg_spec_fail_shape(open, &array->source, tensor, needed, err);
  }
  stg_tensor_read(tensor, (size_t)first, count, dtype, ret_elems);
  return STG_OK;
}

static void make_random(const struct stg_spec_array *array, int64_t first, size_t count,
                        stg_dtype dtype, void *ret_elems) {
  float piece[PIECE_ELEMS];
  for (size_t done = 0; done < count; done += PIECE_ELEMS) {
    const size_t n = count - done < PIECE_ELEMS ? count - done : PIECE_ELEMS;
    stg_random_normal(array->source.seed, array->stream, (uint64_t)first + done,
                      array->source.scale, piece, n);
    stg_convert(dtype, (unsigned char *)ret_elems + done * stg_dtype_bytes(dtype), STG_F32, piece,
                n);
  }
}

stg_status stg_spec_array_read(struct stg_open_file *open, const struct stg_spec_array *array,
                               int64_t first, size_t count, stg_dtype dtype, void *ret_elems,
                               stg_error *reterr) {
  switch (array->source.kind) {
  case STG_VECTOR_VALUES:
    stg_convert(dtype, ret_elems, STG_F32, array->source.values + first, count);
    return STG_OK;
  case STG_VECTOR_RANDOM:
    make_random(array, first, count, dtype, ret_elems);
    return STG_OK;
  case STG_VECTOR_FILE:
    break;
  }
  return read_file(open, array, first, count, dtype, ret_elems, reterr);
}

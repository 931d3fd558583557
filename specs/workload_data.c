/*
 * workload_data.c: the numbers behind a workload's sources: vectors as float32, rows as elements
 * of the workload's dtype.
 *
 * Works in pieces of a fixed size, so that it needs no memory of its own beside the open file.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/dtype.h"
#include "specs/random.h"
#include "specs/tensor_layers.h"
#include "specs/workload_reader.h"

#define PIECE_ELEMS 512

/* Streams of the generator, so that equal seeds do not repeat values: copy k of a vector has k. */
#define STREAM_HIDDEN ((uint64_t)1 << 32)
#define STREAM_RESIDUAL ((uint64_t)2 << 32)
#define STREAM_WEIGHT ((uint64_t)3 << 32)

/* The tensor is one vector, or `row` names one of its rows. Of a raw file only the row is there. */
static stg_status check_vector_shape(const struct stg_workload *workload,
                                     const struct stg_spec_vector_source *source,
                                     const struct stg_tensor_info *tensor, size_t *ret_first,
                                     stg_error *err) {
  char needed[128];
  int64_t width = workload->hidden_size;
  if (source->row < 0 || source->count > 0) {
    if (tensor->n_dims == 1 && tensor->shape[0] == width) {
      *ret_first = 0;
      return STG_OK;
    }
    snprintf(needed, sizeof needed, "[%" PRId64 "]%s", width,
             tensor->n_dims == 2 ? ", or a \"row\" of it" : ", by geometry.hidden_size");
    return stg_spec_fail_shape(workload->open, source, tensor, needed, err);
  }
  if (tensor->n_dims != 2 || tensor->shape[1] != width) {
    snprintf(needed, sizeof needed, "[rows, %" PRId64 "], because \"row\" is given", width);
    return stg_spec_fail_shape(workload->open, source, tensor, needed, err);
  }
  if (source->row >= tensor->shape[0]) {
    snprintf(needed, sizeof needed, "more than %" PRId64 " rows, because \"row\" is %" PRId64,
             source->row, source->row);
    return stg_spec_fail_shape(workload->open, source, tensor, needed, err);
  }
  *ret_first = (size_t)source->row * (size_t)width;
  return STG_OK;
}

/* A float64 that is finite where it lies, and not in float32. */
static stg_status check_range(const struct stg_workload *workload,
                              const struct stg_spec_vector_source *source,
                              const struct stg_tensor_info *tensor, size_t first, stg_error *err) {
  if (tensor->elem != STG_ELEM_F64) {
    return STG_OK;
  }
  for (int64_t i = 0; i < workload->hidden_size; i++) {
    double value = stg_tensor_value(tensor, first + (size_t)i);
    if (isfinite(value) && !isfinite((float)value)) {
      return stg_error_set(err, STG_E_NON_FINITE,
                           "%s: %s: element %" PRId64 " is %g, beyond float32", workload->file,
                           source->where, i, value);
    }
  }
  return STG_OK;
}

static stg_status check_finite(const struct stg_workload *workload,
                               const struct stg_spec_vector_source *source, const float *values,
                               stg_error *err) {
  for (int64_t i = 0; i < workload->hidden_size; i++) {
    if (!isfinite(values[i])) {
      return stg_error_set(err, STG_E_NON_FINITE,
                           "%s: %s: element %" PRId64 " is %g; a vector must be finite",
                           workload->file, source->where, i, (double)values[i]);
    }
  }
  return STG_OK;
}

static stg_status read_file_vector(const struct stg_workload *workload,
                                   const struct stg_spec_vector_source *source,
                                   const struct stg_spec_vector *vector, float *ret_values,
                                   stg_error *err) {
  const struct stg_tensor_info *tensor = NULL;
  size_t first = 0;
  stg_status status = stg_spec_open_tensor(workload->open, source, &tensor, err);
  if (status != STG_OK) {
    return status;
  }
  /* before the shape, which another model's vector rarely has */
  status = stg_spec_check_words(workload, source, vector, err);
  if (status == STG_OK) {
    status = check_vector_shape(workload, source, tensor, &first, err);
  }
  if (status == STG_OK) {
    stg_tensor_read(tensor, first, (size_t)workload->hidden_size, STG_F32, ret_values);
    status = check_range(workload, source, tensor, first, err);
  }
  if (status == STG_OK) {
    status = check_finite(workload, source, ret_values, err);
  }
  return status;
}

/* hidden_size finite float32 values of a vector or, where `vector` is NULL, a weight. */
static stg_status read_source(const struct stg_workload *workload,
                              const struct stg_spec_vector_source *source,
                              const struct stg_spec_vector *vector, uint64_t stream,
                              float *ret_values, stg_error *err) {
  size_t width = (size_t)workload->hidden_size;
  switch (source->kind) {
  case STG_VECTOR_VALUES:
    memcpy(ret_values, source->values, width * sizeof(float));
    return STG_OK;
  case STG_VECTOR_RANDOM:
    stg_random_normal(source->seed, stream, 0, source->scale, ret_values, width);
    return check_finite(workload, source, ret_values, err);
  case STG_VECTOR_FILE:
    break;
  }
  return read_file_vector(workload, source, vector, ret_values, err);
}

void stg_workload_print_place(const struct stg_workload *workload, size_t index, uint32_t copy,
                              char ret_place[STG_WORKLOAD_PLACE_BYTES]) {
  const struct stg_spec_vector *vector = &workload->vectors[index];
  if (vector->indexable) {
    snprintf(ret_place, STG_WORKLOAD_PLACE_BYTES, "%s: '%s[%u]'", vector->where, vector->name,
             copy);
  } else {
    snprintf(ret_place, STG_WORKLOAD_PLACE_BYTES, "%s", vector->where);
  }
}

/* The vector of one layer: its number in the place of "{}". */
static stg_status read_layer(const struct stg_workload *workload, size_t index, uint32_t layer,
                             float *ret_values, stg_error *err) {
  struct stg_spec_vector_source source = workload->vectors[index].source;
  char place[STG_WORKLOAD_PLACE_BYTES];
  char name[STG_WORKLOAD_MAX_PATTERN_BYTES + 16];
  stg_workload_print_place(workload, index, layer, place);
  source.where = place;
  if (source.layer_in == STG_LAYER_IN_ROW) {
    source.row = layer;
  } else if (stg_layer_name(source.tensor, (int32_t)layer, name, sizeof name)) {
    source.tensor = name;
  }
  return read_source(workload, &source, &workload->vectors[index], 0, ret_values, err);
}

stg_status stg_workload_read_vector(const struct stg_workload *workload, size_t index,
                                    uint32_t copy, float *ret_values, stg_error *reterr) {
  const struct stg_spec_vector *vector = &workload->vectors[index];
  if (copy >= vector->copies) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: %s: copy %u of %u", workload->file,
                         vector->where, copy, vector->copies);
  }
  if (vector->source.layer_in != STG_LAYER_IN_NONE) {
    return read_layer(workload, index, copy, ret_values, reterr);
  }
  return read_source(workload, &vector->source, vector, copy, ret_values, reterr);
}

stg_status stg_workload_read_weight(const struct stg_workload *workload, float *ret_values,
                                    stg_error *reterr) {
  const struct stg_spec_vector_source *source = &workload->weight;
  stg_status status = read_source(workload, source, NULL, STREAM_WEIGHT, ret_values, reterr);
  for (int64_t i = 0; status == STG_OK && i < workload->hidden_size; i++) {
    uint32_t stored = 0;
    stg_store_f32(workload->dtype, &stored, 0, ret_values[i]);
    const float rounded = stg_load_f32(workload->dtype, &stored, 0);
    if (!isfinite(rounded)) {
      status = stg_error_set(
          reterr, STG_E_NON_FINITE, "%s: %s: element %" PRId64 " is %g, beyond the range of %s",
          workload->file, source->where, i, (double)ret_values[i], stg_dtype_name(workload->dtype));
    }
    ret_values[i] = rounded;
  }
  return status;
}

/* Where row `row` of the destination begins. */
static unsigned char *row_of(const struct stg_workload *workload, void *rows, int64_t row) {
  size_t pitch = (size_t)workload->row_stride * stg_dtype_bytes(workload->dtype);
  return (unsigned char *)rows + (size_t)row * pitch;
}

static stg_status fill_from_file(const struct stg_workload *workload,
                                 const struct stg_spec_vector_source *source, void *rows,
                                 stg_error *err) {
  const struct stg_tensor_info *tensor = NULL;
  stg_status status = stg_spec_open_tensor(workload->open, source, &tensor, err);
  if (status != STG_OK) {
    return status;
  }
  size_t width = (size_t)workload->hidden_size;
  /* the count of a raw file was checked when the workload was read */
  bool fits = tensor->n_dims == 2 && tensor->shape[0] == workload->rows &&
              tensor->shape[1] == workload->hidden_size;
  if (!fits && source->count == 0) {
    char needed[64];
    snprintf(needed, sizeof needed, "[%" PRId64 ", %" PRId64 "]", workload->rows,
             workload->hidden_size);
    status = stg_spec_fail_shape(workload->open, source, tensor, needed, err);
  } else {
    for (int64_t row = 0; row < workload->rows; row++) {
      stg_tensor_read(tensor, (size_t)row * width, width, workload->dtype,
                      row_of(workload, rows, row));
    }
  }
  return status;
}

static void fill_from_values(const struct stg_workload *workload,
                             const struct stg_spec_vector_source *source, void *rows) {
  size_t width = (size_t)workload->hidden_size;
  for (int64_t row = 0; row < workload->rows; row++) {
    stg_convert(workload->dtype, row_of(workload, rows, row), STG_F32,
                source->values + (size_t)row * width, width);
  }
}

static void fill_from_random(const struct stg_workload *workload,
                             const struct stg_spec_vector_source *source, void *rows) {
  uint64_t stream = source == &workload->residual ? STREAM_RESIDUAL : STREAM_HIDDEN;
  size_t width = (size_t)workload->hidden_size;
  float piece[PIECE_ELEMS];
  for (int64_t row = 0; row < workload->rows; row++) {
    unsigned char *dst = row_of(workload, rows, row);
    for (size_t done = 0; done < width; done += PIECE_ELEMS) {
      size_t n = width - done < PIECE_ELEMS ? width - done : PIECE_ELEMS;
      stg_random_normal(source->seed, stream, (uint64_t)row * width + done, source->scale, piece,
                        n);
      stg_convert(workload->dtype, dst + done * stg_dtype_bytes(workload->dtype), STG_F32, piece,
                  n);
    }
  }
}

stg_status stg_workload_fill(const struct stg_workload *workload,
                             const struct stg_spec_vector_source *source, void *ret_rows,
                             stg_error *reterr) {
  switch (source->kind) {
  case STG_VECTOR_VALUES:
    fill_from_values(workload, source, ret_rows);
    return STG_OK;
  case STG_VECTOR_RANDOM:
    fill_from_random(workload, source, ret_rows);
    return STG_OK;
  case STG_VECTOR_FILE:
    break;
  }
  return fill_from_file(workload, source, ret_rows, reterr);
}

/*
 * components_data.c: the numbers of a workload of components: elements of its inputs, bytes of a
 * bool mask, and Delta of a weight.
 */
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/intmath.h"
#include "specs/components_workload.h"

#define PIECE_ELEMS 512

static stg_status fill_bytes(const struct stg_components_workload *w,
                             const struct stg_spec_array *array, unsigned char *ret_bytes,
                             stg_error *reterr) {
  float piece[PIECE_ELEMS];
  stg_status status = STG_OK;
  for (int64_t done = 0; done < array->elems && status == STG_OK; done += PIECE_ELEMS) {
    const int64_t left = array->elems - done;
    const size_t n = left < PIECE_ELEMS ? (size_t)left : PIECE_ELEMS;
    status = stg_spec_array_read(w->open, array, done, n, STG_F32, piece, reterr);
    for (size_t i = 0; i < n && status == STG_OK; i++) {
      ret_bytes[done + (int64_t)i] = piece[i] > 0 ? 1 : 0;
    }
  }
  return status;
}

/* A matrix of the workload as it is given to components, in float32. To be freed. */
static stg_status read_matrix(const struct stg_components_workload *w,
                              enum stg_spec_components_input input, float **ret,
                              stg_error *reterr) {
  const struct stg_spec_array *array = &w->inputs[input];
  const size_t count = (size_t)array->elems;
  size_t bytes = 0;
  float *values = stg_mul_size(count, 2 * sizeof *values, &bytes) ? stg_malloc(bytes) : NULL;
  if (values == NULL) {
    return stg_error_memory(reterr, "a matrix of the workload", bytes);
  }
  *ret = values;
  stg_status status =
      stg_spec_array_read(w->open, array, 0, count, w->dtype, values + count, reterr);
  if (status == STG_OK) {
    stg_convert(STG_F32, values, w->dtype, values + count, count);
  }
  return status;
}

/* Row `o` of W - (V U)^T, in place of W's. */
static void subtract(const struct stg_components_workload *w, const float *v, const float *u,
                     size_t o, double *column, float *weight) {
  const size_t d_in = w->d_in, d_out = w->d_out, c = w->components;
  for (size_t k = 0; k < c; k++) {
    column[k] = (double)u[k * d_out + o];
  }
  for (size_t i = 0; i < d_in; i++) {
    double sum = 0;
    for (size_t k = 0; k < c; k++) {
      sum += (double)v[i * c + k] * column[k];
    }
    weight[i] = (float)((double)weight[i] - sum);
  }
}

static stg_status fill_difference(const struct stg_components_workload *w, unsigned char *ret_elems,
                                  stg_error *reterr) {
  const struct stg_spec_array *array = &w->inputs[STG_SPEC_COMPONENTS_DELTA];
  const size_t d_in = w->d_in, c = w->components;
  float *v = NULL, *u = NULL;
  double *column = stg_calloc(c, sizeof *column);
  float *weight = stg_calloc(d_in, sizeof *weight);
  stg_status status = column != NULL && weight != NULL
                          ? read_matrix(w, STG_SPEC_COMPONENTS_V, &v, reterr)
                          : stg_error_memory(reterr, "a row of Delta", d_in * sizeof *weight);
  if (status == STG_OK) {
    status = read_matrix(w, STG_SPEC_COMPONENTS_U, &u, reterr);
  }
  for (size_t o = 0; o < w->d_out && status == STG_OK; o++) {
    status =
        stg_spec_array_read(w->open, array, (int64_t)(o * d_in), d_in, STG_F32, weight, reterr);
    if (status == STG_OK) {
      subtract(w, v, u, o, column, weight);
      stg_convert(w->dtype, ret_elems + o * d_in * stg_dtype_bytes(w->dtype), STG_F32, weight,
                  d_in);
    }
  }
  stg_free(column);
  stg_free(weight);
  stg_free(v);
  stg_free(u);
  return status;
}

stg_status stg_components_workload_fill(const struct stg_components_workload *workload,
                                        enum stg_spec_components_input input, void *ret_elems,
                                        stg_error *reterr) {
  const struct stg_spec_array *array = &workload->inputs[input];
  if (input == STG_SPEC_COMPONENTS_MASK && workload->mask == STG_SPEC_MASK_BOOL) {
    return fill_bytes(workload, array, ret_elems, reterr);
  }
  if (input == STG_SPEC_COMPONENTS_DELTA && workload->weight) {
    return fill_difference(workload, ret_elems, reterr);
  }
  return stg_spec_array_read(workload->open, array, 0, (size_t)array->elems, workload->dtype,
                             ret_elems, reterr);
}

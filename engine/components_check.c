/*
 * components_check.c: what a call of components may be given: rows, tensors, strides, work memory.
 */
#include "engine/components.h"

#include <string.h>

#include "engine/components_apart.h"
#include "runtime/base/dtype.h"

#define WORK_ALIGNMENT 16

stg_status stg_components_check_rows(int64_t rows, stg_error *reterr) {
  return rows >= 0 && rows <= INT32_MAX
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID, "rows: %lld is not in 0..%d", (long long)rows,
                             INT32_MAX);
}

stg_status stg_components_share(int64_t rows, int64_t mask_share, int64_t *ret_share,
                                stg_error *reterr) {
  if (mask_share < 0) {
    return stg_error_set(reterr, STG_E_INVALID, "mask_share: %lld is below 0",
                         (long long)mask_share);
  }
  const int64_t all = rows > 0 ? rows : 1;
  *ret_share = mask_share == 0 || mask_share > all ? all : mask_share;
  return STG_OK;
}

/* A matrix of a call. */
struct tensor {
  const char *name;
  const void *data;
  size_t unit;      /* bytes of an element */
  const char *type; /* as messages have it */
  int64_t rows, columns;
  int64_t *stride; /* filled in where it is 0; NULL: packed */
};

static stg_status check_tensor(const struct tensor *tensor, stg_error *reterr) {
  if ((tensor->data == NULL && tensor->rows > 0) || (uintptr_t)tensor->data % tensor->unit != 0) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: %p is no address of %s elements", tensor->name,
                         tensor->data, tensor->type);
  }
  if (tensor->stride == NULL) {
    return STG_OK;
  }
  *tensor->stride = *tensor->stride != 0 ? *tensor->stride : tensor->columns;
  const int64_t stride = *tensor->stride;
  if (stride > INT64_MAX / (tensor->rows + 1) / (int64_t)sizeof(double)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "%s_stride: %lld is too large: %lld rows of it are beyond memory",
                         tensor->name, (long long)stride, (long long)tensor->rows);
  }
  if (stride < tensor->columns) {
    return stg_error_set(reterr, STG_E_INVALID, "%s_stride: %lld; a row has %lld elements",
                         tensor->name, (long long)stride, (long long)tensor->columns);
  }
  return STG_OK;
}

/* The same of something that may not be declared. */
static stg_status check_declared(bool is_declared, const struct tensor *tensor, stg_error *reterr) {
  if (is_declared) {
    return check_tensor(tensor, reterr);
  }
  return tensor->data == NULL
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID, "%s: %p; the components do not declare it",
                             tensor->name, tensor->data);
}

static struct tensor tensor_of(const struct stg_components_geometry *g, const char *name,
                               const void *data, int64_t rows, int64_t columns, int64_t *stride) {
  return (struct tensor){.name = name,
                         .data = data,
                         .unit = stg_dtype_bytes(g->dtype),
                         .type = stg_dtype_name(g->dtype),
                         .rows = rows,
                         .columns = columns,
                         .stride = stride};
}

static stg_status check_valid(const stg_components_tensors *tensors, stg_error *reterr) {
  if (tensors->valid == NULL) {
    return STG_OK;
  }
  const struct tensor valid = {
      .name = "valid", .data = tensors->valid, .unit = sizeof *tensors->valid, .type = "int32"};
  if (tensors->sequence < 1 || tensors->sequence > INT32_MAX) {
    return stg_error_set(reterr, STG_E_INVALID, "sequence: %lld is not in 1..%d",
                         (long long)tensors->sequence, INT32_MAX);
  }
  return check_tensor(&valid, reterr);
}

/* Rows, and what is the same for any geometry. */
static stg_status check_sizes(const stg_components *components,
                              const stg_components_tensors *tensors, int64_t *ret_share,
                              stg_error *reterr) {
  struct stg_graph_shape shape;
  stg_status status = stg_components_check_rows(tensors->rows, reterr);
  if (status == STG_OK && tensors->rows > 0) {
    status = stg_components_shape(&components->row_buckets, tensors->rows, &shape, reterr);
  }
  if (status == STG_OK) {
    status = stg_components_share(tensors->rows, tensors->mask_share, ret_share, reterr);
  }
  return status == STG_OK ? check_valid(tensors, reterr) : status;
}

static struct stg_components_inputs inputs_of(const stg_components_tensors *tensors,
                                              int64_t share) {
  return (struct stg_components_inputs){
      .rows = {.rows = tensors->rows, .sequence = tensors->sequence, .valid = tensors->valid},
      .x = tensors->x,
      .x_stride = tensors->x_stride,
      .v = tensors->v,
      .u = tensors->u,
      .mask = tensors->mask,
      .mask_stride = tensors->mask_stride,
      .mask_share = share,
      .bias = tensors->bias,
      .d = tensors->d,
      .delta = tensors->delta,
  };
}

static int64_t groups_of(const struct stg_components_inputs *inputs) {
  return (inputs->rows.rows + inputs->mask_share - 1) / inputs->mask_share;
}

/* Those that have a type of elements. */
#define INPUTS 7
struct input {
  bool is_declared;
  struct tensor tensor;
};

/* Strides are filled in there. On the way back no bias is looked at. */
static void list_inputs(const struct stg_components_geometry *g, struct stg_components_inputs *in,
                        bool backward, struct input ret_list[INPUTS]) {
  const int64_t rows = in->rows.rows, d_in = g->d_in, d_out = g->d_out, count = g->components;
  struct tensor mask = tensor_of(g, "mask", in->mask, groups_of(in), count, &in->mask_stride);
  if (g->mask == STG_COMPONENTS_MASK_BOOL) {
    mask.unit = 1;
    mask.type = "bool";
  }
  const struct input list[INPUTS] = {
      {true, tensor_of(g, "x", in->x, rows, d_in, &in->x_stride)},
      {true, tensor_of(g, "v", in->v, d_in, count, NULL)},
      {true, tensor_of(g, "u", in->u, count, d_out, NULL)},
      {g->mask != STG_COMPONENTS_MASK_NONE, mask},
      {g->bias, tensor_of(g, "bias", backward ? NULL : in->bias, backward ? 0 : 1, d_out, NULL)},
      {g->delta, tensor_of(g, "d", in->d, rows, 1, NULL)},
      {g->delta, tensor_of(g, "delta", in->delta, d_out, d_in, NULL)},
  };
  memcpy(ret_list, list, sizeof list);
}

stg_status stg_components_check(const stg_components *components,
                                const stg_components_tensors *tensors, bool backward,
                                struct stg_components_inputs *ret_inputs, stg_error *reterr) {
  const struct stg_components_geometry *g = &components->form.geometry;
  struct input list[INPUTS];
  int64_t share = 0;
  stg_status status = check_sizes(components, tensors, &share, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_components_inputs in = inputs_of(tensors, share);
  list_inputs(g, &in, backward, list);
  for (size_t i = 0; i < INPUTS && status == STG_OK; i++) {
    status = check_declared(list[i].is_declared, &list[i].tensor, reterr);
  }
  if (status == STG_OK) {
    *ret_inputs = in;
  }
  return status;
}

/* ---- memory that calls write ---- */

static struct stg_components_memory memory_of(const struct tensor *tensor) {
  const int64_t stride = tensor->stride != NULL ? *tensor->stride : tensor->columns;
  return (struct stg_components_memory){.name = tensor->name,
                                        .data = tensor->data,
                                        .rows = tensor->rows,
                                        .row_bytes = (uint64_t)tensor->columns * tensor->unit,
                                        .step_bytes = (uint64_t)stride * tensor->unit};
}

/* Memory of what a call reads, which has been checked. Returns how many. */
static size_t list_memory(const struct stg_components_geometry *g,
                          const struct stg_components_inputs *inputs, bool backward,
                          struct stg_components_memory ret_list[INPUTS + 1]) {
  struct stg_components_inputs in = *inputs;
  struct input list[INPUTS];
  list_inputs(g, &in, backward, list);
  for (size_t i = 0; i < INPUTS; i++) {
    ret_list[i] = memory_of(&list[i].tensor);
  }
  const struct stg_components_rows *rows = &inputs->rows;
  const int64_t lengths =
      rows->valid == NULL || rows->rows == 0 ? 0 : (rows->rows - 1) / rows->sequence + 1;
  ret_list[INPUTS] = (struct stg_components_memory){.name = "valid",
                                                    .data = rows->valid,
                                                    .rows = lengths,
                                                    .row_bytes = sizeof *rows->valid,
                                                    .step_bytes = sizeof *rows->valid};
  return INPUTS + 1;
}

stg_status stg_components_check_y(const stg_components *components,
                                  const struct stg_components_inputs *inputs,
                                  const stg_components_tensors *tensors, int64_t *ret_stride,
                                  stg_error *reterr) {
  const struct stg_components_geometry *g = &components->form.geometry;
  int64_t stride = tensors->y_stride;
  const struct tensor y = tensor_of(g, "y", tensors->y, tensors->rows, g->d_out, &stride);
  struct stg_components_memory others[INPUTS + 1];
  stg_status status = check_tensor(&y, reterr);
  if (status == STG_OK) {
    const struct stg_components_memory own = memory_of(&y);
    const size_t n_others = list_memory(g, inputs, false, others);
    status = stg_components_check_apart(&own, others, n_others, reterr);
  }
  if (status == STG_OK) {
    *ret_stride = stride;
  }
  return status;
}

/* ---- the way back ---- */

static stg_status check_dm(const struct stg_components_geometry *g, const void *dm,
                           stg_error *reterr) {
  return dm == NULL || g->mask != STG_COMPONENTS_MASK_BOOL
             ? STG_OK
             : stg_error_set(reterr, STG_E_INVALID, "dm: %p; a mask of bytes has no gradient", dm);
}

/* Bytes of work memory that the call needs. */
static size_t work_bytes_of(const struct stg_components_geometry *g,
                            const struct stg_components_inputs *inputs,
                            const stg_components_grads *grads) {
  const bool sums = grads->dv != NULL || grads->du != NULL || grads->dbias != NULL ||
                    grads->ddelta != NULL || (grads->dm != NULL && inputs->mask_share > 1);
  return sums ? stg_components_bytes(g, inputs->rows.rows, inputs->mask_share) : 0;
}

static stg_status check_work(const struct stg_components_inputs *inputs,
                             const stg_components_grads *grads, size_t needed, stg_error *reterr) {
  if (grads->work_bytes < needed) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "work_bytes: %zu are fewer than the %zu that %lld rows need",
                         grads->work_bytes, needed, (long long)inputs->rows.rows);
  }
  if (needed > 0 && (grads->work == NULL || (uintptr_t)grads->work % WORK_ALIGNMENT != 0)) {
    return stg_error_set(reterr, STG_E_INVALID, "work: %p is no address at %d bytes in whole",
                         grads->work, WORK_ALIGNMENT);
  }
  return STG_OK;
}

/* A gradient that is not wanted is not looked at. */
static stg_status check_grad(bool is_declared, struct tensor tensor, stg_error *reterr) {
  return tensor.data != NULL ? check_declared(is_declared, &tensor, reterr) : STG_OK;
}

/* Gradients, and work memory. */
#define WRITTEN 8
#define READ (INPUTS + 2)

/* What is behind the read is what is written, each apart from all before it. */
static stg_status check_written(const struct stg_components_memory *list, size_t n_read, size_t n,
                                stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = n_read; i < n && status == STG_OK; i++) {
    status = stg_components_check_apart(&list[i], list, i, reterr);
  }
  return status;
}

stg_status stg_components_check_grads(const stg_components *components,
                                      const struct stg_components_inputs *inputs,
                                      const stg_components_grads *grads,
                                      stg_components_grads *ret_grads, stg_error *reterr) {
  const struct stg_components_geometry *g = &components->form.geometry;
  const int64_t rows = inputs->rows.rows, d_in = g->d_in, d_out = g->d_out, count = g->components;
  stg_components_grads whole = *grads;
  const struct tensor dy = tensor_of(g, "dy", whole.dy, rows, d_out, &whole.dy_stride);
  const bool has_mask = g->mask != STG_COMPONENTS_MASK_NONE;
  const struct input all[WRITTEN - 1] = {
      {true, tensor_of(g, "dx", whole.dx, rows, d_in, &whole.dx_stride)},
      {true, tensor_of(g, "dv", whole.dv, d_in, count, NULL)},
      {true, tensor_of(g, "du", whole.du, count, d_out, NULL)},
      {has_mask, tensor_of(g, "dm", whole.dm, groups_of(inputs), count, &whole.dm_stride)},
      {g->bias, tensor_of(g, "dbias", whole.dbias, 1, d_out, NULL)},
      {g->delta, tensor_of(g, "dd", whole.dd, rows, 1, NULL)},
      {g->delta, tensor_of(g, "ddelta", whole.ddelta, d_out, d_in, NULL)},
  };
  stg_status status = check_tensor(&dy, reterr);
  if (status == STG_OK) {
    status = check_dm(g, whole.dm, reterr);
  }
  for (size_t i = 0; i < WRITTEN - 1 && status == STG_OK; i++) {
    status = check_grad(all[i].is_declared, all[i].tensor, reterr);
  }
  const size_t needed = work_bytes_of(g, inputs, &whole);
  if (status == STG_OK) {
    status = check_work(inputs, &whole, needed, reterr);
  }
  if (status == STG_OK) {
    struct stg_components_memory list[READ + WRITTEN];
    size_t n = list_memory(g, inputs, true, list);
    list[n++] = memory_of(&dy);
    for (size_t i = 0; i < WRITTEN - 1; i++) {
      list[n++] = memory_of(&all[i].tensor);
    }
    list[n++] = (struct stg_components_memory){.name = "work",
                                               .data = whole.work,
                                               .rows = needed > 0,
                                               .row_bytes = needed,
                                               .step_bytes = needed};
    status = check_written(list, READ, n, reterr);
  }
  if (status == STG_OK) {
    *ret_grads = whole;
  }
  return status;
}

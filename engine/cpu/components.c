/*
 * cpu/components.c: y of components.h, row by row.
 *
 * The intermediate of one row is in flight at a time. It must not know of gradients.
 */
#include "engine/cpu/components.h"

#include <string.h>

#include "engine/cpu/components_work.h"
#include "engine/cpu/lanes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

struct forward {
  struct stg_cpu_components_work work;
  struct stg_cpu_matrix y; /* [1, d_out] */
};

static void cut(struct forward *forward, struct stg_cpu_cutter *cutter) {
  stg_cpu_components_cut(&forward->work, cutter);
  forward->y = stg_cpu_cut(cutter, 1, forward->work.geometry->d_out);
}

static void clear(struct stg_cpu_matrix *row) {
  memset(row->data, 0, row->padded * sizeof *row->data);
}

/* y = d * (x Delta^T), or 0: where the sum over U begins. */
static void begin_y(struct forward *forward, int64_t row) {
  struct stg_cpu_components_work *work = &forward->work;
  clear(&forward->y);
  if (work->delta.rows == 0) {
    return;
  }
  const float d = stg_cpu_components_load_d(work, row);
  for (size_t o = 0; o < work->delta.rows; o++) {
    const float *delta = stg_cpu_matrix_row(&work->delta, o);
    forward->y.data[o] = d * stg_cpu_dot(work->x.data, delta, work->delta.padded);
  }
}

static void compute_row(struct forward *forward, int64_t row) {
  struct stg_cpu_components_work *work = &forward->work;
  stg_cpu_components_load(work, work->inputs->x, row * work->inputs->x_stride, &work->x);
  stg_cpu_components_round(work->geometry, work->x.data, work->x.columns);
  stg_cpu_components_load_mask(work, row);
  clear(&work->t);
  stg_cpu_components_multiply(work->x.data, &work->v, work->t.data);
  stg_cpu_components_weigh(work, work->t.data, &work->s);
  begin_y(forward, row);
  stg_cpu_components_multiply(work->s.data, &work->u, forward->y.data);
  if (work->bias.rows != 0) {
    stg_cpu_add(work->bias.data, work->bias.padded, forward->y.data);
  }
}

stg_status stg_cpu_components(const struct stg_cpu_components_batch *batch, stg_error *reterr) {
  const struct stg_components_geometry *g = batch->geometry;
  struct forward forward = {.work = {.geometry = g, .inputs = &batch->inputs}};
  struct stg_cpu_cutter cutter = {0};
  void *block = NULL;
  cut(&forward, &cutter);
  const stg_status status = stg_cpu_cutter_allocate(&cutter, &block, reterr);
  if (status != STG_OK) {
    return status;
  }
  cut(&forward, &cutter);
  stg_cpu_components_load_matrices(&forward.work);
  const int64_t unit = (int64_t)stg_dtype_bytes(g->dtype);
  for (int64_t row = 0; row < batch->inputs.rows.rows; row++) {
    if (stg_components_is_live(&batch->inputs.rows, row)) {
      compute_row(&forward, row);
    } else {
      clear(&forward.y);
    }
    stg_cpu_store(g->dtype, forward.y.data, g->d_out,
                  (unsigned char *)batch->y + row * batch->y_stride * unit);
  }
  stg_free(block);
  return STG_OK;
}

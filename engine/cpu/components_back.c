/*
 * cpu/components_back.c: gradients of components.h, row by row.
 *
 * With g = dy U^T and h = g*m:  dx = h V^T + d*(dy Delta),  dm = g*t,  dV = x^T h,  dU = s^T dy,
 * dDelta = (d*dy)^T x,  dd = x . (dy Delta),  dbias the sum of dy. Sums over rows have three
 * levels: a part, a span, all; so their rounding errors are those of a span. The operands of a
 * part's rows are kept until it is full, and then multiplied at once.
 */
#include "engine/cpu/components.h"

#include <string.h>

#include "engine/cpu/components_work.h"
#include "engine/cpu/lanes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

/* What the live rows of a part have, a row each. */
struct part {
  size_t rows;
  struct stg_cpu_matrix x, s, h, dy, scaled; /* operands; scaled is d*dy */
};

/* left^T right, summed over rows; without rows it is not wanted. */
struct product {
  const struct stg_cpu_matrix *left, *right;
  struct stg_cpu_matrix span, all;
};

/* A sum of rows likewise. */
struct sum {
  struct stg_cpu_matrix part, span, all;
};

struct back {
  const struct stg_cpu_components_gradient *call;
  struct stg_cpu_components_work work;
  struct stg_cpu_matrix x, dy;              /* [1, d_in], [1, d_out]: as they are */
  struct stg_cpu_matrix dy_operand, scaled; /* [1, d_out] */
  struct stg_cpu_matrix g, h, dm;           /* [1, C] */
  struct stg_cpu_matrix z, dx;              /* [1, d_in]: dy Delta, and dx */
  struct part part;
  struct product dv, du, ddelta;
  struct sum dbias;
  struct sum group; /* [1, C]: dm of the rows that share a row of the mask; no spans */
};

static void cut_sum(struct sum *sum, struct stg_cpu_cutter *cutter, bool wanted, size_t columns) {
  sum->part = stg_cpu_cut(cutter, wanted ? 1 : 0, columns);
  sum->span = stg_cpu_cut(cutter, wanted ? 1 : 0, columns);
  sum->all = stg_cpu_cut(cutter, wanted ? 1 : 0, columns);
}

static void cut_product(struct product *product, struct stg_cpu_cutter *cutter, bool wanted,
                        const struct stg_cpu_matrix *left, const struct stg_cpu_matrix *right) {
  product->left = left;
  product->right = right;
  product->span = stg_cpu_cut(cutter, wanted ? left->columns : 0, right->columns);
  product->all = stg_cpu_cut(cutter, wanted ? left->columns : 0, right->columns);
}

static void cut_part(struct part *part, struct stg_cpu_cutter *cutter, size_t d_in,
                     size_t components, size_t d_out) {
  part->x = stg_cpu_cut(cutter, STG_COMPONENTS_PART, d_in);
  part->s = stg_cpu_cut(cutter, STG_COMPONENTS_PART, components);
  part->h = stg_cpu_cut(cutter, STG_COMPONENTS_PART, components);
  part->dy = stg_cpu_cut(cutter, STG_COMPONENTS_PART, d_out);
  part->scaled = stg_cpu_cut(cutter, STG_COMPONENTS_PART, d_out);
}

static void cut(struct back *back, struct stg_cpu_cutter *cutter) {
  const struct stg_components_geometry *geometry = back->work.geometry;
  const struct stg_components_gradients *out = &back->call->out;
  const size_t d_in = geometry->d_in;
  const size_t d_out = geometry->d_out;
  const size_t components = geometry->components;
  stg_cpu_components_cut(&back->work, cutter);
  back->x = stg_cpu_cut(cutter, 1, d_in);
  back->dy = stg_cpu_cut(cutter, 1, d_out);
  back->dy_operand = stg_cpu_cut(cutter, 1, d_out);
  back->scaled = stg_cpu_cut(cutter, 1, d_out);
  back->g = stg_cpu_cut(cutter, 1, components);
  back->h = stg_cpu_cut(cutter, 1, components);
  back->dm = stg_cpu_cut(cutter, 1, components);
  back->z = stg_cpu_cut(cutter, 1, d_in);
  back->dx = stg_cpu_cut(cutter, 1, d_in);
  struct part *part = &back->part;
  cut_part(part, cutter, d_in, components, d_out);
  cut_product(&back->dv, cutter, out->dv != NULL, &part->x, &part->h);
  cut_product(&back->du, cutter, out->du != NULL, &part->s, &part->dy);
  cut_product(&back->ddelta, cutter, out->ddelta != NULL, &part->scaled, &part->x);
  cut_sum(&back->dbias, cutter, out->dbias != NULL, d_out);
  cut_sum(&back->group, cutter, out->dm != NULL, components);
}

static void flush(struct stg_cpu_matrix *from, struct stg_cpu_matrix *to) {
  const size_t elems = from->rows * from->padded;
  stg_cpu_add(from->data, elems, to->data);
  memset(from->data, 0, elems * sizeof *from->data);
}

static void add_to_part(struct sum *sum, const struct stg_cpu_matrix *row) {
  if (sum->part.rows != 0) {
    stg_cpu_add(row->data, row->padded, sum->part.data);
  }
}

/* The part's rows into the span. */
static void multiply_part(const struct part *part, struct product *product) {
  float column[STG_COMPONENTS_PART];
  struct stg_cpu_matrix right = *product->right;
  right.rows = part->rows;
  for (size_t i = 0; i < product->span.rows; i++) {
    for (size_t row = 0; row < part->rows; row++) {
      column[row] = stg_cpu_matrix_row(product->left, row)[i];
    }
    stg_cpu_components_multiply(column, &right, stg_cpu_matrix_row(&product->span, i));
  }
}

static void keep(const struct stg_cpu_matrix *from, size_t row, struct stg_cpu_matrix *to) {
  memcpy(stg_cpu_matrix_row(to, row), from->data, from->padded * sizeof *from->data);
}

/* ret[i] = a . matrix[i] */
static void multiply_turned(const float *a, const struct stg_cpu_matrix *matrix, float *ret) {
  for (size_t i = 0; i < matrix->rows; i++) {
    ret[i] = stg_cpu_dot(a, stg_cpu_matrix_row(matrix, i), matrix->padded);
  }
}

static void clear(struct stg_cpu_matrix *row) {
  memset(row->data, 0, row->padded * sizeof *row->data);
}

static void store(const struct back *back, const struct stg_cpu_matrix *row, void *tensor,
                  int64_t first) {
  const stg_dtype dtype = back->work.geometry->dtype;
  const int64_t unit = (int64_t)stg_dtype_bytes(dtype);
  stg_cpu_store(dtype, row->data, row->columns, (unsigned char *)tensor + first * unit);
}

static void load_row(struct back *back, int64_t row) {
  struct stg_cpu_components_work *work = &back->work;
  const struct stg_components_geometry *geometry = work->geometry;
  stg_cpu_components_load(work, work->inputs->x, row * work->inputs->x_stride, &work->x);
  memcpy(back->x.data, work->x.data, work->x.padded * sizeof(float));
  stg_cpu_components_round(geometry, work->x.data, work->x.columns);
  stg_cpu_components_load_mask(work, row);
  stg_cpu_components_load(work, back->call->dy, row * back->call->dy_stride, &back->dy);
  memcpy(back->dy_operand.data, back->dy.data, back->dy.padded * sizeof(float));
  stg_cpu_components_round(geometry, back->dy_operand.data, back->dy.columns);
}

/* t, s, g, h and g*t of the row. */
static void compute_intermediate(struct back *back) {
  struct stg_cpu_components_work *work = &back->work;
  clear(&work->t);
  stg_cpu_components_multiply(work->x.data, &work->v, work->t.data);
  stg_cpu_components_weigh(work, work->t.data, &work->s);
  multiply_turned(back->dy_operand.data, &work->u, back->g.data);
  stg_cpu_components_weigh(work, back->g.data, &back->h);
  for (size_t c = 0; c < back->dm.padded; c++) {
    back->dm.data[c] = back->g.data[c] * work->t.data[c];
  }
}

/* z, and what follows from it but for dx. */
static void compute_delta(struct back *back, int64_t row, float d) {
  const struct stg_components_gradients *out = &back->call->out;
  const struct stg_components_geometry *geometry = back->work.geometry;
  clear(&back->z);
  stg_cpu_components_multiply(back->dy_operand.data, &back->work.delta, back->z.data);
  if (out->dd != NULL) {
    const float dd = stg_cpu_dot(back->x.data, back->z.data, back->z.padded);
    stg_store_f32(geometry->dtype, out->dd, (size_t)row, dd);
  }
  stg_cpu_scale(d, back->dy.data, back->dy.padded, back->scaled.data);
  stg_cpu_components_round(geometry, back->scaled.data, back->scaled.columns);
}

static void store_dx(struct back *back, int64_t row, float d) {
  const struct stg_components_gradients *out = &back->call->out;
  const struct stg_cpu_components_work *work = &back->work;
  for (size_t k = 0; k < back->dx.columns; k++) {
    const float *v = stg_cpu_matrix_row(&work->v, k);
    back->dx.data[k] = d * back->z.data[k] + stg_cpu_dot(back->h.data, v, work->v.padded);
  }
  store(back, &back->dx, out->dx, row * out->dx_stride);
}

static void compute_row(struct back *back, int64_t row) {
  const struct stg_components_gradients *out = &back->call->out;
  const bool delta = back->work.delta.rows != 0;
  const float d = delta ? stg_cpu_components_load_d(&back->work, row) : 0;
  load_row(back, row);
  compute_intermediate(back);
  if (delta) {
    compute_delta(back, row, d);
  }
  if (out->dx != NULL) {
    store_dx(back, row, d);
  }
  struct part *part = &back->part;
  keep(&back->work.x, part->rows, &part->x);
  keep(&back->work.s, part->rows, &part->s);
  keep(&back->h, part->rows, &part->h);
  keep(&back->dy_operand, part->rows, &part->dy);
  keep(&back->scaled, part->rows, &part->scaled);
  part->rows++;
  add_to_part(&back->dbias, &back->dy);
  add_to_part(&back->group, &back->dm);
}

static void store_padding(struct back *back, int64_t row) {
  const struct stg_components_gradients *out = &back->call->out;
  if (out->dx != NULL) {
    clear(&back->dx);
    store(back, &back->dx, out->dx, row * out->dx_stride);
  }
  if (out->dd != NULL) {
    stg_store_f32(back->work.geometry->dtype, out->dd, (size_t)row, 0);
  }
}

/* Store dm where `row` is the last that has its row of the mask. */
static void end_group(struct back *back, int64_t row) {
  const struct stg_components_gradients *out = &back->call->out;
  const struct stg_components_inputs *inputs = &back->call->inputs;
  const int64_t group = stg_components_mask_row(inputs, row);
  const bool last = row + 1 == inputs->rows.rows;
  if (out->dm == NULL || (!last && stg_components_mask_row(inputs, row + 1) == group)) {
    return;
  }
  flush(&back->group.part, &back->group.all);
  store(back, &back->group.all, out->dm, group * out->dm_stride);
  clear(&back->group.all);
}

static void end_part(struct back *back) {
  multiply_part(&back->part, &back->dv);
  multiply_part(&back->part, &back->du);
  multiply_part(&back->part, &back->ddelta);
  back->part.rows = 0;
  flush(&back->dbias.part, &back->dbias.span);
  flush(&back->group.part, &back->group.all);
}

static void end_span(struct back *back) {
  flush(&back->dv.span, &back->dv.all);
  flush(&back->du.span, &back->du.all);
  flush(&back->ddelta.span, &back->ddelta.all);
  flush(&back->dbias.span, &back->dbias.all);
}

static void store_sum(const struct back *back, const struct stg_cpu_matrix *sum, void *tensor) {
  for (size_t i = 0; i < sum->rows; i++) {
    struct stg_cpu_matrix row = *sum;
    row.data = stg_cpu_matrix_row(sum, i);
    store(back, &row, tensor, (int64_t)(i * row.columns));
  }
}

static void run(struct back *back) {
  const struct stg_components_gradients *out = &back->call->out;
  const struct stg_components_rows *rows = &back->call->inputs.rows;
  const int64_t span = stg_components_span(back->work.geometry->components, rows->rows);
  for (int64_t row = 0; row < rows->rows; row++) {
    if (stg_components_is_live(rows, row)) {
      compute_row(back, row);
    } else {
      store_padding(back, row);
    }
    end_group(back, row);
    if ((row + 1) % STG_COMPONENTS_PART == 0 || row + 1 == rows->rows) {
      end_part(back);
    }
    if ((row + 1) % span == 0 || row + 1 == rows->rows) {
      end_span(back);
    }
  }
  store_sum(back, &back->dv.all, out->dv);
  store_sum(back, &back->du.all, out->du);
  store_sum(back, &back->ddelta.all, out->ddelta);
  store_sum(back, &back->dbias.all, out->dbias);
}

stg_status stg_cpu_components_back(const struct stg_cpu_components_gradient *gradient,
                                   stg_error *reterr) {
  struct back back = {
      .call = gradient,
      .work = {.geometry = gradient->geometry, .inputs = &gradient->inputs},
  };
  struct stg_components_geometry without_bias = *gradient->geometry;
  without_bias.bias = false; /* is not read */
  back.work.geometry = &without_bias;
  struct stg_cpu_cutter cutter = {0};
  void *block = NULL;
  cut(&back, &cutter);
  const stg_status status = stg_cpu_cutter_allocate(&cutter, &block, reterr);
  if (status != STG_OK) {
    return status;
  }
  cut(&back, &cutter);
  stg_cpu_components_load_matrices(&back.work);
  run(&back);
  stg_free(block);
  return STG_OK;
}

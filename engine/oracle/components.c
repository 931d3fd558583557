/*
 * oracle/components.c: see components.h. Row by row and term by term, deliberately naive.
 */
#include "engine/oracle/components.h"

#include <math.h>

#include "engine/oracle/components_values.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

struct oracle {
  const struct stg_components_geometry *g;
  const struct stg_components_inputs *inputs;
  struct stg_oracle_components_dy dy_in;
  const struct stg_components_gradients *wanted;
  const struct stg_oracle_components_sink *sink;
  struct stg_oracle_rounding rounding;
  int64_t d_in, d_out, components;
  struct stg_oracle_values v, u, delta; /* as operands */
  struct stg_oracle_values x, t, s, y;
  double *mask;  /* [C] */
  double *bound; /* [widest row] */
  struct stg_oracle_values dy, dy_operand, scaled, g_values, h, gt, x_plain, dx, z, dd;
  struct stg_oracle_values dv, du, ddelta, dbias, dm; /* sums over rows */
  int64_t dm_rows;                                    /* in the sum of dm */
};

static void take_room(struct oracle *o, struct stg_oracle_room *room, bool back) {
  const size_t d_in = o->g->d_in;
  const size_t d_out = o->g->d_out;
  const size_t components = o->g->components;
  const size_t backward = back ? 1 : 0;
  const size_t widest = d_in > d_out ? d_in : d_out;
  o->d_in = (int64_t)d_in;
  o->d_out = (int64_t)d_out;
  o->components = (int64_t)components;
  o->v = stg_oracle_room_values(room, d_in, components);
  o->u = stg_oracle_room_values(room, components, d_out);
  o->delta = stg_oracle_room_values(room, o->g->delta ? d_out : 0, d_in);
  o->x = stg_oracle_room_values(room, 1, d_in);
  o->t = stg_oracle_room_values(room, 1, components);
  o->s = stg_oracle_room_values(room, 1, components);
  o->y = stg_oracle_room_values(room, 1, d_out);
  o->mask = stg_oracle_room_take(room, 1, components);
  o->bound = stg_oracle_room_take(room, 1, widest > components ? widest : components);
  o->dy = stg_oracle_room_values(room, backward, d_out);
  o->dy_operand = stg_oracle_room_values(room, backward, d_out);
  o->scaled = stg_oracle_room_values(room, backward, d_out);
  o->g_values = stg_oracle_room_values(room, backward, components);
  o->h = stg_oracle_room_values(room, backward, components);
  o->gt = stg_oracle_room_values(room, backward, components);
  o->dx = stg_oracle_room_values(room, backward, d_in);
  o->x_plain = stg_oracle_room_values(room, backward, d_in);
  o->z = stg_oracle_room_values(room, backward, d_in);
  o->dd = stg_oracle_room_values(room, backward, 1);
  o->dv = stg_oracle_room_values(room, back && o->wanted->dv != NULL ? d_in : 0, components);
  o->du = stg_oracle_room_values(room, back && o->wanted->du != NULL ? components : 0, d_out);
  o->ddelta = stg_oracle_room_values(room, back && o->wanted->ddelta != NULL ? d_out : 0, d_in);
  o->dbias = stg_oracle_room_values(room, back && o->wanted->dbias != NULL ? 1 : 0, d_out);
  o->dm = stg_oracle_room_values(room, back && o->wanted->dm != NULL ? 1 : 0, components);
}

static stg_status open_oracle(struct oracle *o, bool back, void **ret_block, stg_error *reterr) {
  struct stg_oracle_room room = {0};
  take_room(o, &room, back);
  const stg_status status = stg_oracle_room_allocate(&room, ret_block, reterr);
  if (status != STG_OK) {
    return status;
  }
  take_room(o, &room, back);
  o->rounding = stg_oracle_rounding_of(o->g);
  stg_oracle_values_load(&o->rounding, o->g->dtype, o->inputs->v, 0, &o->v);
  stg_oracle_values_load(&o->rounding, o->g->dtype, o->inputs->u, 0, &o->u);
  if (o->delta.n != 0) {
    stg_oracle_values_load(&o->rounding, o->g->dtype, o->inputs->delta, 0, &o->delta);
  }
  return STG_OK;
}

static double adds(const struct oracle *o, int64_t n) {
  return stg_oracle_adds(&o->rounding, n);
}

/* sum[j] += sum over i of a[i] * matrix[i][j], or matrix[j][i] where it is `turned`. */
static void multiply(const struct stg_oracle_values *a, const struct stg_oracle_values *matrix,
                     bool turned, struct stg_oracle_values *sum) {
  for (int64_t j = 0; j < sum->n; j++) {
    for (int64_t i = 0; i < a->n; i++) {
      const int64_t at = turned ? j * a->n + i : i * sum->n + j;
      stg_oracle_values_add(sum, j, a->ref[i], a->error[i], matrix->ref[at], matrix->error[at]);
    }
  }
}

/* sum[i][j] += a[i] * b[j] */
static void add_outer(const struct stg_oracle_values *a, const struct stg_oracle_values *b,
                      struct stg_oracle_values *sum) {
  for (int64_t at = 0; at < sum->n; at++) {
    const int64_t i = at / b->n;
    const int64_t j = at % b->n;
    stg_oracle_values_add(sum, at, a->ref[i], a->error[i], b->ref[j], b->error[j]);
  }
}

/* A sum goes on from `factor` times what it is. */
static void scale_sum(struct stg_oracle_values *sum, double factor) {
  for (int64_t j = 0; j < sum->n; j++) {
    sum->ref[j] *= factor;
    sum->error[j] *= fabs(factor);
    sum->magnitude[j] *= fabs(factor);
  }
}

static double d_of(const struct oracle *o, int64_t row) {
  return (double)stg_load_f32(o->g->dtype, o->inputs->d, (size_t)row);
}

static void load_mask(struct oracle *o, int64_t row) {
  const int64_t first = row / o->inputs->mask_share * o->inputs->mask_stride;
  for (int64_t c = 0; c < o->components; c++) {
    const size_t at = (size_t)(first + c);
    o->mask[c] = 1;
    if (o->g->mask == STG_COMPONENTS_MASK_DTYPE) {
      o->mask[c] = (double)stg_load_f32(o->g->dtype, o->inputs->mask, at);
    } else if (o->g->mask == STG_COMPONENTS_MASK_BOOL) {
      o->mask[c] = ((const uint8_t *)o->inputs->mask)[at] != 0;
    }
  }
}

/* x, the mask, t and s of a row. */
static void compute_s(struct oracle *o, int64_t row) {
  stg_oracle_values_load(&o->rounding, o->g->dtype, o->inputs->x, row * o->inputs->x_stride, &o->x);
  load_mask(o, row);
  stg_oracle_values_clear(&o->t);
  multiply(&o->x, &o->v, false, &o->t);
  stg_oracle_values_settle(&o->t, adds(o, o->d_in));
  stg_oracle_values_product(&o->t, o->mask, NULL, &o->s);
  stg_oracle_values_round(&o->rounding, &o->s);
}

/* `values` as row `row` of a result: rounded once more, as they are stored. */
static void give(struct oracle *o, const char *tensor, int64_t row,
                 const struct stg_oracle_values *values) {
  const double unit = stg_dtype_unit(o->g->dtype);
  const double tiny = stg_dtype_tiny(o->g->dtype);
  for (int64_t j = 0; j < values->n; j++) {
    o->bound[j] = 1.01 * values->error[j] + unit * fabs(values->ref[j]) + tiny / 2;
  }
  o->sink->take(o->sink->user, tensor, row, values->n, values->ref, o->bound);
}

static void compute_y(struct oracle *o, int64_t row) {
  double more = 0;
  compute_s(o, row);
  if (o->delta.n != 0) {
    multiply(&o->x, &o->delta, true, &o->y);
    scale_sum(&o->y, d_of(o, row));
    more = adds(o, o->d_in) + 1;
  }
  multiply(&o->s, &o->u, false, &o->y);
  for (int64_t j = 0; o->g->bias && j < o->d_out; j++) {
    const double bias = (double)stg_load_f32(o->g->dtype, o->inputs->bias, (size_t)j);
    stg_oracle_values_add(&o->y, j, bias, 0, 1, 0);
  }
  stg_oracle_values_settle(&o->y, adds(o, o->components) + more + 1);
}

stg_status stg_oracle_components(const struct stg_components_geometry *geometry,
                                 const struct stg_components_inputs *inputs,
                                 const struct stg_oracle_components_sink *sink, stg_error *reterr) {
  struct oracle o = {.g = geometry, .inputs = inputs, .sink = sink};
  void *block = NULL;
  const stg_status status = open_oracle(&o, false, &block, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (int64_t row = 0; row < inputs->rows.rows; row++) {
    stg_oracle_values_clear(&o.y);
    if (stg_components_is_live(&inputs->rows, row)) {
      compute_y(&o, row);
    }
    give(&o, "y", row, &o.y);
  }
  stg_free(block);
  return STG_OK;
}

/* dy, g, h and g*t of a row. */
static void compute_h(struct oracle *o, int64_t row) {
  const int64_t first = row * o->dy_in.stride;
  stg_oracle_values_load_plain(o->g->dtype, o->dy_in.data, first, &o->dy);
  stg_oracle_values_load(&o->rounding, o->g->dtype, o->dy_in.data, first, &o->dy_operand);
  stg_oracle_values_clear(&o->g_values);
  multiply(&o->dy_operand, &o->u, true, &o->g_values);
  stg_oracle_values_settle(&o->g_values, adds(o, o->d_out));
  stg_oracle_values_product(&o->g_values, o->mask, NULL, &o->h);
  stg_oracle_values_round(&o->rounding, &o->h);
  stg_oracle_values_product(&o->g_values, o->t.ref, o->t.error, &o->gt);
}

static void compute_dx(struct oracle *o, double d) {
  double more = 0;
  if (o->delta.n != 0) {
    multiply(&o->dy_operand, &o->delta, false, &o->dx);
    scale_sum(&o->dx, d);
    more = adds(o, o->d_out) + 1;
  }
  multiply(&o->h, &o->v, true, &o->dx);
  stg_oracle_values_settle(&o->dx, adds(o, o->components) + more + 1);
}

/* dd, and d*dy as an operand of dDelta. */
static void compute_delta(struct oracle *o, int64_t row, double d) {
  const int64_t first = row * o->inputs->x_stride;
  stg_oracle_values_load_plain(o->g->dtype, o->inputs->x, first, &o->x_plain);
  stg_oracle_values_clear(&o->z);
  multiply(&o->dy_operand, &o->delta, false, &o->z);
  stg_oracle_values_settle(&o->z, adds(o, o->d_out));
  for (int64_t i = 0; i < o->d_in; i++) {
    stg_oracle_values_add(&o->dd, 0, o->x_plain.ref[i], 0, o->z.ref[i], o->z.error[i]);
  }
  stg_oracle_values_settle(&o->dd, 40 + (double)o->d_in / 32);
  for (int64_t j = 0; j < o->d_out; j++) {
    o->scaled.ref[j] = d * o->dy.ref[j];
    o->scaled.error[j] = 0x1p-24 * fabs(o->scaled.ref[j]);
  }
  stg_oracle_values_round(&o->rounding, &o->scaled);
  add_outer(&o->scaled, &o->x, &o->ddelta);
}

static void add_row(struct oracle *o, int64_t row) {
  const double d = o->g->delta ? d_of(o, row) : 0;
  compute_s(o, row);
  compute_h(o, row);
  compute_dx(o, d);
  if (o->g->delta) {
    compute_delta(o, row, d);
  }
  add_outer(&o->x, &o->h, &o->dv);
  add_outer(&o->s, &o->dy_operand, &o->du);
  for (int64_t j = 0; j < o->dbias.n; j++) {
    stg_oracle_values_add(&o->dbias, j, o->dy.ref[j], 0, 1, 0);
  }
  for (int64_t c = 0; c < o->dm.n; c++) {
    stg_oracle_values_add(&o->dm, c, o->gt.ref[c], o->gt.error[c], 1, 0);
  }
  o->dm_rows++;
}

/* Give dm where `row` is the last that has its row of the mask. */
static void end_group(struct oracle *o, int64_t row) {
  const int64_t group = row / o->inputs->mask_share;
  if (row + 1 < o->inputs->rows.rows && (row + 1) / o->inputs->mask_share == group) {
    return;
  }
  if (o->dm_rows > 1) {
    stg_oracle_values_settle(&o->dm, 40 + (double)o->dm_rows / 32);
  }
  give(o, "dm", group, &o->dm);
  stg_oracle_values_clear(&o->dm);
  o->dm_rows = 0;
}

static void give_matrix(struct oracle *o, const char *tensor, struct stg_oracle_values *sum,
                        int64_t columns, double sum_adds) {
  stg_oracle_values_settle(sum, sum_adds);
  for (int64_t at = 0; at < sum->n; at += columns) {
    const struct stg_oracle_values row = {columns, sum->ref + at, sum->error + at, NULL};
    give(o, tensor, at / columns, &row);
  }
}

static void give_rows(struct oracle *o) {
  const struct stg_components_rows *rows = &o->inputs->rows;
  for (int64_t row = 0; row < rows->rows; row++) {
    stg_oracle_values_clear(&o->dx);
    stg_oracle_values_clear(&o->dd);
    if (stg_components_is_live(rows, row)) {
      add_row(o, row);
    }
    if (o->wanted->dx != NULL) {
      give(o, "dx", row, &o->dx);
    }
    if (o->wanted->dd != NULL) {
      give(o, "dd", row, &o->dd);
    }
    if (o->wanted->dm != NULL) {
      end_group(o, row);
    }
  }
}

stg_status stg_oracle_components_back(const struct stg_components_geometry *geometry,
                                      const struct stg_components_inputs *inputs,
                                      struct stg_oracle_components_dy dy,
                                      const struct stg_components_gradients *wanted,
                                      const struct stg_oracle_components_sink *sink,
                                      stg_error *reterr) {
  struct oracle o = {.g = geometry, .inputs = inputs, .dy_in = dy, .wanted = wanted, .sink = sink};
  void *block = NULL;
  const stg_status status = open_oracle(&o, true, &block, reterr);
  if (status != STG_OK) {
    return status;
  }
  give_rows(&o);
  const int64_t rows = inputs->rows.rows;
  const int64_t span = stg_components_span(geometry->components, rows);
  const double over_rows = adds(&o, rows < span ? rows : span) +
                           (double)stg_components_spans(geometry->components, rows);
  give_matrix(&o, "dv", &o.dv, o.components, over_rows);
  give_matrix(&o, "du", &o.du, o.d_out, over_rows);
  give_matrix(&o, "ddelta", &o.ddelta, o.d_in, over_rows);
  give_matrix(&o, "dbias", &o.dbias, o.d_out, 40 + (double)rows / 32);
  stg_free(block);
  return STG_OK;
}

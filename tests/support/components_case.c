/*
 * components_case.c: see components_case.h.
 */
#include "tests/support/components_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"

struct components_shape components_shape(uint32_t d_in, uint32_t components, uint32_t d_out,
                                         int64_t rows) {
  return (struct components_shape){.geometry = {.d_in = d_in,
                                                .d_out = d_out,
                                                .components = components,
                                                .dtype = STG_F32,
                                                .mask = STG_COMPONENTS_MASK_DTYPE},
                                   .rows = rows,
                                   .share = 1};
}

static int64_t mask_rows(const struct components_case *c) {
  const int64_t share = c->inputs.mask_share;
  return (c->inputs.rows.rows + share - 1) / share;
}

static void *random_bytes(struct attn_bed *bed, int64_t count) {
  uint8_t *bytes = attn_filled(bed, (size_t)count, 0);
  for (int64_t k = 0; k < count; k++) {
    bytes[k] = (uint8_t)(attn_below(bed, 2) * (1 + attn_below(bed, 255)));
  }
  return bytes;
}

void components_renew(struct components_case *c) {
  const struct stg_components_geometry *g = &c->geometry;
  const stg_dtype dtype = g->dtype;
  const int64_t rows = c->inputs.rows.rows;
  const int64_t d_in = g->d_in;
  const int64_t d_out = g->d_out;
  const int64_t components = g->components;
  c->y = attn_nans(c->bed, dtype, rows * c->y_stride);
  c->out = (struct stg_components_gradients){
      .dx = attn_nans(c->bed, dtype, rows * (d_in + COMPONENTS_GAP)),
      .dx_stride = d_in + COMPONENTS_GAP,
      .dv = attn_nans(c->bed, dtype, d_in * components),
      .du = attn_nans(c->bed, dtype, components * d_out),
  };
  if (g->mask == STG_COMPONENTS_MASK_DTYPE) {
    c->out.dm_stride = components + COMPONENTS_GAP;
    c->out.dm = attn_nans(c->bed, dtype, mask_rows(c) * c->out.dm_stride);
  }
  if (g->bias) {
    c->out.dbias = attn_nans(c->bed, dtype, d_out);
  }
  if (g->delta) {
    c->out.dd = attn_nans(c->bed, dtype, rows);
    c->out.ddelta = attn_nans(c->bed, dtype, d_out * d_in);
  }
}

void components_open(struct attn_bed *bed, const struct components_shape *shape,
                     struct components_case *ret) {
  const struct stg_components_geometry *g = &shape->geometry;
  const int64_t d_in = g->d_in;
  const int64_t d_out = g->d_out;
  const int64_t components = g->components;
  *ret = (struct components_case){.bed = bed, .geometry = *g};
  struct stg_components_inputs *inputs = &ret->inputs;
  inputs->rows.rows = shape->rows;
  inputs->x_stride = d_in + COMPONENTS_GAP;
  inputs->x = attn_random(bed, g->dtype, shape->rows * inputs->x_stride);
  inputs->v = attn_random(bed, g->dtype, d_in * components);
  inputs->u = attn_random(bed, g->dtype, components * d_out);
  inputs->mask_share = shape->share == 0 ? shape->rows : shape->share;
  inputs->mask_stride = components + COMPONENTS_GAP;
  const int64_t mask_elems = mask_rows(ret) * inputs->mask_stride;
  if (g->mask == STG_COMPONENTS_MASK_DTYPE) {
    inputs->mask = attn_random(bed, g->dtype, mask_elems);
  } else if (g->mask == STG_COMPONENTS_MASK_BOOL) {
    inputs->mask = random_bytes(bed, mask_elems);
  }
  inputs->bias = g->bias ? attn_random(bed, g->dtype, d_out) : NULL;
  inputs->d = g->delta ? attn_random(bed, g->dtype, shape->rows) : NULL;
  inputs->delta = g->delta ? attn_random(bed, g->dtype, d_out * d_in) : NULL;
  ret->y_stride = ret->dy_stride = d_out + COMPONENTS_GAP;
  ret->dy = attn_random(bed, g->dtype, shape->rows * ret->dy_stride);
  components_renew(ret);
}

void components_run(const struct components_case *c) {
  const struct stg_cpu_components_batch batch = {
      .geometry = &c->geometry, .inputs = c->inputs, .y = c->y, .y_stride = c->y_stride};
  assert_int_equal(STG_OK, stg_cpu_components(&batch, NULL));
  const struct stg_cpu_components_gradient gradient = {.geometry = &c->geometry,
                                                       .inputs = c->inputs,
                                                       .dy = c->dy,
                                                       .dy_stride = c->dy_stride,
                                                       .out = c->out};
  assert_int_equal(STG_OK, stg_cpu_components_back(&gradient, NULL));
}

struct stg_oracle_components_report components_check(const struct components_case *c) {
  struct stg_oracle_components_report report;
  assert_int_equal(STG_OK, stg_oracle_components_check(&c->geometry, &c->inputs, c->y, c->y_stride,
                                                       &report, NULL));
  return report;
}

struct stg_oracle_components_report components_check_back(const struct components_case *c) {
  const struct stg_oracle_components_dy dy = {c->dy, c->dy_stride};
  struct stg_oracle_components_report report;
  assert_int_equal(STG_OK, stg_oracle_components_check_back(&c->geometry, &c->inputs, dy, &c->out,
                                                            &report, NULL));
  return report;
}

static void expect_ok(const struct stg_oracle_components_report *report) {
  if (!report->ok) {
    fail_msg("%s[%lld][%lld] is the first of %llu violations; the worst is %g of its bound",
             report->first_in, (long long)report->first_row, (long long)report->first_element,
             (unsigned long long)report->violations, report->worst_ratio);
  }
}

void components_run_well(const struct components_case *c) {
  components_run(c);
  struct stg_oracle_components_report report = components_check(c);
  expect_ok(&report);
  report = components_check_back(c);
  expect_ok(&report);
}

struct components_result components_result(const struct components_case *c, size_t k) {
  const struct stg_components_geometry *g = &c->geometry;
  const int64_t rows = c->inputs.rows.rows;
  const int64_t d_in = g->d_in;
  const int64_t d_out = g->d_out;
  const int64_t components = g->components;
  const struct components_result results[COMPONENTS_RESULTS] = {
      {"y", c->y, rows, d_out, c->y_stride},
      {"dx", c->out.dx, rows, d_in, c->out.dx_stride},
      {"dv", c->out.dv, d_in, components, components},
      {"du", c->out.du, components, d_out, d_out},
      {"dm", c->out.dm, mask_rows(c), components, c->out.dm_stride},
      {"dbias", c->out.dbias, 1, d_out, d_out},
      {"dd", c->out.dd, rows, 1, 1},
      {"ddelta", c->out.ddelta, d_out, d_in, d_in},
  };
  assert_true(k < COMPONENTS_RESULTS);
  return results[k];
}

static const unsigned char *row_of(const struct components_case *c,
                                   const struct components_result *result, int64_t row) {
  const int64_t unit = (int64_t)stg_dtype_bytes(c->geometry.dtype);
  return (const unsigned char *)result->data + row * result->stride * unit;
}

void components_expect_same(const struct components_case *a, const struct components_case *b,
                            size_t k, int64_t rows) {
  const struct components_result in_a = components_result(a, k);
  const struct components_result in_b = components_result(b, k);
  assert_true(in_a.data != NULL && in_b.data != NULL && in_a.columns == in_b.columns);
  const size_t bytes = (size_t)in_a.columns * stg_dtype_bytes(a->geometry.dtype);
  for (int64_t row = 0; row < rows; row++) {
    if (memcmp(row_of(a, &in_a, row), row_of(b, &in_b, row), bytes) != 0) {
      fail_msg("row %lld of %s differs", (long long)row, in_a.name);
    }
  }
}

void components_expect_gaps(const struct components_case *c) {
  for (size_t k = 0; k < COMPONENTS_RESULTS; k++) {
    const struct components_result result = components_result(c, k);
    for (int64_t row = 0; result.data != NULL && row < result.rows; row++) {
      for (int64_t j = result.columns; j < result.stride; j++) {
        const size_t at = (size_t)(row * result.stride + j);
        assert_true(isnan(stg_load_f32(c->geometry.dtype, result.data, at)));
      }
    }
  }
}

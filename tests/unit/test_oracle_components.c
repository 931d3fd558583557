/*
 * test_oracle_components.c: the reference of components: its gradients against differences of its
 * y, and that it refuses what is wrong: a result of the CPU backend passes, and does not once one
 * thing about its call was changed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/components_case.h"

static const struct {
  stg_dtype dtype;
  bool tf32;
} kinds[] = {{STG_F32, false}, {STG_F32, true}, {STG_BF16, false}, {STG_F16, false}};
#define KINDS (sizeof kinds / sizeof kinds[0])

static void open_kind(struct attn_bed *bed, size_t kind, struct components_shape shape,
                      struct components_case *ret) {
  shape.geometry.dtype = kinds[kind].dtype;
  shape.geometry.tf32 = kinds[kind].tf32;
  attn_open(bed, 17 + kind);
  components_open(bed, &shape, ret);
}

/* The reference of one result, its rows one behind the other. */
struct taken {
  const char *name;
  double values[256];
  double bounds[256];
};

static void take(void *user, const char *tensor, int64_t row, int64_t n, const double *ref,
                 const double *bound) {
  struct taken *taken = user;
  if (strcmp(taken->name, tensor) == 0) {
    assert_true((row + 1) * n <= 256);
    memcpy(taken->values + row * n, ref, (size_t)n * sizeof *ref);
    memcpy(taken->bounds + row * n, bound, (size_t)n * sizeof *bound);
  }
}

/* Sum of dy * y, whose gradients are those that a dy gives. */
static double loss_of(const struct components_case *c) {
  struct taken y = {.name = "y"};
  const struct stg_oracle_components_sink sink = {take, &y};
  assert_int_equal(STG_OK, stg_oracle_components(&c->geometry, &c->inputs, &sink, NULL));
  double loss = 0;
  for (int64_t row = 0; row < c->inputs.rows.rows; row++) {
    for (int64_t o = 0; o < (int64_t)c->geometry.d_out; o++) {
      const float dy = ((const float *)c->dy)[row * c->dy_stride + o];
      loss += (double)dy * y.values[row * (int64_t)c->geometry.d_out + o];
    }
  }
  return loss;
}

/* y is linear in each element of an input, so a difference is the derivative whatever the step. */
static void expect_derivatives(struct components_case *c, const char *name, const void **input,
                               int64_t rows, int64_t columns, int64_t stride) {
  struct taken gradient = {.name = name};
  const struct stg_oracle_components_sink sink = {take, &gradient};
  const struct stg_oracle_components_dy dy = {c->dy, c->dy_stride};
  assert_int_equal(STG_OK,
                   stg_oracle_components_back(&c->geometry, &c->inputs, dy, &c->out, &sink, NULL));
  const void *const before = *input;
  for (int64_t at = 0; at < rows * columns; at++) {
    float *moved = attn_copy(c->bed, STG_F32, before, rows * stride);
    float *element = &moved[at / columns * stride + at % columns];
    const double was = (double)*element;
    const double loss = loss_of(c);
    *element += 0.75F;
    *input = moved;
    const double slope = (loss_of(c) - loss) / ((double)*element - was);
    *input = before;
    assert_true(fabs(slope - gradient.values[at]) <= 1e-9 * (1 + fabs(slope)));
  }
}

static void gradients_are_the_differences_of_y(void **state) {
  static const int64_t shares[] = {1, 2, 0};
  static const int32_t valid[] = {4};
  for (size_t k = 0; k < 3; k++) {
    struct components_shape shape = components_shape(4, 7, 3, 5);
    struct attn_bed bed;
    struct components_case c;
    shape.share = shares[k];
    shape.geometry.bias = shape.geometry.delta = true;
    open_kind(&bed, 0, shape, &c);
    c.inputs.rows = (struct stg_components_rows){5, 5, k == 1 ? valid : NULL};
    struct stg_components_inputs *in = &c.inputs;
    const int64_t mask_rows = components_result(&c, 4).rows;
    expect_derivatives(&c, "dx", &in->x, 5, 4, in->x_stride);
    expect_derivatives(&c, "dv", &in->v, 4, 7, 7);
    expect_derivatives(&c, "du", &in->u, 7, 3, 3);
    expect_derivatives(&c, "dm", &in->mask, mask_rows, 7, in->mask_stride);
    expect_derivatives(&c, "dbias", &in->bias, 1, 3, 3);
    expect_derivatives(&c, "dd", &in->d, 5, 1, 1);
    expect_derivatives(&c, "ddelta", &in->delta, 3, 4, 4);
    attn_close(&bed);
  }
  (void)state;
}

static struct components_shape usual(void) {
  struct components_shape shape = components_shape(64, 96, 40, 24);
  shape.geometry.bias = shape.geometry.delta = true;
  shape.share = 8;
  return shape;
}

static void what_the_cpu_leaves_passes_and_is_counted(void **state) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case c;
    open_kind(&bed, kind, usual(), &c);
    components_run(&c);
    const struct stg_oracle_components_report y = components_check(&c);
    const struct stg_oracle_components_report back = components_check_back(&c);
    assert_true(y.ok && back.ok);
    assert_int_equal(24 * 40, y.elements);
    assert_int_equal(24 * 64 + 64 * 96 + 96 * 40 + 3 * 96 + 40 + 24 + 40 * 64, back.elements);
    assert_true(y.worst_ratio > 0 && y.worst_ratio <= 1 && back.worst_ratio > 0);
    assert_true(y.mae > 0 && y.mae <= y.max_abs_err);
    assert_true(y.first_in == NULL && y.first_row == -1 && y.first_element == -1);
    attn_close(&bed);
  }
  (void)state;
}

/* What one thing that is wrong makes of the results: a bit for each that must fail. */
#define Y 1U
#define DX 2U
#define DV 4U
#define DU 8U
#define DM 16U
#define DBIAS 32U
#define DD 64U
#define DDELTA 128U

/* Run `wrong` into the results of `right`, and hold each of them against what `right` says. */
static void expect_failures(const struct components_case *right, struct components_case *wrong,
                            unsigned expected) {
  wrong->y = right->y;
  wrong->out = right->out;
  components_run(wrong);
  assert_int_equal((expected & Y) == 0, components_check(right).ok);
  for (size_t k = 1; k < COMPONENTS_RESULTS; k++) {
    struct components_case one = *right;
    void **const places[] = {&one.out.dx,    &one.out.dv, &one.out.du,    &one.out.dm,
                             &one.out.dbias, &one.out.dd, &one.out.ddelta};
    for (size_t other = 0; other < COMPONENTS_RESULTS - 1; other++) {
      *places[other] = other == k - 1 ? *places[other] : NULL;
    }
    const struct stg_oracle_components_report report = components_check_back(&one);
    if (report.ok != ((expected >> k & 1) == 0)) {
      fail_msg("%s %s", components_result(right, k).name, report.ok ? "passes" : "fails");
    }
    if (!report.ok) {
      assert_true(report.worst_ratio > 1 && report.violations != 0);
      assert_string_equal(components_result(right, k).name, report.first_in);
    }
  }
}

/* A copy of a tensor; of each `row` elements those at `from` and behind are `factor` times as
 * large. */
static void *scaled(const struct components_case *c, const void *tensor, int64_t elems, int64_t row,
                    int64_t from, float factor) {
  void *copy = attn_copy(c->bed, c->geometry.dtype, tensor, elems);
  for (int64_t j = 0; j < elems; j++) {
    if (j % row >= from) {
      const float value = stg_load_f32(c->geometry.dtype, copy, (size_t)j);
      stg_store_f32(c->geometry.dtype, copy, (size_t)j, value * factor);
    }
  }
  return copy;
}

/* What is added to a sum that is a hundred times as large is off by more. */
static void a_scale_that_is_off_by_a_tenth_fails(void **state) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case c;
    open_kind(&bed, kind, usual(), &c);
    struct components_case wrong = c;
    const int64_t mask_elems = 3 * c.inputs.mask_stride;
    wrong.inputs.mask = scaled(&c, c.inputs.mask, mask_elems, 1, 0, 1.1F);
    expect_failures(&c, &wrong, Y | DX | DV | DU);
    wrong = c;
    wrong.inputs.delta = scaled(&c, c.inputs.delta, (int64_t)40 * 64, 1, 0, -1);
    expect_failures(&c, &wrong, Y | DX | DD);
    wrong = c;
    wrong.dy = scaled(&c, c.dy, 24 * c.dy_stride, 1, 0, 1.1F);
    expect_failures(&c, &wrong, DX | DV | DU | DM | DBIAS | DD | DDELTA);
    wrong = c;
    wrong.inputs.bias = scaled(&c, c.inputs.bias, 40, 1, 0, 16);
    expect_failures(&c, &wrong, Y);
    attn_close(&bed);
  }
  (void)state;
}

/* Over d_in, over components and over d_out. */
static void half_a_dot_fails(void **state) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case c;
    open_kind(&bed, kind, usual(), &c);
    struct components_case wrong = c;
    wrong.inputs.v =
        scaled(&c, c.inputs.v, (int64_t)64 * 96, (int64_t)64 * 96, (int64_t)32 * 96, 0);
    expect_failures(&c, &wrong, Y | DX | DU | DM);
    wrong = c;
    wrong.inputs.mask =
        scaled(&c, c.inputs.mask, 3 * c.inputs.mask_stride, c.inputs.mask_stride, 48, 0);
    expect_failures(&c, &wrong, Y | DX | DV | DU);
    wrong = c;
    wrong.inputs.u = scaled(&c, c.inputs.u, (int64_t)96 * 40, 40, 20, 0);
    expect_failures(&c, &wrong, Y | DX | DV | DM);
    attn_close(&bed);
  }
  (void)state;
}

static void a_neighbours_row_fails(void **state) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case c;
    open_kind(&bed, kind, usual(), &c);
    struct components_case wrong = c;
    wrong.inputs.mask_share = 7; /* row 7 has the mask of the rows behind it */
    wrong.inputs.mask = attn_copy(&bed, c.geometry.dtype, c.inputs.mask, 3 * c.inputs.mask_stride);
    wrong.inputs.rows.rows = c.inputs.rows.rows = 21;
    expect_failures(&c, &wrong, Y | DX | DV | DU | DM);
    wrong = c;
    const int64_t unit = (int64_t)stg_dtype_bytes(c.geometry.dtype);
    wrong.inputs.d = (const unsigned char *)c.inputs.d + unit;
    expect_failures(&c, &wrong, Y | DX | DDELTA);
    wrong = c;
    wrong.inputs.x = (const unsigned char *)c.inputs.x + c.inputs.x_stride * unit;
    expect_failures(&c, &wrong, Y | DV | DU | DM | DD | DDELTA);
    attn_close(&bed);
  }
  (void)state;
}

/* One live row too few, of 24. */
static void a_row_that_is_left_out_fails(void **state) {
  static const int32_t live[] = {23};
  static const int32_t fewer[] = {22};
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case c;
    open_kind(&bed, kind, usual(), &c);
    c.inputs.rows = (struct stg_components_rows){24, 24, live};
    struct components_case wrong = c;
    wrong.inputs.rows.valid = fewer;
    expect_failures(&c, &wrong, Y | DX | DV | DU | DM | DBIAS | DD | DDELTA);
    attn_close(&bed);
  }
  (void)state;
}

/* What exact float32 promises and TF32 does not; no operand of dbias is rounded. */
static void tf32_where_exact_was_asked_for_fails(void **state) {
  struct attn_bed bed;
  struct components_case c;
  open_kind(&bed, 0, usual(), &c);
  struct components_case wrong = c;
  wrong.geometry.tf32 = true;
  expect_failures(&c, &wrong, Y | DX | DV | DU | DM | DD | DDELTA);
  attn_close(&bed);
  (void)state;
}

/* An element a little beyond its bound, one that is NaN, and one of padding. */
static void one_element_beyond_its_bound_is_found(void **state) {
  static const int32_t valid[] = {20};
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case c;
    struct taken row = {.name = "dbias"};
    const struct stg_oracle_components_sink sink = {take, &row};
    open_kind(&bed, kind, usual(), &c);
    c.inputs.rows = (struct stg_components_rows){24, 24, valid};
    const stg_dtype dtype = c.geometry.dtype;
    const struct stg_oracle_components_dy dy = {c.dy, c.dy_stride};
    components_run(&c);
    assert_int_equal(STG_OK,
                     stg_oracle_components_back(&c.geometry, &c.inputs, dy, &c.out, &sink, NULL));
    const double far = row.values[17] + 2.1 * row.bounds[17];
    stg_store_f32(dtype, c.out.dbias, 17, (float)far);
    struct stg_oracle_components_report report = components_check_back(&c);
    assert_true(!report.ok && report.violations == 1);
    assert_string_equal("dbias", report.first_in);
    assert_true(report.first_row == 0 && report.first_element == 17);
    stg_store_f32(dtype, c.y, (size_t)(3 * c.y_stride + 9), NAN);
    report = components_check(&c);
    assert_true(report.violations == 1 && isinf(report.worst_ratio));
    assert_true(report.first_row == 3 && report.first_element == 9);
    components_run(&c);
    stg_store_f32(dtype, c.y, (size_t)(22 * c.y_stride + 1), (float)(2 * stg_dtype_tiny(dtype)));
    report = components_check(&c);
    assert_true(report.violations == 1 && report.first_row == 22 && report.first_element == 1);
    attn_close(&bed);
  }
  (void)state;
}

/* Of gradients one by one: what is wrong in one is said of no other, and in sum they are the same.
 */
static void each_gradient_has_a_report_of_its_own(void **state) {
  struct attn_bed bed;
  struct components_case c;
  struct stg_oracle_components_report each[STG_ORACLE_COMPONENTS_GRADIENTS];
  open_kind(&bed, 0, usual(), &c);
  const struct stg_oracle_components_dy dy = {c.dy, c.dy_stride};
  components_run(&c);
  stg_store_f32(c.geometry.dtype, c.out.du, 5 * 40 + 3, NAN);
  const struct stg_oracle_components_report all = components_check_back(&c);
  assert_int_equal(
      STG_OK, stg_oracle_components_check_each(&c.geometry, &c.inputs, dy, &c.out, each, NULL));
  uint64_t elements = 0;
  for (size_t i = 0; i < STG_ORACLE_COMPONENTS_GRADIENTS; i++) {
    const bool is_wrong = strcmp(stg_oracle_components_gradient(i), "du") == 0;
    assert_true(each[i].ok == !is_wrong && each[i].violations == (is_wrong ? 1 : 0));
    assert_true(each[i].elements > 0 && (each[i].first_in == NULL) == !is_wrong);
    assert_true(each[i].first_row == (is_wrong ? 5 : -1));
    assert_true(each[i].first_element == (is_wrong ? 3 : -1));
    elements += each[i].elements;
  }
  assert_true(elements == all.elements && all.violations == 1);
  c.out.du = NULL;
  assert_int_equal(
      STG_OK, stg_oracle_components_check_each(&c.geometry, &c.inputs, dy, &c.out, each, NULL));
  assert_true(each[2].elements == 0 && each[2].ok && each[2].first_in == NULL);
  attn_close(&bed);
  (void)state;
}

/* s of 2^16 is Inf in f16: whatever the sum over U makes of it is right; of one of 2^15 not. */
static void an_operand_beyond_the_types_range_has_no_bound(void **state) {
  struct components_shape shape = components_shape(1, 1, 1, 1);
  for (int large = 0; large <= 1; large++) {
    struct attn_bed bed;
    struct components_case c;
    open_kind(&bed, 3, shape, &c);
    uint16_t *values = attn_filled(&bed, 4 * sizeof *values, 0);
    stg_store_f32(STG_F16, values, 0, 256);
    stg_store_f32(STG_F16, values, 1, large ? 256 : 128);
    stg_store_f32(STG_F16, values, 2, 1);
    stg_store_f32(STG_F16, values, 3, 0.5F);
    c.inputs.x = &values[0];
    c.inputs.v = &values[1];
    c.inputs.mask = &values[2];
    c.inputs.u = &values[3];
    components_run(&c);
    struct stg_oracle_components_report report = components_check(&c);
    assert_true(report.ok && report.unbounded == (large ? 1 : 0));
    stg_store_f32(STG_F16, c.y, 0, NAN);
    report = components_check(&c);
    assert_int_equal(large, report.ok);
    attn_close(&bed);
  }
  (void)state;
}

static void not_a_number_goes_where_it_belongs(void **state) {
  for (size_t kind = 0; kind < KINDS; kind++) {
    struct attn_bed bed;
    struct components_case c;
    open_kind(&bed, kind, usual(), &c);
    void *x = attn_copy(&bed, c.geometry.dtype, c.inputs.x, 24 * c.inputs.x_stride);
    stg_store_f32(c.geometry.dtype, x, (size_t)(2 * c.inputs.x_stride + 5), NAN);
    c.inputs.x = x;
    components_run_well(&c);
    assert_true(isnan(stg_load_f32(c.geometry.dtype, c.y, (size_t)(2 * c.y_stride))));
    assert_false(isnan(stg_load_f32(c.geometry.dtype, c.y, (size_t)(3 * c.y_stride))));
    assert_true(isnan(stg_load_f32(c.geometry.dtype, c.out.dv, (size_t)5 * 96)));
    assert_false(isnan(stg_load_f32(c.geometry.dtype, c.out.dv, (size_t)6 * 96)));
    stg_store_f32(c.geometry.dtype, c.y, (size_t)(2 * c.y_stride), 1);
    assert_int_equal(1, components_check(&c).violations);
    attn_close(&bed);
  }
  (void)state;
}

static void memory_for_the_values_may_be_missing(void **state) {
  struct components_shape shape = components_shape(3, 4, 5, 2);
  struct attn_bed bed;
  struct components_case c;
  open_kind(&bed, 0, shape, &c);
  const struct stg_oracle_components_dy dy = {c.dy, c.dy_stride};
  for (int huge = 0; huge <= 1; huge++) {
    struct stg_oracle_components_report report = {.elements = 99};
    stg_error error = STG_ERROR_INIT;
    c.geometry.d_in = c.geometry.d_out = c.geometry.components = huge ? UINT32_MAX : 3;
    stg_alloc_fail_at(huge ? 0 : 1);
    assert_int_equal(STG_E_NO_MEMORY, stg_oracle_components_check(&c.geometry, &c.inputs, c.y,
                                                                  c.y_stride, &report, &error));
    assert_non_null(strstr(error.message, "component values of the oracle"));
    error = (stg_error)STG_ERROR_INIT;
    assert_int_equal(STG_E_NO_MEMORY, stg_oracle_components_check_back(&c.geometry, &c.inputs, dy,
                                                                       &c.out, &report, &error));
    stg_alloc_fail_at(0);
    assert_non_null(strstr(error.message, "component values of the oracle"));
    assert_int_equal(99, report.elements);
  }
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_the_differences_of_y),
      cmocka_unit_test(what_the_cpu_leaves_passes_and_is_counted),
      cmocka_unit_test(a_scale_that_is_off_by_a_tenth_fails),
      cmocka_unit_test(half_a_dot_fails),
      cmocka_unit_test(a_neighbours_row_fails),
      cmocka_unit_test(a_row_that_is_left_out_fails),
      cmocka_unit_test(tf32_where_exact_was_asked_for_fails),
      cmocka_unit_test(one_element_beyond_its_bound_is_found),
      cmocka_unit_test(each_gradient_has_a_report_of_its_own),
      cmocka_unit_test(an_operand_beyond_the_types_range_has_no_bound),
      cmocka_unit_test(not_a_number_goes_where_it_belongs),
      cmocka_unit_test(memory_for_the_values_may_be_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

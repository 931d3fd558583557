/*
 * test_components_bounds.c: that the oracle's bounds of components have room for what a kernel with
 * matrix units will do, before there is one: sums whose terms are aligned and cut as they are
 * there, and float32 in upper and lower parts. All terms of one sign are the worst case of cutting.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/dtype.h"
#include "tests/support/components_case.h"
#include "tests/support/quick.h"

/* A GPU's sums of one kind of operands. */
struct unit {
  stg_dtype dtype;
  bool tf32;
  size_t at_once; /* products that are added together */
};
static const struct unit units[] = {
    {STG_F32, false, 4}, {STG_F32, true, 4}, {STG_BF16, false, 8}, {STG_F16, false, 8}};
#define UNITS (sizeof units / sizeof units[0])
#define MOST_AT_ONCE 8

static double cut(double value, double quantum) {
  return trunc(value / quantum) * quantum;
}

/* The sum of a float32 and of products: each cut at 2^-24 of the largest, the sum to 24 bits. */
static float add_cut(float sum, const double *products, size_t count) {
  double largest = fabs((double)sum);
  int exponent;
  for (size_t k = 0; k < count; k++) {
    largest = fmax(largest, fabs(products[k]));
  }
  if (largest == 0) {
    return sum;
  }
  frexp(largest, &exponent);
  const double quantum = ldexp(1, exponent - 25);
  double total = cut((double)sum, quantum);
  for (size_t k = 0; k < count; k++) {
    total += cut(products[k], quantum);
  }
  frexp(total, &exponent);
  return (float)cut(total, ldexp(1, exponent - 24));
}

static float to_tf32(float value) {
  return stg_f32_from_bits((stg_f32_bits(value) + 0x1000U) & ~0x1fffU);
}

static float to_operand(const struct unit *unit, float value) {
  uint32_t bits;
  if (unit->dtype == STG_F32) {
    return unit->tf32 ? to_tf32(value) : value;
  }
  stg_store_f32(unit->dtype, &bits, 0, value);
  return stg_load_f32(unit->dtype, &bits, 0);
}

/* A row of a matrix or a column of it. */
struct line {
  const float *at;
  size_t step;
};

enum halves { UPPER_UPPER, UPPER_LOWER, LOWER_UPPER };

static double product(struct line a, struct line b, size_t i, enum halves halves) {
  const float in_a = a.at[i * a.step];
  const float in_b = b.at[i * b.step];
  const float upper_a = to_tf32(in_a);
  const float upper_b = to_tf32(in_b);
  const float of_a = halves == LOWER_UPPER ? to_tf32(in_a - upper_a) : upper_a;
  const float of_b = halves == UPPER_LOWER ? to_tf32(in_b - upper_b) : upper_b;
  return (double)of_a * (double)of_b;
}

/* A part of an exact sum: three products of each pair. */
static float exact_part(struct line a, struct line b, size_t begin, size_t end) {
  static const enum halves order[] = {UPPER_LOWER, LOWER_UPPER, UPPER_UPPER};
  float part = 0;
  for (size_t start = begin; start < end; start += 4) {
    for (size_t k = 0; k < 3; k++) {
      double products[4] = {0};
      for (size_t i = start; i < end && i < start + 4; i++) {
        products[i - start] = product(a, b, i, order[k]);
      }
      part = add_cut(part, products, 4);
    }
  }
  return part;
}

/* `sum` + a . b */
static float add_dot(const struct unit *unit, float sum, struct line a, struct line b, size_t n) {
  if (unit->dtype == STG_F32 && !unit->tf32) {
    for (size_t start = 0; start < n; start += STG_COMPONENTS_PART) {
      const size_t end = n - start < STG_COMPONENTS_PART ? n : start + STG_COMPONENTS_PART;
      sum += exact_part(a, b, start, end);
    }
    return sum;
  }
  for (size_t start = 0; start < n; start += unit->at_once) {
    double products[MOST_AT_ONCE] = {0};
    for (size_t i = start; i < n && i < start + unit->at_once; i++) {
      products[i - start] = (double)a.at[i * a.step] * (double)b.at[i * b.step];
    }
    sum = add_cut(sum, products, unit->at_once);
  }
  return sum;
}

#define ROWS ((size_t)300)
#define D_IN ((size_t)6)
#define C ((size_t)1100) /* spans of 64 rows */
#define D_OUT ((size_t)4)

struct kernel {
  const struct unit *unit;
  float x[ROWS * D_IN], v[D_IN * C], u[C * D_OUT], mask[ROWS * C], d[ROWS], delta[D_OUT * D_IN];
  float dy[ROWS * D_OUT];
  float s[C], h[ROWS * C];
};

/* A tensor as operands, or as it is. */
static void load(const struct unit *unit, bool round, const void *tensor, size_t rows,
                 size_t columns, int64_t stride, float *ret) {
  for (size_t at = 0; at < rows * columns; at++) {
    const size_t from = at / columns * (size_t)stride + at % columns;
    const float value = stg_load_f32(unit->dtype, tensor, from);
    ret[at] = round ? to_operand(unit, value) : value;
  }
}

static void load_all(struct kernel *kernel, const struct components_case *c) {
  const struct stg_components_inputs *in = &c->inputs;
  const struct unit *unit = kernel->unit;
  load(unit, true, in->x, ROWS, D_IN, in->x_stride, kernel->x);
  load(unit, true, in->v, D_IN, C, (int64_t)C, kernel->v);
  load(unit, true, in->u, C, D_OUT, (int64_t)D_OUT, kernel->u);
  load(unit, true, in->delta, D_OUT, D_IN, (int64_t)D_IN, kernel->delta);
  load(unit, true, c->dy, ROWS, D_OUT, c->dy_stride, kernel->dy);
  load(unit, false, in->mask, ROWS, C, in->mask_stride, kernel->mask);
  load(unit, false, in->d, ROWS, 1, 1, kernel->d);
}

static void compute_row(struct kernel *kernel, const struct components_case *c, size_t row) {
  const struct unit *unit = kernel->unit;
  const struct line x = {kernel->x + row * D_IN, 1};
  const struct line dy = {kernel->dy + row * D_OUT, 1};
  for (size_t k = 0; k < C; k++) {
    const float mask = kernel->mask[row * C + k];
    const float t = add_dot(unit, 0, x, (struct line){kernel->v + k, C}, D_IN);
    const float g = add_dot(unit, 0, dy, (struct line){kernel->u + k * D_OUT, 1}, D_OUT);
    kernel->s[k] = to_operand(unit, t * mask);
    kernel->h[row * C + k] = to_operand(unit, g * mask);
  }
  for (size_t o = 0; o < D_OUT; o++) {
    const struct line delta = {kernel->delta + o * D_IN, 1};
    const float begin = kernel->d[row] * add_dot(unit, 0, x, delta, D_IN);
    const float y =
        add_dot(unit, begin, (struct line){kernel->s, 1}, (struct line){kernel->u + o, D_OUT}, C);
    stg_store_f32(unit->dtype, c->y, row * (size_t)c->y_stride + o, y);
  }
}

static void compute_dv(const struct kernel *kernel, const struct components_case *c) {
  const size_t span = (size_t)stg_components_span(C, ROWS);
  for (size_t at = 0; at < D_IN * C; at++) {
    float sum = 0;
    for (size_t row = 0; row < ROWS; row += span) {
      const struct line x = {kernel->x + row * D_IN + at / C, D_IN};
      const struct line h = {kernel->h + row * C + at % C, C};
      sum += add_dot(kernel->unit, 0, x, h, ROWS - row < span ? ROWS - row : span);
    }
    stg_store_f32(kernel->unit->dtype, c->out.dv, at, sum);
  }
}

static void make_positive(struct attn_bed *bed, stg_dtype dtype, const void **tensor,
                          int64_t elems) {
  void *copy = attn_copy(bed, dtype, *tensor, elems);
  for (size_t j = 0; j < (size_t)elems; j++) {
    stg_store_f32(dtype, copy, j, fabsf(stg_load_f32(dtype, copy, j)));
  }
  *tensor = copy;
}

static void open_case(struct attn_bed *bed, const struct unit *unit, bool positive,
                      struct components_case *ret) {
  struct components_shape shape = components_shape(D_IN, C, D_OUT, ROWS);
  shape.geometry.dtype = unit->dtype;
  shape.geometry.tf32 = unit->tf32;
  shape.geometry.delta = true;
  attn_open(bed, 29);
  components_open(bed, &shape, ret);
  ret->out.dx = ret->out.du = ret->out.dm = ret->out.dd = ret->out.ddelta = NULL;
  if (positive) {
    struct stg_components_inputs *in = &ret->inputs;
    make_positive(bed, unit->dtype, &in->x, (int64_t)ROWS * in->x_stride);
    make_positive(bed, unit->dtype, &in->v, D_IN * C);
    make_positive(bed, unit->dtype, &in->u, C * D_OUT);
    make_positive(bed, unit->dtype, &in->mask, (int64_t)ROWS * in->mask_stride);
    make_positive(bed, unit->dtype, &in->delta, D_OUT * D_IN);
    make_positive(bed, unit->dtype, &in->d, ROWS);
    make_positive(bed, unit->dtype, &ret->dy, (int64_t)ROWS * ret->dy_stride);
  }
}

static void sums_that_are_cut_as_matrix_units_cut_them_are_within_the_bounds(void **state) {
  static struct kernel kernel;
  for (size_t k = 0; k < 2 * UNITS; k++) {
    struct attn_bed bed;
    struct components_case c;
    if (test_is_quick() && k % 2 == 0) {
      continue;
    }
    kernel.unit = &units[k / 2];
    open_case(&bed, kernel.unit, k % 2 == 1, &c);
    load_all(&kernel, &c);
    for (size_t row = 0; row < ROWS; row++) {
      compute_row(&kernel, &c, row);
    }
    compute_dv(&kernel, &c);
    const struct stg_oracle_components_report y = components_check(&c);
    const struct stg_oracle_components_report dv = components_check_back(&c);
    assert_true(y.ok && y.elements == ROWS * D_OUT);
    assert_true(dv.ok && dv.elements == D_IN * C);
    print_message("%s%s %s: y %.3f, dv %.3f of the bound\n", stg_dtype_name(kernel.unit->dtype),
                  kernel.unit->tf32 ? " as tf32" : "", k % 2 == 1 ? "positive" : "random",
                  y.worst_ratio, dv.worst_ratio);
    attn_close(&bed);
  }
  (void)state;
}

/* Exact float32 without the lower parts is TF32, and is seen. */
static void without_lower_parts_exact_float32_is_not(void **state) {
  static struct kernel kernel;
  const struct unit tf32 = {STG_F32, true, 4};
  struct attn_bed bed;
  struct components_case c;
  kernel.unit = &tf32;
  open_case(&bed, &units[0], true, &c);
  load_all(&kernel, &c);
  for (size_t row = 0; row < ROWS; row++) {
    compute_row(&kernel, &c, row);
  }
  compute_dv(&kernel, &c);
  assert_false(components_check(&c).ok);
  assert_false(components_check_back(&c).ok);
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_that_are_cut_as_matrix_units_cut_them_are_within_the_bounds),
      cmocka_unit_test(without_lower_parts_exact_float32_is_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

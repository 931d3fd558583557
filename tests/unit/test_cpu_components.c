/*
 * test_cpu_components.c: the components family on the CPU: values known beforehand, sizes, types
 * and masks against the oracle, and what refuses.
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
#include "tests/support/numpy_random.h"
#include "tests/support/quick.h"

/* x [2,3,5], V [5,7], U [7,4], m [2,3,7], W [4,5] and d [2,3] of RandomState(0), in this order. */
#define ROWS ((size_t)6)
#define D_IN ((size_t)5)
#define C ((size_t)7)
#define D_OUT ((size_t)4)
#define KNOWN_SUM 9.67026883588834

static void draw(struct numpy_random *random, bool normal, double scale, size_t count,
                 double *ret_values) {
  for (size_t k = 0; k < count; k++) {
    ret_values[k] = normal ? numpy_random_normal(random) / scale : numpy_random_uniform(random);
  }
}

/* W - (V U)^T */
static void make_delta(const double *v, const double *u, const double *w, double *ret_delta) {
  for (size_t o = 0; o < D_OUT; o++) {
    for (size_t i = 0; i < D_IN; i++) {
      double sum = 0;
      for (size_t c = 0; c < C; c++) {
        sum += v[i * C + c] * u[c * D_OUT + o];
      }
      ret_delta[o * D_IN + i] = w[o * D_IN + i] - sum;
    }
  }
}

static void *to_f32(struct attn_bed *bed, const double *values, size_t count) {
  float *tensor = attn_filled(bed, count * sizeof *tensor, 0);
  for (size_t k = 0; k < count; k++) {
    tensor[k] = (float)values[k];
  }
  return tensor;
}

/* The case of numpy's numbers, in float32. */
static void open_known(struct attn_bed *bed, struct components_case *ret) {
  struct numpy_random random;
  double x[ROWS * D_IN];
  double v[D_IN * C];
  double u[C * D_OUT];
  double m[ROWS * C];
  double w[D_OUT * D_IN];
  double d[ROWS];
  double delta[D_OUT * D_IN];
  struct components_shape shape = components_shape(D_IN, C, D_OUT, ROWS);
  shape.geometry.delta = true;
  components_open(bed, &shape, ret);
  numpy_random_init(&random, 0);
  draw(&random, true, 1, ROWS * D_IN, x);
  draw(&random, true, sqrt(D_IN), D_IN * C, v);
  draw(&random, true, sqrt(C), C * D_OUT, u);
  draw(&random, false, 1, ROWS * C, m);
  draw(&random, true, 1, D_OUT * D_IN, w);
  draw(&random, false, 1, ROWS, d);
  make_delta(v, u, w, delta);
  struct stg_components_inputs *inputs = &ret->inputs;
  inputs->x = to_f32(bed, x, ROWS * D_IN);
  inputs->x_stride = D_IN;
  inputs->v = to_f32(bed, v, D_IN * C);
  inputs->u = to_f32(bed, u, C * D_OUT);
  inputs->mask = to_f32(bed, m, ROWS * C);
  inputs->mask_stride = C;
  inputs->d = to_f32(bed, d, ROWS);
  inputs->delta = to_f32(bed, delta, D_OUT * D_IN);
}

static void add_up(void *user, const char *tensor, int64_t row, int64_t n, const double *ref,
                   const double *bound) {
  for (int64_t j = 0; j < n; j++) {
    *(double *)user += ref[j];
  }
  (void)tensor, (void)row, (void)bound;
}

static void the_sum_of_known_numbers_is_the_known_one(void **state) {
  struct attn_bed bed;
  struct components_case c;
  double sum = 0;
  double reference = 0;
  const struct stg_oracle_components_sink sink = {add_up, &reference};
  attn_open(&bed, 1);
  open_known(&bed, &c);
  components_run_well(&c);
  for (size_t row = 0; row < ROWS; row++) {
    for (size_t o = 0; o < D_OUT; o++) {
      sum += (double)stg_load_f32(STG_F32, c.y, row * (size_t)c.y_stride + o);
    }
  }
  assert_true(fabs(sum - KNOWN_SUM) < 1e-5);
  assert_int_equal(STG_OK, stg_oracle_components(&c.geometry, &c.inputs, &sink, NULL));
  assert_true(fabs(reference - KNOWN_SUM) < 1e-6); /* inputs were rounded to float32 */
  attn_close(&bed);
  (void)state;
}

static const struct {
  stg_dtype dtype;
  bool tf32;
} kinds[] = {{STG_F32, false}, {STG_F32, true}, {STG_BF16, false}, {STG_F16, false}};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* Every mask, bias and delta, at sizes that fill no lane, part or span. */
static void every_form_is_within_its_bounds(void **state) {
  static const int64_t shares[] = {1, 7, 0};
  for (size_t kind = 0; kind < KINDS; kind++) {
    for (unsigned form = 0; form < 36; form++) {
      struct components_shape shape = components_shape(19, 45, 13, 71);
      struct attn_bed bed;
      struct components_case c;
      shape.geometry.dtype = kinds[kind].dtype;
      shape.geometry.tf32 = kinds[kind].tf32;
      shape.geometry.bias = form & 1;
      shape.geometry.delta = form & 2;
      shape.geometry.mask = (enum stg_components_mask)(form / 4 % 3);
      shape.share = shares[form / 12];
      attn_open(&bed, form);
      components_open(&bed, &shape, &c);
      components_run_well(&c);
      components_expect_gaps(&c);
      attn_close(&bed);
    }
  }
  (void)state;
}

struct size {
  uint32_t d_in, components, d_out;
  int64_t rows;
};

static void sizes_of_models_and_odd_ones_are_within_their_bounds(void **state) {
  static const struct size sizes[] = {
      {1, 1, 1, 1},      {5, 1, 3, 2},        {3, 7, 341, 33},   {128, 1200, 128, 5},
      {128, 7, 64, 300}, {341, 1200, 128, 3}, {33, 2048, 31, 9}, {512, 40, 512, 4},
  };
  for (size_t kind = 0; kind < KINDS; kind++) {
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
      struct components_shape shape =
          components_shape(sizes[k].d_in, sizes[k].components, sizes[k].d_out, sizes[k].rows);
      struct attn_bed bed;
      struct components_case c;
      shape.geometry.dtype = kinds[kind].dtype;
      shape.geometry.tf32 = kinds[kind].tf32;
      if (test_is_quick() && kind != k % KINDS) {
        continue;
      }
      attn_open(&bed, k);
      components_open(&bed, &shape, &c);
      components_run_well(&c);
      attn_close(&bed);
    }
  }
  (void)state;
}

#define PRODUCT_ROWS ((size_t)9)

static const float *ones(struct attn_bed *bed, size_t count) {
  float *values = attn_filled(bed, count * sizeof *values, 0);
  for (size_t k = 0; k < count; k++) {
    values[k] = 1;
  }
  return values;
}

/* x (V U), multiplied the other way round. */
static double product_of_three(const struct components_case *c, size_t row, size_t o) {
  const float *x = (const float *)c->inputs.x + row * (size_t)c->inputs.x_stride;
  const float *v = c->inputs.v;
  const float *u = c->inputs.u;
  const size_t components = c->geometry.components;
  double y = 0;
  for (size_t i = 0; i < c->geometry.d_in; i++) {
    double vu = 0;
    for (size_t k = 0; k < components; k++) {
      vu += (double)v[i * components + k] * (double)u[k * c->geometry.d_out + o];
    }
    y += (double)x[i] * vu;
  }
  return y;
}

static void a_mask_of_ones_is_no_mask_and_a_product_of_three(void **state) {
  struct components_shape shape = components_shape(6, 50, 4, PRODUCT_ROWS);
  struct attn_bed bed;
  struct components_case c;
  attn_open(&bed, 3);
  components_open(&bed, &shape, &c);
  c.inputs.mask = ones(&bed, PRODUCT_ROWS * (size_t)c.inputs.mask_stride);
  struct components_case unmasked = c;
  unmasked.geometry.mask = STG_COMPONENTS_MASK_NONE;
  unmasked.inputs.mask = NULL;
  components_renew(&unmasked);
  components_run_well(&c);
  components_run_well(&unmasked);
  for (size_t k = 0; k < 4; k++) {
    components_expect_same(&c, &unmasked, k, components_result(&c, k).rows);
  }
  for (size_t row = 0; row < PRODUCT_ROWS; row++) {
    for (size_t o = 0; o < 4; o++) {
      const float ours = stg_load_f32(STG_F32, c.y, row * (size_t)c.y_stride + o);
      assert_true(fabs((double)ours - product_of_three(&c, row, o)) < 1e-4);
    }
  }
  attn_close(&bed);
  (void)state;
}

static stg_status run_without_memory(const struct components_case *c, bool back, stg_error *ret) {
  const struct stg_cpu_components_batch batch = {
      .geometry = &c->geometry, .inputs = c->inputs, .y = c->y, .y_stride = c->y_stride};
  const struct stg_cpu_components_gradient gradient = {.geometry = &c->geometry,
                                                       .inputs = c->inputs,
                                                       .dy = c->dy,
                                                       .dy_stride = c->dy_stride,
                                                       .out = c->out};
  stg_alloc_fail_at(1);
  const stg_status status =
      back ? stg_cpu_components_back(&gradient, ret) : stg_cpu_components(&batch, ret);
  stg_alloc_fail_at(0);
  return status;
}

static void missing_memory_and_sizes_that_no_heap_has_are_told_before_any_write(void **state) {
  struct components_shape shape = components_shape(4, 5, 6, 2);
  struct attn_bed bed;
  struct components_case c;
  attn_open(&bed, 5);
  components_open(&bed, &shape, &c);
  for (int back = 0; back <= 1; back++) {
    for (int huge = 0; huge <= 1; huge++) {
      stg_error error = STG_ERROR_INIT;
      c.geometry.components = huge ? UINT32_MAX : 5;
      c.geometry.d_in = c.geometry.d_out = huge ? UINT32_MAX : 6;
      assert_int_equal(STG_E_NO_MEMORY, run_without_memory(&c, back, &error));
      assert_non_null(strstr(error.message, "component buffers of the CPU backend"));
    }
    c.geometry = shape.geometry;
  }
  for (size_t k = 0; k < 5; k++) {
    const struct components_result result = components_result(&c, k);
    assert_true(isnan(stg_load_f32(STG_F32, result.data, 0)));
  }
  attn_close(&bed);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_sum_of_known_numbers_is_the_known_one),
      cmocka_unit_test(every_form_is_within_its_bounds),
      cmocka_unit_test(sizes_of_models_and_odd_ones_are_within_their_bounds),
      cmocka_unit_test(a_mask_of_ones_is_no_mask_and_a_product_of_three),
      cmocka_unit_test(missing_memory_and_sizes_that_no_heap_has_are_told_before_any_write),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

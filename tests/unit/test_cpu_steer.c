/*
 * test_cpu_steer.c: the cases that shipped systems got wrong, on the CPU backend: each by numbers
 * of its own, and against the oracle.
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
#include "tests/support/steer_case.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct steer_call call_of(const char *op, uint32_t vector, float parameter) {
  return (struct steer_call){.op = op, .vectors = {vector}, .params = {parameter}};
}

/* projection_cap declares min, then max. */
static struct steer_call cap_of(uint32_t vector, float min, float max) {
  return (struct steer_call){.op = "projection_cap", .vectors = {vector}, .params = {min, max}};
}

static double projection(const struct steer_case *c, const void *tensor, int64_t row,
                         uint32_t vector) {
  double sum = 0;
  for (int64_t j = 0; j < c->hidden_size; j++) {
    sum += steer_case_get(c, tensor, row, j) * c->wide[vector][j];
  }
  return sum;
}

static void assert_near(double expected, double actual, double tolerance) {
  if (!(fabs(expected - actual) <= tolerance)) {
    fail_msg("%.17g is not within %g of %.17g", actual, tolerance, expected);
  }
}

static void assert_row_bytes(const struct steer_case *c, int64_t row, bool same) {
  int order = memcmp(steer_case_row(c, c->before, row), steer_case_row(c, c->after, row),
                     steer_case_row_bytes(c));
  assert_int_equal(same, order == 0);
}

/* Values that careless copies lose: -0.0, Inf and NaN with a payload. */
static void plant_odd_values(struct steer_case *c, int64_t row) {
  steer_case_set(c, c->before, row, 0, -0.0);
  steer_case_set(c, c->before, row, 1, HUGE_VAL);
  steer_case_set(c, c->before, row, 2, -HUGE_VAL);
  steer_case_set(c, c->before, row, 3, (double)stg_f32_from_bits(0xffd50000U));
}

/* 1. */
static void unsteered_rows_are_byte_identical_wherever_they_stand(void **state) {
  (void)state;
  static const int32_t maps[][3] = {{-1, 0, 0}, {-1, -1, 0}, {0, -1, -1}, {0, -1, 0}};
  for (size_t m = 0; m < COUNT(maps); m++) {
    struct steer_rng rng = {.state = 3 + m};
    struct steer_case *c = steer_case_create(100, STG_BF16, STG_BF16);
    struct steer_call add = call_of("add", steer_case_random_vector(c, &rng, 4), 2);
    steer_case_chain(c, &add, 1);
    steer_case_rows(c, 3, 0, false);
    steer_case_fill(c, &rng, 1);
    for (int64_t r = 0; r < 3; r++) {
      c->row_chain[r] = maps[m][r];
      if (maps[m][r] < 0) {
        plant_odd_values(c, r);
      }
    }
    steer_case_expect_ok(c);
    for (int64_t r = 0; r < 3; r++) {
      assert_row_bytes(c, r, maps[m][r] < 0);
    }
    steer_case_destroy(c);
  }
}

/* 2. */
static void repeated_ops_act_repeatedly(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 4};
  struct steer_case *c = steer_case_create(4096, STG_F32, STG_F32);
  uint32_t v = steer_case_random_vector(c, &rng, 1);
  const struct steer_call twice[] = {call_of("ablation", v, 2), call_of("ablation", v, 2)};
  const struct steer_call adds[] = {call_of("add", v, 3), call_of("add", v, 3)};
  steer_case_chain(c, twice, 2);
  steer_case_chain(c, adds, 2);
  steer_case_rows(c, 2, 0, false);
  c->row_chain[0] = 0;
  c->row_chain[1] = 1;
  steer_case_fill(c, &rng, 1);
  steer_case_expect_ok(c);
  assert_near(4 * projection(c, c->before, 0, v), projection(c, c->after, 0, v), 1e-4);
  assert_near(6 + projection(c, c->before, 1, v), projection(c, c->after, 1, v), 1e-4);
  steer_case_destroy(c);
}

/* 3. */
static void order_matters_and_each_row_has_its_own(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 5};
  struct steer_case *c = steer_case_create(4096, STG_F32, STG_F32);
  uint32_t v = steer_case_random_vector(c, &rng, 1);
  const struct steer_call add_first[] = {call_of("add", v, 10), cap_of(v, -INFINITY, 2)};
  const struct steer_call cap_first[] = {cap_of(v, -INFINITY, 2), call_of("add", v, 10)};
  steer_case_chain(c, add_first, 2);
  steer_case_chain(c, cap_first, 2);
  steer_case_rows(c, 4, 0, false);
  steer_case_fill(c, &rng, 0.1);
  for (int64_t r = 0; r < 4; r++) {
    c->row_chain[r] = (int32_t)(r % 2);
  }
  steer_case_expect_ok(c);
  for (int64_t r = 0; r < 4; r++) {
    double p = projection(c, c->before, r, v);
    assert_true(p < 2);
    assert_near(r % 2 == 0 ? 2 : p + 10, projection(c, c->after, r, v), 1e-4);
  }
  steer_case_destroy(c);
}

/* 4. */
static void correlated_caps_act_one_after_the_other(void **state) {
  (void)state;
  /* v.w = 0.8; p = 5 and q = 5: after the first cap p = 1, q = 5 - 4*0.8 = 1.8, after the second
   * q = 1, p = 1 - 0.8*0.8 = 0.36; corrections taken together would end at q = 1 - 3.2 */
  static const double v[4] = {1, 0, 0, 0};
  static const double w[4] = {0.8, 0.6, 0, 0};
  struct steer_case *c = steer_case_create(4, STG_F32, STG_F32);
  const struct steer_call caps[] = {cap_of(steer_case_vector(c, v), -INFINITY, 1),
                                    cap_of(steer_case_vector(c, w), -INFINITY, 1)};
  steer_case_chain(c, caps, 2);
  steer_case_rows(c, 1, 0, false);
  c->row_chain[0] = 0;
  steer_case_set(c, c->before, 0, 0, 5);
  steer_case_set(c, c->before, 0, 1, 5.0 / 3);
  steer_case_expect_ok(c);
  assert_near(1, projection(c, c->after, 0, 1), 1e-6);
  assert_near(0.36, projection(c, c->after, 0, 0), 1e-6);
  steer_case_destroy(c);
}

/* 5. */
static void padding_is_neither_read_nor_written(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 6};
  struct steer_case *c = steer_case_create(100, STG_F16, STG_F16);
  struct steer_call add = call_of("add", steer_case_random_vector(c, &rng, 1), 1);
  steer_case_chain(c, &add, 1);
  steer_case_rows(c, 8, 104, false);
  steer_case_fill(c, &rng, 1);
  for (int64_t r = 0; r < 8; r++) {
    c->row_chain[r] = r < 3 ? 0 : -2;
    for (int64_t j = 0; r >= 3 && j < 100; j++) {
      steer_case_set(c, c->before, r, j, nan(""));
    }
  }
  steer_case_expect_ok(c);
  /* out of place, padding of the output keeps what it held */
  struct stg_cpu_batch batch = steer_case_cpu_batch(c);
  stg_error error = STG_ERROR_INIT;
  unsigned char *out = stg_malloc(steer_case_bytes(c));
  unsigned char *untouched = stg_malloc(steer_case_bytes(c));
  memset(out, 0x5a, steer_case_bytes(c));
  memset(untouched, 0x5a, steer_case_bytes(c));
  batch.hidden = c->before;
  batch.out = out;
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
  for (int64_t r = 0; r < 8; r++) {
    const void *expected = r < 3 ? steer_case_row(c, c->after, r) : untouched;
    assert_memory_equal(expected, steer_case_row(c, out, r), steer_case_row_bytes(c));
    size_t gap = (size_t)(c->row_stride - c->hidden_size) * 2;
    assert_memory_equal(untouched, out + (size_t)(r * c->row_stride + c->hidden_size) * 2, gap);
  }
  stg_free(untouched);
  stg_free(out);
  steer_case_destroy(c);
}

/* 6. */
static void a_pair_is_steered_by_its_sum(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 8};
  struct steer_case *c = steer_case_create(4096, STG_F32, STG_F32);
  uint32_t v = steer_case_random_vector(c, &rng, 1);
  const struct steer_call ablation = call_of("ablation", v, 0);
  steer_case_chain(c, &ablation, 1);
  steer_case_rows(c, 3, 0, true);
  steer_case_fill(c, &rng, 1);
  c->row_chain[0] = 0;
  c->row_chain[1] = -1;
  c->row_chain[2] = -2;
  void *residual = stg_malloc(steer_case_bytes(c));
  memcpy(residual, c->residual, steer_case_bytes(c));
  steer_case_expect_ok(c);
  assert_near(0, projection(c, c->after, 0, v) + projection(c, c->residual, 0, v), 1e-4);
  assert_row_bytes(c, 1, true);
  assert_row_bytes(c, 2, true);
  assert_memory_equal(residual, c->residual, steer_case_bytes(c));
  stg_free(residual);
  steer_case_destroy(c);
}

static void an_infinite_residual_stays_out_of_hidden(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 9};
  struct steer_case *c = steer_case_create(7, STG_BF16, STG_F32);
  const struct steer_call add = call_of("add", steer_case_random_vector(c, &rng, 1), 2);
  steer_case_chain(c, &add, 1);
  steer_case_rows(c, 1, 0, true);
  steer_case_fill(c, &rng, 1);
  c->row_chain[0] = 0;
  steer_case_set(c, c->residual, 0, 3, HUGE_VAL);
  steer_case_expect_ok(c);
  assert_true(isfinite(steer_case_get(c, c->after, 0, 3)));
  steer_case_destroy(c);
}

/* 7. */
static void a_prompt_in_two_parts_is_the_prompt_in_one(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 10};
  struct steer_case *c = steer_case_create(100, STG_BF16, STG_BF16);
  uint32_t v = steer_case_random_vector(c, &rng, 1);
  const struct steer_call calls[] = {call_of("add_keep_norm", v, 2), cap_of(v, -1, 1)};
  steer_case_chain(c, calls, 2);
  steer_case_rows(c, 64, 0, false);
  steer_case_fill(c, &rng, 1);
  memset(c->row_chain, 0, 64 * sizeof *c->row_chain);
  steer_case_expect_ok(c);
  void *parts = stg_malloc(steer_case_bytes(c));
  memcpy(parts, c->before, steer_case_bytes(c));
  stg_error error = STG_ERROR_INIT;
  struct stg_cpu_batch batch = steer_case_cpu_batch(c);
  batch.hidden = batch.out = parts;
  batch.rows = 63;
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
  batch.hidden = batch.out = steer_case_row(c, parts, 63);
  batch.rows = 1;
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
  assert_memory_equal(c->after, parts, steer_case_bytes(c));
  stg_free(parts);
  steer_case_destroy(c);
}

/* 8. */
static void an_empty_batch_is_done(void **state) {
  (void)state;
  struct steer_case *c = steer_case_create(100, STG_BF16, STG_BF16);
  struct stg_cpu_batch batch = steer_case_cpu_batch(c);
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
  steer_case_destroy(c);
}

/* 10. */
static void large_float16_values_stay_finite(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 11};
  struct steer_case *c = steer_case_create(4096, STG_F16, STG_F16);
  double values[4096];
  for (size_t j = 0; j < COUNT(values); j++) {
    values[j] = j % 2 == 0 ? 1e3 : -1e3;
  }
  const struct steer_call keep = call_of("add_keep_norm", steer_case_vector(c, values), 5);
  const struct steer_call add = call_of("add", 0, 5);
  steer_case_chain(c, &keep, 1);
  steer_case_chain(c, &add, 1);
  steer_case_rows(c, 2, 0, false);
  /* norm 12000 over 4096 elements */
  steer_case_fill(c, &rng, 12000.0 / 64);
  c->row_chain[0] = 0;
  c->row_chain[1] = 1;
  steer_case_expect_ok(c);
  for (int64_t j = 0; j < 4096; j++) {
    assert_true(isfinite(steer_case_get(c, c->after, 0, j)));
    assert_true(isfinite(steer_case_get(c, c->after, 1, j)));
  }
  steer_case_destroy(c);
}

/* 12. */
static void two_adds_and_a_cap_all_act(void **state) {
  (void)state;
  static const double axes[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};
  struct steer_case *c = steer_case_create(4, STG_BF16, STG_BF16);
  struct steer_call calls[3];
  calls[0] = call_of("add", steer_case_vector(c, axes[0]), 1);
  calls[1] = call_of("add", steer_case_vector(c, axes[1]), 2);
  calls[2] = cap_of(steer_case_vector(c, axes[2]), -INFINITY, 3);
  steer_case_chain(c, calls, 3);
  steer_case_rows(c, 1, 0, false);
  c->row_chain[0] = 0;
  steer_case_set(c, c->before, 0, 2, 8);
  steer_case_expect_ok(c);
  assert_near(1, steer_case_get(c, c->after, 0, 0), 0);
  assert_near(2, steer_case_get(c, c->after, 0, 1), 0);
  assert_near(3, steer_case_get(c, c->after, 0, 2), 0);
  steer_case_destroy(c);
}

static void ops_that_do_nothing_leave_the_bytes_in_place_and_out_of_place(void **state) {
  (void)state;
  struct steer_rng rng = {.state = 12};
  struct steer_case *c = steer_case_create(100, STG_BF16, STG_BF16);
  uint32_t v = steer_case_random_vector(c, &rng, 1);
  const struct steer_call idle[] = {call_of("add", v, 0), call_of("ablation", v, 1),
                                    cap_of(v, -1e30F, 1e30F), call_of("scale_norm", 0, 1),
                                    call_of("add_norm_matched", v, 0)};
  steer_case_rows(c, (int64_t)COUNT(idle), 0, false);
  steer_case_fill(c, &rng, 1);
  for (size_t k = 0; k < COUNT(idle); k++) {
    c->row_chain[k] = steer_case_chain(c, &idle[k], 1);
    steer_case_set(c, c->before, (int64_t)k, 0, -0.0);
    steer_case_set(c, c->before, (int64_t)k, 1, -0.0);
  }
  steer_case_expect_ok(c);
  assert_memory_equal(c->before, c->after, steer_case_bytes(c));
  struct stg_cpu_batch batch = steer_case_cpu_batch(c);
  stg_error error = STG_ERROR_INIT;
  memset(c->after, 0, steer_case_bytes(c));
  batch.hidden = c->before;
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
  assert_memory_equal(c->before, c->after, steer_case_bytes(c));
  steer_case_destroy(c);
}

static void norms_that_cancel_are_taken_from_the_row(void **state) {
  (void)state;
  /* v is h but for one element in a hundred and a little: |h - v| is far below |h| */
  struct steer_rng rng = {.state = 18};
  struct steer_case *c = steer_case_create(1000, STG_F32, STG_F32);
  double values[1000];
  steer_case_rows(c, 1, 0, false);
  steer_case_fill(c, &rng, 1);
  for (int64_t j = 0; j < 1000; j++) {
    values[j] = steer_case_get(c, c->before, 0, j) + (j % 100 == 0 ? 0x1p-12 : 0);
  }
  const struct steer_call keep = call_of("add_keep_norm", steer_case_vector(c, values), -1);
  c->row_chain[0] = steer_case_chain(c, &keep, 1);
  steer_case_expect_ok(c);
  /* the bound allows 2^10 roundings of the dots; the second reduction does far better */
  struct stg_oracle_batch batch = steer_case_oracle_batch(c);
  stg_error error = STG_ERROR_INIT;
  float expected[1000];
  assert_int_equal(STG_OK, stg_oracle_apply(&batch, expected, NULL, &error));
  for (int64_t j = 0; j < 1000; j += 100) {
    assert_near((double)expected[j], steer_case_get(c, c->after, 0, j), 0.02);
  }
  steer_case_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unsteered_rows_are_byte_identical_wherever_they_stand),
      cmocka_unit_test(repeated_ops_act_repeatedly),
      cmocka_unit_test(order_matters_and_each_row_has_its_own),
      cmocka_unit_test(correlated_caps_act_one_after_the_other),
      cmocka_unit_test(padding_is_neither_read_nor_written),
      cmocka_unit_test(a_pair_is_steered_by_its_sum),
      cmocka_unit_test(an_infinite_residual_stays_out_of_hidden),
      cmocka_unit_test(a_prompt_in_two_parts_is_the_prompt_in_one),
      cmocka_unit_test(an_empty_batch_is_done),
      cmocka_unit_test(large_float16_values_stay_finite),
      cmocka_unit_test(two_adds_and_a_cap_all_act),
      cmocka_unit_test(ops_that_do_nothing_leave_the_bytes_in_place_and_out_of_place),
      cmocka_unit_test(norms_that_cancel_are_taken_from_the_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_oracle_check.c: the check must be able to fail: faults that real systems had, put into
 * otherwise right results, each of them at every dtype; and what the report counts.
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
#include "tests/support/compile_op.h"
#include "tests/support/steer_case.h"

#define HIDDEN 4096
#define ROWS 8

static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
#define N_DTYPES (sizeof dtypes / sizeof dtypes[0])

/* One chain over unit vectors v, w on all rows; rows of norm about 64. */
static struct steer_case *make_case(stg_dtype dtype, const char *op, const float *params,
                                    size_t n_params) {
  struct steer_rng rng = {.state = 7};
  struct steer_case *c = steer_case_create(HIDDEN, dtype, dtype);
  struct steer_call call = {
      .op = op,
      .vectors = {steer_case_random_vector(c, &rng, 1), steer_case_random_vector(c, &rng, 1)}};
  memcpy(call.params, params, n_params * sizeof *params);
  steer_case_chain(c, &call, 1);
  steer_case_rows(c, ROWS, 0, false);
  steer_case_fill(c, &rng, 1);
  for (int64_t r = 0; r < ROWS; r++) {
    c->row_chain[r] = 0;
  }
  return c;
}

/* The check passes what the backend makes of the chain, and fails it once `damage` is done to what
 * the backend sees. */
static void expect_caught(const char *op, const float *params, size_t n_params,
                          void (*damage)(struct steer_case *)) {
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct steer_case *c = make_case(dtypes[k], op, params, n_params);
    steer_case_expect_ok(c);
    damage(c);
    steer_case_run(c);
    struct stg_oracle_report report = steer_case_check(c);
    assert_false(report.ok);
    assert_true(report.violations > 0);
    assert_true(report.worst_ratio > 1);
    assert_true(report.first_row >= 0 && report.first_row < ROWS);
    assert_true(report.first_element >= 0 && report.first_element < HIDDEN);
    steer_case_destroy(c);
  }
}

/* Give the backend its own parameters, all of them times 1.1. */
static void stretch_params(struct steer_case *c) {
  const float **params = stg_arena_alloc(&c->arena, 1, sizeof *params);
  float *values = stg_arena_alloc(&c->arena, STG_OP_MAX_PARAMS, sizeof *values);
  for (size_t k = 0; k < STG_OP_MAX_PARAMS; k++) {
    values[k] = c->cpu[0].params[0][k] * 1.1F;
  }
  params[0] = values;
  c->cpu[0].params = params;
}

/* Vector 1 instead of vector 0. */
static void take_neighbour(struct steer_case *c) {
  const void **vectors = stg_arena_alloc(&c->arena, 2, sizeof *vectors);
  vectors[0] = c->vectors[1];
  c->cpu[0].vectors = vectors;
}

static void catches_a_bound_off_by_ten_percent(void **state) {
  (void)state;
  /* rows project to about 0 +- 1, so a limit of -2 acts on nearly all of them */
  expect_caught("projection_cap", (const float[]){-INFINITY, -2}, 2, stretch_params);
}

static void catches_a_scale_off_by_ten_percent(void **state) {
  (void)state;
  expect_caught("add", (const float[]){4}, 1, stretch_params);
  expect_caught("add_keep_norm", (const float[]){4}, 1, stretch_params);
  expect_caught("add_norm_matched", (const float[]){0.1F}, 1, stretch_params);
  expect_caught("scale_norm", (const float[]){1.5F}, 1, stretch_params);
}

static void catches_a_neighbours_vector(void **state) {
  (void)state;
  expect_caught("add", (const float[]){4}, 1, take_neighbour);
  expect_caught("ablation", (const float[]){0}, 1, take_neighbour);
  expect_caught("projection_cap", (const float[]){-0.1F, 0.1F}, 2, take_neighbour);
}

/* after = before + (limited p - p)*v with p taken over the first half of the row. */
static void cap_with_half_a_dot(struct steer_case *c, double max) {
  for (int64_t r = 0; r < c->rows; r++) {
    double p = 0;
    for (int64_t j = 0; j < HIDDEN / 2; j++) {
      p += steer_case_get(c, c->before, r, j) * c->wide[0][j];
    }
    double excess = p > max ? max - p : 0;
    for (int64_t j = 0; j < HIDDEN; j++) {
      double h = steer_case_get(c, c->before, r, j);
      steer_case_set(c, c->after, r, j, h + excess * c->wide[0][j]);
    }
  }
}

static void catches_a_dot_over_half_a_row(void **state) {
  (void)state;
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct steer_case *c =
        make_case(dtypes[k], "projection_cap", (const float[]){-INFINITY, 0.25F}, 2);
    steer_case_expect_ok(c);
    cap_with_half_a_dot(c, 0.25);
    assert_true(steer_case_check(c).violations > 0);
    steer_case_destroy(c);
  }
}

static void catches_rows_that_should_not_have_changed(void **state) {
  (void)state;
  for (int32_t unsteered = -2; unsteered < 0; unsteered++) {
    struct steer_case *c = make_case(STG_BF16, "add", (const float[]){1}, 1);
    c->row_chain[3] = unsteered;
    steer_case_expect_ok(c);
    /* -0.0 for +0.0 is a change */
    steer_case_set(c, c->before, 3, 5, 0.0);
    steer_case_set(c, c->after, 3, 5, -0.0);
    struct stg_oracle_report report = steer_case_check(c);
    assert_false(report.ok);
    assert_int_equal(1, report.violations);
    assert_int_equal(3, report.first_row);
    assert_int_equal(5, report.first_element);
    steer_case_destroy(c);
  }
}

static void catches_a_store_where_an_op_did_nothing(void **state) {
  (void)state;
  struct steer_case *c = make_case(STG_F16, "ablation", (const float[]){1}, 1);
  steer_case_expect_ok(c);
  steer_case_set(c, c->before, 0, 9, -0.0);
  steer_case_set(c, c->after, 0, 9, 0.0);
  struct stg_oracle_report report = steer_case_check(c);
  assert_int_equal(1, report.violations);
  assert_int_equal(9, report.first_element);
  steer_case_destroy(c);
}

static void catches_a_row_that_was_not_steered(void **state) {
  (void)state;
  struct steer_case *c = make_case(STG_BF16, "add", (const float[]){8}, 1);
  struct stg_oracle_report report = steer_case_check(c);
  assert_true(report.violations > ROWS);
  assert_int_equal(ROWS, report.rows_untouched);
  steer_case_destroy(c);
}

static void catches_a_nan_and_a_finite_value_in_each_others_place(void **state) {
  (void)state;
  struct steer_case *c = make_case(STG_F32, "add", (const float[]){1}, 1);
  steer_case_set(c, c->before, 2, 4, HUGE_VAL);
  steer_case_expect_ok(c);
  steer_case_set(c, c->after, 2, 4, -1);
  steer_case_set(c, c->after, 2, 6, nan(""));
  struct stg_oracle_report report = steer_case_check(c);
  assert_int_equal(2, report.violations);
  assert_true(isinf(report.worst_ratio));
  steer_case_destroy(c);
}

static void an_infinity_is_right_where_the_dtype_ends(void **state) {
  (void)state;
  struct steer_case *c = make_case(STG_F16, "scale_norm", (const float[]){2}, 1);
  steer_case_set(c, c->before, 0, 0, 40000);
  steer_case_set(c, c->before, 1, 1, -40000);
  steer_case_set(c, c->before, 2, 2, 32752);
  steer_case_run(c);
  assert_true(isinf(steer_case_get(c, c->after, 0, 0)));
  struct stg_oracle_report report = steer_case_check(c);
  assert_true(report.ok);
  assert_int_equal(2, report.overflows);
  steer_case_set(c, c->after, 1, 1, HUGE_VAL);
  assert_int_equal(1, steer_case_check(c).violations);
  steer_case_set(c, c->after, 1, 1, -65504);
  assert_int_equal(1, steer_case_check(c).violations);
  steer_case_destroy(c);
}

static void either_side_of_a_branch_point_is_right_and_nothing_between(void **state) {
  (void)state;
  static const double e0[4] = {1, 0, 0, 0};
  static const double outcomes[][2] = {{2, 1}, {4, 1}, {3, 0}};
  struct steer_case *c = steer_case_create(4, STG_F32, STG_F32);
  const struct test_op text = {.vectors = {"v"}, .body = {"h = dot(h, v) > 2 ? 2 * h : h"}};
  const struct stg_op *op = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, compile_op(&c->arena, &text, &op, &error));
  const struct steer_call call = {.vectors = {steer_case_vector(c, e0)}};
  steer_case_chain_of(c, &op, &call, 1);
  steer_case_rows(c, 1, 0, false);
  c->row_chain[0] = 0;
  steer_case_set(c, c->before, 0, 0, 2);
  for (size_t k = 0; k < sizeof outcomes / sizeof outcomes[0]; k++) {
    steer_case_set(c, c->after, 0, 0, outcomes[k][0]);
    struct stg_oracle_report report = steer_case_check(c);
    assert_int_equal(outcomes[k][1] != 0, report.ok);
    assert_int_equal(1, report.branch_rows);
  }
  steer_case_destroy(c);
}

/* h.v of a row before the chain. */
static double projection_of(const struct steer_case *c, int64_t row) {
  double p = 0;
  for (int64_t j = 0; j < HIDDEN; j++) {
    p += steer_case_get(c, c->before, row, j) * c->wide[0][j];
  }
  return p;
}

static void add_vector(struct steer_case *c, void *tensor, int64_t row, double factor) {
  for (int64_t j = 0; j < HIDDEN; j++) {
    double h = steer_case_get(c, tensor, row, j);
    steer_case_set(c, tensor, row, j, h + factor * c->wide[0][j]);
  }
}

/* What the first statement leaves of the projection is its rounding; the second enlarges that. */
static void an_error_that_a_later_statement_enlarges_is_allowed_for(void **state) {
  (void)state;
  const struct test_op text = {.vectors = {"v"},
                               .body = {"h += -dot(h, v) * v", "h += dot(h, v) * 1e5 * v"}};
  for (int pair = 0; pair < 2; pair++) {
    struct steer_rng rng = {.state = 11};
    struct steer_case *c = steer_case_create(HIDDEN, STG_F32, STG_F32);
    const struct stg_op *op = NULL;
    stg_error error = STG_ERROR_INIT;
    assert_int_equal(STG_OK, compile_op(&c->arena, &text, &op, &error));
    const struct steer_call call = {.vectors = {steer_case_random_vector(c, &rng, 1)}};
    steer_case_chain_of(c, &op, &call, 1);
    steer_case_rows(c, ROWS, 0, pair != 0);
    steer_case_fill(c, &rng, 1);
    for (int64_t r = 0; r < ROWS; r++) {
      c->row_chain[r] = 0;
      add_vector(c, c->before, r, 40);
    }
    steer_case_expect_ok(c);
    /* the first statement left out */
    add_vector(c, c->after, 1, 1e5 * projection_of(c, 1));
    assert_true(steer_case_check(c).violations > HIDDEN / 2);
    assert_int_equal(1, steer_case_check(c).first_row);
    steer_case_run(c);
    steer_case_set(c, c->after, 2, 5, steer_case_get(c, c->after, 2, 5) + 40);
    struct stg_oracle_report report = steer_case_check(c);
    assert_int_equal(1, report.violations);
    assert_int_equal(2, report.first_row);
    assert_int_equal(5, report.first_element);
    steer_case_destroy(c);
  }
}

/* A dot from before the projection was removed: no statement alone enlarges what is wrong in it. */
static void a_scalar_from_before_a_statement_counts_as_part_of_the_op(void **state) {
  (void)state;
  const struct test_op text = {
      .vectors = {"v"}, .body = {"p = dot(h, v)", "h += -dot(h, v) * v", "h += p * 1e7 * v"}};
  struct steer_rng rng = {.state = 12};
  struct steer_case *c = steer_case_create(HIDDEN, STG_F32, STG_F32);
  const struct stg_op *op = NULL;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, compile_op(&c->arena, &text, &op, &error));
  const struct steer_call call = {.vectors = {steer_case_random_vector(c, &rng, 1)}};
  steer_case_chain_of(c, &op, &call, 1);
  steer_case_rows(c, 1, 0, false);
  steer_case_fill(c, &rng, 1);
  c->row_chain[0] = 0;
  /* p is nearly 0: only its rounding is large after that */
  add_vector(c, c->before, 0, -projection_of(c, 0));
  steer_case_expect_ok(c);
  steer_case_set(c, c->after, 0, 5, steer_case_get(c, c->after, 0, 5) + 4000);
  assert_int_equal(1, steer_case_check(c).violations);
  steer_case_destroy(c);
}

static void reports_rows_by_their_bytes_and_errors_by_op(void **state) {
  (void)state;
  struct steer_case *c = make_case(STG_BF16, "add", (const float[]){1}, 1);
  c->row_chain[6] = -1;
  c->row_chain[7] = -2;
  steer_case_expect_ok(c);
  struct stg_oracle_report report = steer_case_check(c);
  assert_int_equal(ROWS, report.rows);
  assert_int_equal(6, report.rows_steered);
  assert_int_equal(2, report.rows_untouched);
  assert_int_equal(-1, report.first_row);
  assert_int_equal(-1, report.first_element);
  assert_int_equal(1, report.n_ops);
  assert_string_equal("add", report.ops[0].op);
  assert_int_equal(6, report.ops[0].rows);
  /* rounding the row to bf16 puts about 0.0017 of its rms back (independent errors, unit vector) */
  assert_true(report.ops[0].projection_err_rms > 0);
  assert_true(report.ops[0].projection_err_rms < 0.006);
  assert_true(report.max_abs_err > 0 && report.max_abs_err < 0x1p-6);
  assert_true(report.worst_ratio > 0.5 && report.worst_ratio <= 1);
  steer_case_destroy(c);
}

static void projection_error_is_that_of_the_first_vector(void **state) {
  (void)state;
  static const double e1[4] = {0, 2, 0, 0};
  struct steer_case *c = steer_case_create(4, STG_F32, STG_F32);
  const struct steer_call call = {.op = "add", .vectors = {steer_case_vector(c, e1)}};
  steer_case_chain(c, &call, 1);
  steer_case_rows(c, 2, 0, false);
  c->row_chain[0] = c->row_chain[1] = 0;
  /* errors 0.5 and 0 along (0,2,0,0): projections 1 and 0, rms sqrt(1/2) */
  steer_case_set(c, c->after, 0, 1, 0.5);
  struct stg_oracle_report report = steer_case_check(c);
  assert_true(fabs(report.ops[0].projection_err_rms - sqrt(0.5)) < 1e-15);
  assert_true(fabs(report.max_abs_err - 0.5) < 1e-15);
  steer_case_destroy(c);
}

static void oracle_rounds_its_own_result_once(void **state) {
  (void)state;
  /* 1 + 2^-8 + 2^-30 is just above a tie of bf16; through float32 it would become the tie and go
   * to even, down */
  struct steer_case *c = steer_case_create(1, STG_BF16, STG_F32);
  const double one[] = {1};
  struct steer_call calls[] = {{.op = "add", .vectors = {steer_case_vector(c, one)}},
                               {.op = "add", .vectors = {0}}};
  calls[0].params[0] = 0x1p-8F;
  calls[1].params[0] = 0x1p-30F;
  steer_case_chain(c, calls, 2);
  steer_case_rows(c, 1, 0, false);
  c->row_chain[0] = 0;
  steer_case_set(c, c->before, 0, 0, 1);
  struct stg_oracle_batch batch = steer_case_oracle_batch(c);
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_oracle_apply(&batch, c->after, NULL, &error));
  assert_true(steer_case_get(c, c->after, 0, 0) == 1 + 0x1p-7);
  steer_case_destroy(c);
}

static void oracle_passes_its_own_result(void **state) {
  (void)state;
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct steer_case *c = make_case(dtypes[k], "swap", (const float[]){0}, 0);
    c->row_chain[1] = -1;
    c->row_chain[2] = -2;
    struct stg_oracle_batch batch = steer_case_oracle_batch(c);
    stg_error error = STG_ERROR_INIT;
    assert_int_equal(STG_OK, stg_oracle_apply(&batch, c->after, NULL, &error));
    struct stg_oracle_report report = steer_case_check(c);
    assert_true(report.ok);
    assert_int_equal(ROWS - 2, report.rows_steered);
    steer_case_destroy(c);
  }
}

static void an_empty_batch_is_right(void **state) {
  (void)state;
  struct steer_case *c = steer_case_create(8, STG_F32, STG_F32);
  struct stg_oracle_batch batch = steer_case_oracle_batch(c);
  struct stg_oracle_report report;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_oracle_check(&batch, &report, &error));
  assert_true(report.ok);
  assert_int_equal(0, report.rows);
  steer_case_destroy(c);
}

static void reports_memory_that_it_can_not_have(void **state) {
  (void)state;
  struct steer_case *c = make_case(STG_F32, "add", (const float[]){1}, 1);
  struct stg_oracle_batch batch = steer_case_oracle_batch(c);
  for (size_t nth = 1; nth <= 3; nth++) {
    struct stg_oracle_report report = {.rows = 77};
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    stg_status status = stg_oracle_check(&batch, &report, &error);
    stg_alloc_fail_at(0);
    assert_int_equal(STG_E_NO_MEMORY, status);
    assert_non_null(strstr(error.message, "rows of the oracle"));
    assert_int_equal(77, report.rows);
  }
  steer_case_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(catches_a_bound_off_by_ten_percent),
      cmocka_unit_test(catches_a_scale_off_by_ten_percent),
      cmocka_unit_test(catches_a_neighbours_vector),
      cmocka_unit_test(catches_a_dot_over_half_a_row),
      cmocka_unit_test(catches_rows_that_should_not_have_changed),
      cmocka_unit_test(catches_a_store_where_an_op_did_nothing),
      cmocka_unit_test(catches_a_row_that_was_not_steered),
      cmocka_unit_test(catches_a_nan_and_a_finite_value_in_each_others_place),
      cmocka_unit_test(an_infinity_is_right_where_the_dtype_ends),
      cmocka_unit_test(either_side_of_a_branch_point_is_right_and_nothing_between),
      cmocka_unit_test(an_error_that_a_later_statement_enlarges_is_allowed_for),
      cmocka_unit_test(a_scalar_from_before_a_statement_counts_as_part_of_the_op),
      cmocka_unit_test(reports_rows_by_their_bytes_and_errors_by_op),
      cmocka_unit_test(projection_error_is_that_of_the_first_vector),
      cmocka_unit_test(oracle_rounds_its_own_result_once),
      cmocka_unit_test(oracle_passes_its_own_result),
      cmocka_unit_test(an_empty_batch_is_right),
      cmocka_unit_test(reports_memory_that_it_can_not_have),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

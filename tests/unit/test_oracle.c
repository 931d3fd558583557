/*
 * test_oracle.c: the oracle against numbers worked out by hand. It shares the parser with the
 * engine, so nothing but arithmetic on paper can say that both are right.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/oracle/steer.h"
#include "runtime/base/alloc.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/compile_op.h"

#define N 3

/* What the oracle says of one row of three float32 elements. */
struct answer {
  struct stg_oracle_row row;
  double ref[STG_ORACLE_MAX_ALTERNATIVES * N];
  double bound[STG_ORACLE_MAX_ALTERNATIVES * N];
};

static void ask(const struct stg_oracle_op *ops, size_t n_ops, const double *hidden,
                const double *residual, struct answer *ret) {
  const struct stg_oracle_chain chain = {.ops = ops, .n_ops = n_ops};
  stg_error error = STG_ERROR_INIT;
  ret->row = (struct stg_oracle_row){.ref = ret->ref, .bound = ret->bound};
  assert_int_equal(STG_OK, stg_oracle_row(&chain, N, STG_F32, hidden, residual, &ret->row, &error));
}

static int setup(void **state) {
  *state = stg_calloc(1, sizeof(struct stg_arena));
  return *state == NULL;
}

static int teardown(void **state) {
  stg_arena_finish(*state);
  stg_free(*state);
  return 0;
}

static struct stg_oracle_op built_in(void **state, const char *name, const double *first,
                                     const double *second) {
  stg_error error = STG_ERROR_INIT;
  struct stg_oracle_op call = {.op = builtin_op(*state, name, &error)};
  assert_string_equal("", error.message);
  call.vectors[0] = first;
  call.vectors[1] = second;
  return call;
}

/* A user op over one vector v with one parameter p, p = 0. */
static struct stg_oracle_op user_op(void **state, const char *statement, const char *next,
                                    const double *v) {
  const struct test_op text = {
      .name = "mine", .vectors = {"v"}, .params = {"p"}, .body = {statement, next}};
  struct stg_oracle_op call = {.vectors = {v}};
  stg_error error = STG_ERROR_INIT;
  stg_status status = compile_op(*state, &text, &call.op, &error);
  assert_string_equal("", error.message);
  assert_int_equal(STG_OK, status);
  return call;
}

static void assert_near(double expected, double actual, double tolerance) {
  if (!(fabs(expected - actual) <= tolerance)) {
    fail_msg("%.17g is not within %g of %.17g", actual, tolerance, expected);
  }
}

static void assert_row(double x, double y, double z, const double *row) {
  assert_near(x, row[0], 1e-13);
  assert_near(y, row[1], 1e-13);
  assert_near(z, row[2], 1e-13);
}

/* The length of (1, 2, 2) is 3. */
static const double row_122[N] = {1, 2, 2};
static const double axis_x[N] = {1, 0, 0};
static const double axis_y[N] = {0, 1, 0};

static void adds_a_scaled_vector(void **state) {
  static const double v[N] = {1, 0, -1};
  struct stg_oracle_op op = built_in(state, "add", v, NULL);
  struct answer answer;
  op.params[0] = 2;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(3, 2, 0, answer.ref);
}

static void ablation_removes_or_flips_a_direction(void **state) {
  struct stg_oracle_op op = built_in(state, "ablation", axis_y, NULL);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1, 0, 2, answer.ref);
  op.params[0] = -1;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1, -2, 2, answer.ref);
}

static void ablation_takes_a_vector_as_it_is(void **state) {
  /* h.v = 4; (0-1)*4*(0,2,0) = (0,-8,0) */
  static const double v[N] = {0, 2, 0};
  struct stg_oracle_op op = built_in(state, "ablation", v, NULL);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1, -6, 2, answer.ref);
}

static void projection_cap_moves_by_what_is_beyond_a_bound(void **state) {
  /* p = 1 + 2 = 3 */
  static const double v[N] = {1, 1, 0};
  struct stg_oracle_op op = built_in(state, "projection_cap", v, NULL);
  int min = stg_op_find_param(op.op, "min");
  int max = stg_op_find_param(op.op, "max");
  struct answer answer;
  op.params[min] = -INFINITY;
  op.params[max] = 1;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(-1, 0, 2, answer.ref);
  op.params[min] = 5;
  op.params[max] = INFINITY;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(3, 4, 2, answer.ref);
  op.params[min] = 2;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1, 2, 2, answer.ref);
}

static void add_keep_norm_keeps_the_length(void **state) {
  /* h = (3,4,0), |h| = 5; g = (0,12,5), |g| = 13 */
  static const double h[N] = {3, 4, 0};
  static const double v[N] = {-3, 8, 5};
  struct stg_oracle_op op = built_in(state, "add_keep_norm", v, NULL);
  struct answer answer;
  op.params[0] = 1;
  ask(&op, 1, h, NULL, &answer);
  assert_row(0, 60.0 / 13, 25.0 / 13, answer.ref);
}

static void add_keep_norm_leaves_a_row_that_would_vanish(void **state) {
  static const double v[N] = {-1, -2, -2};
  struct stg_oracle_op op = built_in(state, "add_keep_norm", v, NULL);
  struct answer answer;
  op.params[0] = 1;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1, 2, 2, answer.ref);
}

static void add_norm_matched_scales_with_the_row(void **state) {
  /* 0.5 * 3 * (1,0,1) */
  static const double v[N] = {1, 0, 1};
  struct stg_oracle_op op = built_in(state, "add_norm_matched", v, NULL);
  struct answer answer;
  op.params[0] = 0.5F;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(2.5, 2, 3.5, answer.ref);
}

static void gated_add_opens_with_the_other_direction(void **state) {
  struct stg_oracle_op op = built_in(state, "gated_add", axis_y, axis_x);
  struct answer answer;
  op.params[stg_op_find_param(op.op, "scale")] = 3;
  op.params[stg_op_find_param(op.op, "sharpness")] = 4;
  op.params[stg_op_find_param(op.op, "threshold")] = 2;
  /* h.u = 2, on the threshold: half of 3 */
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(2.5, 2, 2, answer.ref);
  /* sharpness*(2 - 1) = 2: 3/(1 + e^-2), e^-2 = 0.1353352832366127 */
  op.params[stg_op_find_param(op.op, "sharpness")] = 2;
  op.params[stg_op_find_param(op.op, "threshold")] = 1;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1 + 3 / 1.1353352832366127, 2, 2, answer.ref);
}

static void swap_moves_a_component_to_another_direction(void **state) {
  struct stg_oracle_op op = built_in(state, "swap", axis_x, axis_y);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(0, 3, 2, answer.ref);
}

static void scale_norm_multiplies(void **state) {
  struct stg_oracle_op op = built_in(state, "scale_norm", NULL, NULL);
  struct answer answer;
  op.params[0] = 1.5F;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1.5, 3, 3, answer.ref);
}

static void ops_see_what_the_ops_before_left(void **state) {
  struct stg_oracle_op add = built_in(state, "add", axis_y, NULL);
  struct stg_oracle_op cap = built_in(state, "projection_cap", axis_y, NULL);
  struct answer answer;
  add.params[0] = 10;
  cap.params[stg_op_find_param(cap.op, "min")] = -INFINITY;
  cap.params[stg_op_find_param(cap.op, "max")] = 1;
  const struct stg_oracle_op add_first[] = {add, cap};
  ask(add_first, 2, row_122, NULL, &answer);
  assert_row(1, 1, 2, answer.ref);
  const struct stg_oracle_op cap_first[] = {cap, add};
  ask(cap_first, 2, row_122, NULL, &answer);
  assert_row(1, 11, 2, answer.ref);
}

static void a_pair_is_read_as_a_sum_and_changes_hidden_alone(void **state) {
  /* the sum is (1,2,2), capped at 1 along y: hidden moves by (0,-1,0) */
  static const double hidden[N] = {1, 0.5, -4};
  static const double residual[N] = {0, 1.5, 6};
  struct stg_oracle_op cap = built_in(state, "projection_cap", axis_y, NULL);
  struct answer answer;
  cap.params[stg_op_find_param(cap.op, "min")] = -INFINITY;
  cap.params[stg_op_find_param(cap.op, "max")] = 1;
  ask(&cap, 1, hidden, residual, &answer);
  assert_row(1, -0.5, -4, answer.ref);
}

static void a_residual_that_is_not_finite_does_not_reach_an_add(void **state) {
  static const double residuals[][N] = {{HUGE_VAL, 0, 0}, {(double)NAN, 0, 0}};
  struct stg_oracle_op add = built_in(state, "add", axis_y, NULL);
  struct stg_oracle_op keep = user_op(state, "h = h + 4 * v", NULL, axis_y);
  struct answer answer;
  add.params[0] = 4;
  for (size_t k = 0; k < 2; k++) {
    ask(&add, 1, row_122, residuals[k], &answer);
    assert_row(1, 6, 2, answer.ref);
    assert_true(isfinite(answer.bound[0]));
    ask(&keep, 1, row_122, residuals[k], &answer);
    assert_row(1, 6, 2, answer.ref);
  }
}

static void every_function_of_the_language_has_its_value(void **state) {
  /* 3 + 1 + 0 + 0 + 0.5 + 2 + 1 + 2 + 3 + 1 = 13.5 */
  struct stg_oracle_op op =
      user_op(state,
              "s = sqrt(9) + exp(0) + log(1) + tanh(0) + sigmoid(0) + abs(-2) + min(1, 2) + "
              "max(1, 2) + clamp(5, 0, 3) + clamp(-5, 1, 3)",
              "h = h - s * v / 2", axis_x);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_row(1 - 13.5 / 2, 2, 2, answer.ref);
}

static void conditions_choose_between_scalars_and_between_vectors(void **state) {
  struct stg_oracle_op scalars =
      user_op(state, "s = dot(h, v) < 3 && !(norm(h) == 4) ? (2 >= 3 || 1 != 1 ? 7 : 5) : 6",
              "h += s * v", axis_x);
  struct stg_oracle_op vectors = user_op(state, "h = dot(h, v) > 3 ? h : -(h + v)", NULL, axis_x);
  struct answer answer;
  ask(&scalars, 1, row_122, NULL, &answer);
  assert_row(6, 2, 2, answer.ref);
  ask(&vectors, 1, row_122, NULL, &answer);
  assert_row(-2, -2, -2, answer.ref);
}

static void bound_of_an_add_is_the_sum_of_its_terms(void **state) {
  /* m = 1, A = 1, C = 2, |v| = sqrt(2), max|v_j| = 1, |h| = 3, lambda = kappa = 1 */
  static const double v[N] = {1, 0, -1};
  struct stg_oracle_op op = built_in(state, "add", v, NULL);
  struct answer answer;
  op.params[0] = 2;
  ask(&op, 1, row_122, NULL, &answer);
  double dots = sqrt(3) * sqrt(2) * (3 + 2 * sqrt(2)) * 1;
  assert_near(0x1p-24 * 3 + 0x1p-150 + 0x1p-23 * (3 * (1 + 2 * 1) + dots), answer.bound[0], 1e-18);
  assert_near(0x1p-24 * 2 + 0x1p-150 + 0x1p-23 * (3 * (2 + 2 * 0) + dots), answer.bound[1], 1e-18);
}

static void bound_of_a_pair_counts_hidden_too(void **state) {
  /* as above, with |hidden_j| beside |state_j| */
  static const double v[N] = {1, 0, -1};
  static const double hidden[N] = {11, 2, 2};
  static const double residual[N] = {-10, 0, 0};
  struct stg_oracle_op op = built_in(state, "add", v, NULL);
  struct answer answer;
  op.params[0] = 2;
  ask(&op, 1, hidden, residual, &answer);
  double dots = sqrt(3) * sqrt(2) * (3 + 2 * sqrt(2)) * 1;
  assert_near(0x1p-24 * 13 + 0x1p-150 + 0x1p-23 * (3 * (1 + 11 + 2 * 1) + dots), answer.bound[0],
              1e-18);
}

static void bound_of_an_ablation_grows_with_the_op(void **state) {
  /* v = (0,2,0): L = |1 + (0-1)*4| = 3, C = |-(h.v)| = 4, A*|h| + C*|v| = 3 + 8 */
  static const double v[N] = {0, 2, 0};
  struct stg_oracle_op op = built_in(state, "ablation", v, NULL);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  double dots = sqrt(3) * 3 * 2 * (3 + 4 * 2) * 2;
  assert_near(0x1p-24 * 6 + 0x1p-150 + 0x1p-23 * (3 * (2 + 4 * 2) + dots), answer.bound[1], 1e-17);
}

static void bound_of_a_norm_grows_with_its_cancellation(void **state) {
  /*
   * h = (3,4,0), v = (-3,-3,0), g = (0,1,0): S = 25 + 2*|-21| + 18 = 85, |g|^2 = 1, kappa = 85;
   * a = |h|/|g| = 5 and c = 5*1, |v| = sqrt(18), max|v_j| = 3
   */
  static const double h[N] = {3, 4, 0};
  static const double v[N] = {-3, -3, 0};
  struct stg_oracle_op op = built_in(state, "add_keep_norm", v, NULL);
  struct answer answer;
  op.params[0] = 1;
  ask(&op, 1, h, NULL, &answer);
  assert_row(0, 5, 0, answer.ref);
  double dots = sqrt(3) * sqrt(18) * (5 * 5 + 5 * sqrt(18)) * 3;
  assert_near(0x1p-24 * 5 + 0x1p-150 + 85 * 0x1p-23 * (3 * (5 * 4 + 5 * 3) + dots), answer.bound[1],
              1e-14);
}

static void bound_caps_the_cancellation_where_the_engine_reduces_again(void **state) {
  /* g = (0, 0, 1/64): S is about 4*9, |g|^2 = 2^-12, S/|g|^2 far beyond 1024 */
  static const double v[N] = {-1, -2, -2 + 0x1p-6};
  struct stg_oracle_op op = built_in(state, "add_keep_norm", v, NULL);
  struct answer answer;
  op.params[0] = 1;
  ask(&op, 1, row_122, NULL, &answer);
  /* a = c = 3*64 = 192 */
  double norm = sqrt(1 + 4 + v[2] * v[2]);
  double dots = sqrt(3) * norm * (192 * 3 + 192 * norm) * 2;
  double terms = 3 * (192 * 2 + 192 * -v[2]) + dots;
  assert_near(0x1p-24 * 3 + 0x1p-150 + 1024 * 0x1p-23 * terms, answer.bound[2], 1e-10);
}

static void growth_of_a_user_op_is_measured(void **state) {
  /* h += (h.v)v grows 1 + |v|^2 = 5 along v; C = h.v = 4, A*|h| + C*|v| = 3 + 8 */
  static const double v[N] = {0, 2, 0};
  struct stg_oracle_op op = user_op(state, "h += dot(h, v) * v", NULL, v);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  double dots = sqrt(3) * 5 * 2 * (3 + 4 * 2) * 2;
  double expected = 0x1p-24 * 10 + 0x1p-150 + 0x1p-23 * (3 * (2 + 4 * 2) + dots);
  assert_near(expected, answer.bound[1], 1e-7 * expected);
}

static void a_comparison_on_its_branch_point_gives_both_outcomes(void **state) {
  struct stg_oracle_op op = user_op(state, "h = dot(h, v) > 2 ? 2 * h : h", NULL, axis_y);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_int_equal(2, answer.row.n_alternatives);
  assert_row(1, 2, 2, answer.ref);
  assert_row(2, 4, 4, answer.ref + N);
  assert_false(answer.row.unchanged);
}

static void a_comparison_away_from_its_branch_point_gives_one(void **state) {
  struct stg_oracle_op op = user_op(state, "h = dot(h, v) > 1.99 ? 2 * h : h", NULL, axis_y);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_int_equal(1, answer.row.n_alternatives);
  assert_row(2, 4, 4, answer.ref);
}

static void comparisons_that_depend_on_others_are_all_tried(void **state) {
  /* the norm is asked for only where the dot passes: true-true, false, true-false */
  struct stg_oracle_op op =
      user_op(state, "h = dot(h, v) >= 2 && norm(h) >= 3 ? 2 * h : 3 * h", NULL, axis_y);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_int_equal(3, answer.row.n_alternatives);
  assert_row(2, 4, 4, answer.ref);
  assert_row(3, 6, 6, answer.ref + N);
  assert_row(3, 6, 6, answer.ref + 2 * (size_t)N);
}

static void alternatives_stop_at_eight(void **state) {
  struct stg_oracle_op op = user_op(state, "h = dot(h, v) > 2 ? h + v : h", "p2 = p", axis_y);
  struct stg_oracle_op back = user_op(state, "h = dot(h, v) > 2 ? h - v : h", "p2 = p", axis_y);
  const struct stg_oracle_op ops[] = {op, back, op, back, op, back, op, back};
  struct answer answer;
  ask(ops, 8, row_122, NULL, &answer);
  assert_int_equal(STG_ORACLE_MAX_ALTERNATIVES, answer.row.n_alternatives);
}

static void comparisons_of_parameters_alone_are_certain(void **state) {
  struct stg_oracle_op op = user_op(state, "h = p == 0 ? 2 * h : h", NULL, axis_y);
  struct answer answer;
  ask(&op, 1, row_122, NULL, &answer);
  assert_int_equal(1, answer.row.n_alternatives);
  assert_row(2, 4, 4, answer.ref);
}

static void assert_unchanged(const struct stg_oracle_op *op, bool expected) {
  struct answer answer;
  ask(op, 1, row_122, NULL, &answer);
  assert_int_equal(expected, answer.row.unchanged);
}

static void ops_that_do_nothing_must_keep_the_bytes(void **state) {
  struct stg_oracle_op add = built_in(state, "add", axis_x, NULL);
  struct stg_oracle_op ablation = built_in(state, "ablation", axis_x, NULL);
  struct stg_oracle_op scale = built_in(state, "scale_norm", NULL, NULL);
  ablation.params[0] = 1;
  scale.params[0] = 1;
  assert_unchanged(&add, true);
  assert_unchanged(&ablation, true);
  assert_unchanged(&scale, true);
  add.params[0] = 0x1p-149F;
  assert_unchanged(&add, false);
}

static void a_cap_demands_the_bytes_only_well_inside_its_bounds(void **state) {
  struct stg_oracle_op cap = built_in(state, "projection_cap", axis_y, NULL);
  int min = stg_op_find_param(cap.op, "min");
  int max = stg_op_find_param(cap.op, "max");
  cap.params[min] = -INFINITY;
  cap.params[max] = 3;
  assert_unchanged(&cap, true);
  cap.params[max] = 2;
  assert_unchanged(&cap, false);
  cap.params[min] = 2;
  cap.params[max] = INFINITY;
  assert_unchanged(&cap, false);
  cap.params[min] = 1;
  assert_unchanged(&cap, true);
}

static void nan_spreads_through_dots_only(void **state) {
  static const double row[N] = {(double)NAN, 2, 2};
  struct stg_oracle_op add = built_in(state, "add", axis_y, NULL);
  struct stg_oracle_op ablation = built_in(state, "ablation", axis_y, NULL);
  struct answer answer;
  add.params[0] = 1;
  ask(&add, 1, row, NULL, &answer);
  assert_true(isnan(answer.ref[0]));
  assert_near(3, answer.ref[1], 0);
  assert_true(isfinite(answer.bound[1]));
  ask(&ablation, 1, row, NULL, &answer);
  assert_true(isnan(answer.ref[1]));
}

static void refuses_a_chain_longer_than_it_evaluates(void **state) {
  struct stg_oracle_op ops[STG_ORACLE_MAX_OPS + 1];
  for (size_t k = 0; k < STG_ORACLE_MAX_OPS + 1; k++) {
    ops[k] = built_in(state, "add", axis_x, NULL);
  }
  const struct stg_oracle_chain chain = {.ops = ops, .n_ops = STG_ORACLE_MAX_OPS + 1};
  struct answer answer = {.row = {.ref = answer.ref, .bound = answer.bound}};
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_E_CAPACITY,
                   stg_oracle_row(&chain, N, STG_F32, row_122, NULL, &answer.row, &error));
  assert_string_equal("a chain of 17 ops; the oracle evaluates at most 16", error.message);
}

static void reports_memory_that_it_can_not_have(void **state) {
  struct stg_oracle_op op = built_in(state, "add", axis_x, NULL);
  const struct stg_oracle_chain chain = {.ops = &op, .n_ops = 1};
  struct answer answer = {.row = {.ref = answer.ref, .bound = answer.bound}};
  for (size_t nth = 1; nth <= 2; nth++) {
    stg_error error = STG_ERROR_INIT;
    stg_alloc_fail_at(nth);
    stg_status status = stg_oracle_row(&chain, N, STG_F32, row_122, NULL, &answer.row, &error);
    stg_alloc_fail_at(0);
    assert_int_equal(STG_E_NO_MEMORY, status);
    assert_non_null(strstr(error.message, "rows of the oracle"));
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(adds_a_scaled_vector),
      TEST(ablation_removes_or_flips_a_direction),
      TEST(ablation_takes_a_vector_as_it_is),
      TEST(projection_cap_moves_by_what_is_beyond_a_bound),
      TEST(add_keep_norm_keeps_the_length),
      TEST(add_keep_norm_leaves_a_row_that_would_vanish),
      TEST(add_norm_matched_scales_with_the_row),
      TEST(gated_add_opens_with_the_other_direction),
      TEST(swap_moves_a_component_to_another_direction),
      TEST(scale_norm_multiplies),
      TEST(ops_see_what_the_ops_before_left),
      TEST(a_pair_is_read_as_a_sum_and_changes_hidden_alone),
      TEST(a_residual_that_is_not_finite_does_not_reach_an_add),
      TEST(every_function_of_the_language_has_its_value),
      TEST(conditions_choose_between_scalars_and_between_vectors),
      TEST(bound_of_an_add_is_the_sum_of_its_terms),
      TEST(bound_of_a_pair_counts_hidden_too),
      TEST(bound_of_an_ablation_grows_with_the_op),
      TEST(bound_of_a_norm_grows_with_its_cancellation),
      TEST(bound_caps_the_cancellation_where_the_engine_reduces_again),
      TEST(growth_of_a_user_op_is_measured),
      TEST(a_comparison_on_its_branch_point_gives_both_outcomes),
      TEST(a_comparison_away_from_its_branch_point_gives_one),
      TEST(comparisons_that_depend_on_others_are_all_tried),
      TEST(alternatives_stop_at_eight),
      TEST(comparisons_of_parameters_alone_are_certain),
      TEST(ops_that_do_nothing_must_keep_the_bytes),
      TEST(a_cap_demands_the_bytes_only_well_inside_its_bounds),
      TEST(nan_spreads_through_dots_only),
      TEST(refuses_a_chain_longer_than_it_evaluates),
      TEST(reports_memory_that_it_can_not_have),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_oracle_norm.c: the check of the epilogue passes what is right, and fails what real norms got
 * wrong: each fault is put into an otherwise right result, at every dtype where it shows.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/oracle/norm.h"
#include "runtime/base/dtype.h"
#include "tests/support/steer_case.h"

#define HIDDEN 1000
#define ROWS 8
#define EPSILON 1e-2F
#define SCALE 3.0F
/* Rows of the case: steered, but for one unsteered and one padding row. */
#define UNSTEERED 3
#define PADDING 5

static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
#define N_DTYPES (sizeof dtypes / sizeof dtypes[0])

enum fault {
  RIGHT,
  ROUNDED_BEFORE_NORM, /* the mean and the row of what was stored, not of s' */
  NO_EPSILON,
  SUM_FOR_MEAN,
  NO_WEIGHT,
  ONE_PLUS_WEIGHT,
  NEIGHBOURS_WEIGHT,
  NORM_BEFORE_CHAIN, /* the mean square of s */
  HIDDEN_ALONE,      /* the residual is not in the norm */
  CHAIN_BEHIND_NORM,
  RESIDUAL_KEPT,
  RESIDUAL_NORMALISED,
  UNSTEERED_KEPT,
  PADDING_COMPUTED,
  PADDING_RESIDUAL,
};

static struct steer_case *make_case(stg_dtype dtype) {
  struct steer_rng rng = {.state = 31};
  struct steer_case *c = steer_case_create(HIDDEN, dtype, dtype);
  struct steer_call add = {.op = "add", .vectors = {steer_case_random_vector(c, &rng, 1)}};
  add.params[0] = SCALE;
  steer_case_chain(c, &add, 1);
  steer_case_rows(c, ROWS, HIDDEN + 3, true);
  steer_case_norm(c, &rng, EPSILON);
  steer_case_fill(c, &rng, 0.25);
  for (int64_t r = 0; r < ROWS; r++) {
    c->row_chain[r] = r == UNSTEERED ? -1 : r == PADDING ? -2 : 0;
  }
  return c;
}

static double stored(stg_dtype dtype, double value) {
  uint32_t bits = 0;
  stg_store_f32(dtype, &bits, 0, (float)value);
  return (double)stg_load_f32(dtype, &bits, 0);
}

/* One row as a faulty epilogue would compute it, in float64. */
struct faulty_row {
  double sum[HIDDEN], hidden[HIDDEN], weight[HIDDEN];
};

static void fill_faulty(struct steer_case *c, int64_t row, enum fault fault,
                        struct faulty_row *ret) {
  const double scale = c->row_chain[row] < 0 ? 0 : (double)SCALE;
  double squares = 0;
  for (int64_t j = 0; j < HIDDEN; j++) {
    const double h = steer_case_get(c, c->before, row, j);
    const double r = steer_case_get(c, c->residual, row, j);
    const double chain = scale * c->wide[0][j];
    const double w =
        steer_case_get(c, c->weight, 0, fault == NEIGHBOURS_WEIGHT ? (j + 1) % HIDDEN : j);
    ret->sum[j] = h + r + chain;
    ret->hidden[j] = fault == ROUNDED_BEFORE_NORM ? stored(c->dtype, ret->sum[j])
                     : fault == HIDDEN_ALONE      ? h + chain
                     : fault == CHAIN_BEHIND_NORM ? h + r
                                                  : ret->sum[j];
    ret->weight[j] = fault == NO_WEIGHT ? 1 : fault == ONE_PLUS_WEIGHT ? 1 + w : w;
    squares += pow(fault == NORM_BEFORE_CHAIN ? h + r : ret->hidden[j], 2);
  }
  const double mean = fault == SUM_FOR_MEAN ? squares : squares / HIDDEN;
  const double factor = 1 / sqrt(mean + (fault == NO_EPSILON ? 0 : (double)c->epsilon));
  for (int64_t j = 0; j < HIDDEN; j++) {
    ret->hidden[j] *= factor * ret->weight[j];
    ret->hidden[j] += fault == CHAIN_BEHIND_NORM ? scale * c->wide[0][j] : 0;
  }
}

static void put_faulty(struct steer_case *c, int64_t row, enum fault fault) {
  static struct faulty_row computed;
  fill_faulty(c, row, fault, &computed);
  const bool padding = row == PADDING;
  for (int64_t j = 0; j < HIDDEN; j++) {
    if (padding ? fault == PADDING_COMPUTED : fault != UNSTEERED_KEPT || row != UNSTEERED) {
      steer_case_set(c, c->after, row, j, computed.hidden[j]);
    }
    if (padding ? fault == PADDING_RESIDUAL : fault != RESIDUAL_KEPT) {
      steer_case_set(c, c->residual_after, row, j,
                     fault == RESIDUAL_NORMALISED ? computed.hidden[j] : computed.sum[j]);
    }
  }
}

static struct stg_oracle_report check_faulty(stg_dtype dtype, enum fault fault) {
  struct steer_case *c = make_case(dtype);
  memcpy(c->after, c->before, steer_case_bytes(c));
  memcpy(c->residual_after, c->residual, steer_case_bytes(c));
  for (int64_t r = 0; r < ROWS; r++) {
    put_faulty(c, r, fault);
  }
  struct stg_oracle_report report = steer_case_check(c);
  steer_case_destroy(c);
  return report;
}

static void passes_what_is_right(void **state) {
  (void)state;
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct stg_oracle_report report = check_faulty(dtypes[k], RIGHT);
    assert_true(report.ok);
    assert_true(report.worst_ratio <= 1);
    assert_int_equal(ROWS, report.rows);
    assert_int_equal(ROWS - 2, report.rows_steered);
    assert_int_equal(2, report.rows_untouched);
  }
}

static void expect_seen_in_hidden(enum fault fault) {
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct stg_oracle_report report = check_faulty(dtypes[k], fault);
    if (report.ok || report.first_in_residual) {
      fail_msg("fault %d passes, or is seen in the wrong tensor", (int)fault);
    }
    assert_int_equal(0, report.first_row);
  }
}

static void catches_faults_of_the_norm(void **state) {
  static const enum fault faults[] = {NO_EPSILON,        SUM_FOR_MEAN,      NO_WEIGHT,
                                      ONE_PLUS_WEIGHT,   NEIGHBOURS_WEIGHT, NORM_BEFORE_CHAIN,
                                      CHAIN_BEHIND_NORM, HIDDEN_ALONE};
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    expect_seen_in_hidden(faults[i]);
  }
}

/* What two roundings do can be seen where the first of them is coarse. */
static void catches_a_norm_of_the_rounded_row(void **state) {
  (void)state;
  assert_false(check_faulty(STG_BF16, ROUNDED_BEFORE_NORM).ok);
  assert_false(check_faulty(STG_F16, ROUNDED_BEFORE_NORM).ok);
}

static void catches_faults_of_the_residual(void **state) {
  (void)state;
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct stg_oracle_report report = check_faulty(dtypes[k], RESIDUAL_KEPT);
    assert_false(report.ok);
    assert_true(report.first_in_residual);
    assert_false(check_faulty(dtypes[k], RESIDUAL_NORMALISED).ok);
  }
}

static void catches_rows_that_were_forgotten_or_were_padding(void **state) {
  static const struct {
    enum fault fault;
    int64_t row;
  } cases[] = {
      {UNSTEERED_KEPT, UNSTEERED}, {PADDING_COMPUTED, PADDING}, {PADDING_RESIDUAL, PADDING}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_oracle_report report = check_faulty(STG_BF16, cases[i].fault);
    assert_false(report.ok);
    assert_int_equal(cases[i].row, report.first_row);
    assert_int_equal(cases[i].fault == PADDING_RESIDUAL, report.first_in_residual);
  }
}

/* A residual that is off by its last bit is within the bound, but no row that nothing acts on may
 * have it. */
static void the_residual_of_an_unsteered_row_is_exact(void **state) {
  (void)state;
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct steer_case *c = make_case(dtypes[k]);
    steer_case_expect_ok(c);
    unsigned char *row = steer_case_row(c, c->residual_after, UNSTEERED);
    row[7 * stg_dtype_bytes(dtypes[k])] ^= 1U;
    struct stg_oracle_report report = steer_case_check(c);
    assert_int_equal(1, report.violations);
    assert_int_equal(UNSTEERED, report.first_row);
    assert_int_equal(7, report.first_element);
    assert_true(report.first_in_residual);
    steer_case_destroy(c);
  }
}

static void oracle_passes_its_own_result(void **state) {
  (void)state;
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct steer_case *c = make_case(dtypes[k]);
    struct stg_oracle_batch batch = steer_case_oracle_batch(c);
    stg_error error = STG_ERROR_INIT;
    memcpy(c->after, c->before, steer_case_bytes(c));
    memcpy(c->residual_after, c->residual, steer_case_bytes(c));
    assert_int_equal(STG_OK, stg_oracle_apply(&batch, c->after, c->residual_after, &error));
    assert_true(steer_case_check(c).ok);
    steer_case_destroy(c);
  }
}

/* s = (3, 0, 0, 4): the mean of the squares is 6.25, with 2.75 the root is 3. */
static void a_row_worked_out_by_hand(void **state) {
  static const double hidden[] = {1, 2, -1, 4}, residual[] = {2, -2, 1, 0};
  static const double weight[] = {1, 5, 5, 0.5};
  (void)state;
  double sum[4], ref[4], bound[4];
  static const double none[4] = {0};
  for (size_t j = 0; j < 4; j++) {
    sum[j] = hidden[j] + residual[j];
  }
  const struct stg_oracle_norm norm = {{STG_F32, 4}, 2.75, weight};
  stg_oracle_norm_row(&norm, sum, ref);
  assert_true(fabs(ref[0] - 1) <= 1e-15 && ref[1] == 0 && ref[2] == 0);
  assert_true(fabs(ref[3] - 2.0 / 3) <= 1e-15);
  /* without an error of s': u = 2^-24, and 2^-23*(4 + 2) */
  stg_oracle_norm_bound(&norm, sum, none, ref, bound);
  assert_true(fabs(bound[0] - 13 * 0x1p-24) <= 1e-12);
  assert_true(bound[1] > 0 && bound[1] <= 0x1p-149);
}

/* To first order w*r*(B_j + |s_j|*|B|/|s|), for an epsilon that is small beside the mean. */
static void an_error_of_the_sum_is_carried_to_first_order(void **state) {
  static const double sum[] = {3, 0, 0, 4}, weight[] = {1, 2, 1, -1};
  (void)state;
  const double error = 0x1p-12, r = 1 / 2.5;
  double sum_bound[4], ref[4], bound[4];
  const struct stg_oracle_norm norm = {{STG_F32, 4}, 1e-12, weight};
  for (size_t j = 0; j < 4; j++) {
    sum_bound[j] = 0x1p-24 * fabs(sum[j]) + 0x1p-150 + error;
  }
  stg_oracle_norm_row(&norm, sum, ref);
  stg_oracle_norm_bound(&norm, sum, sum_bound, ref, bound);
  for (size_t j = 0; j < 4; j++) {
    const double first = fabs(weight[j]) * r * (error + fabs(sum[j]) * 2 * error / 5);
    const double own = (0x1p-24 + 6 * 0x1p-23) * fabs(ref[j]);
    assert_true(bound[j] >= first + own && bound[j] <= (first + own) * 1.001);
  }
}

/* A chain that leaves nothing of a row, or next to nothing: what is left is all rounding. */
static void rows_that_a_chain_removes_meet_the_bound(void **state) {
  static const char *const ops[] = {"ablation", "scale_norm"};
  (void)state;
  for (size_t i = 0; i < 2 * N_DTYPES; i++) {
    struct steer_rng rng = {.state = 33 + i};
    struct steer_case *c = steer_case_create(1 + (int64_t)i % 2, dtypes[i / 2], STG_F32);
    const double one[] = {1, 0};
    struct steer_call remove = {.op = ops[i % 2]};
    remove.vectors[0] = steer_case_vector(c, one);
    const int32_t chain = steer_case_chain(c, &remove, 1);
    steer_case_rows(c, 40, 0, true);
    steer_case_norm(c, &rng, i % 3 == 0 ? 1e-30F : 1e-6F);
    steer_case_fill(c, &rng, 1);
    for (int64_t r = 0; r < 40; r++) {
      c->row_chain[r] = r % 5 == 4 ? -1 : chain;
    }
    steer_case_expect_ok(c);
    steer_case_destroy(c);
  }
}

static void a_row_that_is_not_finite_is_not_finite_behind_the_norm(void **state) {
  const double values[] = {nan(""), HUGE_VAL, -HUGE_VAL};
  (void)state;
  for (size_t k = 0; k < N_DTYPES; k++) {
    struct steer_case *c = make_case(dtypes[k]);
    for (int64_t r = 0; r < ROWS; r++) {
      steer_case_set(c, r % 2 == 0 ? c->before : c->residual, r, 11 + r, values[r % 3]);
    }
    steer_case_expect_ok(c);
    assert_true(isnan(steer_case_get(c, c->after, 0, 11)));
    steer_case_destroy(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(passes_what_is_right),
      cmocka_unit_test(catches_faults_of_the_norm),
      cmocka_unit_test(catches_a_norm_of_the_rounded_row),
      cmocka_unit_test(catches_faults_of_the_residual),
      cmocka_unit_test(catches_rows_that_were_forgotten_or_were_padding),
      cmocka_unit_test(the_residual_of_an_unsteered_row_is_exact),
      cmocka_unit_test(oracle_passes_its_own_result),
      cmocka_unit_test(a_row_worked_out_by_hand),
      cmocka_unit_test(an_error_of_the_sum_is_carried_to_first_order),
      cmocka_unit_test(rows_that_a_chain_removes_meet_the_bound),
      cmocka_unit_test(a_row_that_is_not_finite_is_not_finite_behind_the_norm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_oracle_cells.c: the check of what ops give out passes what is right, and fails on what is
 * nearly right.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/steer_case.h"

#define HIDDEN 512
#define ROWS 6
#define PROBES 3
#define STRIDE 4

/* Rows 0 to 3 have a chain that gives out to columns 0 and 2, row 4 none, row 5 is padding. */
struct fixture {
  struct steer_case *c;
  float before[ROWS][STRIDE], after[ROWS][STRIDE];
};

static struct fixture open_fixture(void) {
  struct fixture f = {.c = steer_case_create(HIDDEN, STG_BF16, STG_BF16)};
  struct steer_rng rng = {.state = 77};
  const uint32_t v = steer_case_random_vector(f.c, &rng, 1);
  const uint32_t w = steer_case_random_vector(f.c, &rng, 2);
  const struct steer_call calls[] = {{.op = "probe", .vectors = {v}, .params = {0}},
                                     {.op = "add", .vectors = {w}, .params = {3}},
                                     {.op = "probe", .vectors = {w}, .params = {2}}};
  const int32_t chain = steer_case_chain(f.c, calls, 3);
  steer_case_rows(f.c, ROWS, 0, false);
  steer_case_fill(f.c, &rng, 1);
  for (int r = 0; r < 4; r++) {
    f.c->row_chain[r] = chain;
  }
  f.c->row_chain[5] = -2;
  return f;
}

static void run(struct fixture *f) {
  stg_error error = STG_ERROR_INIT;
  for (int r = 0; r < ROWS; r++) {
    for (int k = 0; k < STRIDE; k++) {
      f->before[r][k] = f->after[r][k] = 1000.0F + (float)(r * STRIDE + k);
    }
  }
  memcpy(f->c->after, f->c->before, steer_case_bytes(f->c));
  struct stg_cpu_batch batch = steer_case_cpu_batch(f->c);
  batch.probes = &f->after[0][0];
  batch.probe_stride = STRIDE;
  assert_int_equal(STG_OK, stg_cpu_steer(&batch, &error));
}

static struct stg_oracle_report check(const struct fixture *f) {
  struct stg_oracle_report report = {0};
  stg_error error = STG_ERROR_INIT;
  struct stg_oracle_batch batch = steer_case_oracle_batch(f->c);
  batch.n_probes = PROBES;
  batch.probe_stride = STRIDE;
  batch.probes_before = &f->before[0][0];
  batch.probes_after = &f->after[0][0];
  assert_int_equal(STG_OK, stg_oracle_check(&batch, &report, &error));
  return report;
}

static void expect_one_violation(const struct fixture *f, int64_t row, int64_t column) {
  const struct stg_oracle_report report = check(f);
  assert_false(report.ok);
  assert_int_equal(1, report.violations);
  assert_int_equal(row, report.first_row);
  assert_int_equal(column, report.first_element);
  assert_true(report.first_in_probes);
}

static void what_the_backend_gives_out_passes(void **state) {
  (void)state;
  struct fixture f = open_fixture();
  run(&f);
  assert_true(check(&f).ok);
  assert_true(f.after[0][0] != f.before[0][0] && f.after[3][2] != f.before[3][2]);
  steer_case_destroy(f.c);
}

static void a_dot_that_is_off_is_found(void **state) {
  (void)state;
  struct fixture f = open_fixture();
  run(&f);
  f.after[2][0] *= 1.01F;
  expect_one_violation(&f, 2, 0);
  run(&f);
  f.after[1][2] += 0.01F;
  expect_one_violation(&f, 1, 2);
  run(&f);
  f.after[1][0] = NAN;
  expect_one_violation(&f, 1, 0);
  steer_case_destroy(f.c);
}

static void a_dot_over_half_a_row_is_found(void **state) {
  (void)state;
  struct fixture f = open_fixture();
  run(&f);
  const double *v = f.c->wide[0];
  double sum = 0;
  for (int64_t j = 0; j < HIDDEN / 2; j++) {
    sum += steer_case_get(f.c, f.c->before, 0, j) * v[j];
  }
  f.after[0][0] = (float)sum;
  expect_one_violation(&f, 0, 0);
  steer_case_destroy(f.c);
}

static void a_neighbours_cell_is_found(void **state) {
  (void)state;
  struct fixture f = open_fixture();
  run(&f);
  f.after[1][2] = f.after[2][2];
  expect_one_violation(&f, 1, 2);
  steer_case_destroy(f.c);
}

static void a_cell_that_nothing_reaches_must_keep_its_bytes(void **state) {
  (void)state;
  static const int cells[][2] = {{0, 1}, {4, 0}, {5, 2}};
  struct fixture f = open_fixture();
  for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
    run(&f);
    f.after[cells[k][0]][cells[k][1]] = 0;
    expect_one_violation(&f, cells[k][0], cells[k][1]);
  }
  /* one behind the columns is not the table's */
  run(&f);
  f.after[0][3] = 0;
  assert_true(check(&f).ok);
  steer_case_destroy(f.c);
}

static void a_probe_behind_an_edit_reads_what_the_edit_left(void **state) {
  (void)state;
  struct fixture f = open_fixture();
  run(&f);
  const double *w = f.c->wide[1];
  double sum = 0; /* without the add */
  for (int64_t j = 0; j < HIDDEN; j++) {
    sum += steer_case_get(f.c, f.c->before, 3, j) * w[j];
  }
  f.after[3][2] = (float)sum;
  expect_one_violation(&f, 3, 2);
  steer_case_destroy(f.c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_backend_gives_out_passes),
      cmocka_unit_test(a_dot_that_is_off_is_found),
      cmocka_unit_test(a_dot_over_half_a_row_is_found),
      cmocka_unit_test(a_neighbours_cell_is_found),
      cmocka_unit_test(a_cell_that_nothing_reaches_must_keep_its_bytes),
      cmocka_unit_test(a_probe_behind_an_edit_reads_what_the_edit_left),
  };
  return cmocka_run_group_tests_name("oracle cells", tests, NULL, NULL);
}

/*
 * test_bench_figures.c: percentiles, and when a first call has paid for itself.
 */
#include "tools/bench/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(double expected, double actual) {
  assert_float_equal(expected, actual, 0);
}

static void a_percentile_is_a_measured_value(void **state) {
  (void)state;
  const double five[] = {1, 2, 3, 4, 100};
  expect(1, stg_bench_percentile(five, 5, 0));
  expect(1, stg_bench_percentile(five, 5, 0.2));
  expect(2, stg_bench_percentile(five, 5, 0.21));
  expect(3, stg_bench_percentile(five, 5, 0.5));
  expect(100, stg_bench_percentile(five, 5, 0.99));
  expect(100, stg_bench_percentile(five, 5, 1));
}

static void p99_of_a_thousand_leaves_ten_above_it(void **state) {
  (void)state;
  double values[1000];
  for (int i = 0; i < 1000; i++) {
    values[i] = i + 1;
  }
  expect(990, stg_bench_percentile(values, 1000, 0.99));
  expect(500, stg_bench_percentile(values, 1000, 0.5));
  expect(1000, stg_bench_percentile(values, 1000, 1));
}

static void every_percentile_of_one_value_is_it(void **state) {
  (void)state;
  const double one[] = {7};
  expect(7, stg_bench_percentile(one, 1, 0));
  expect(7, stg_bench_percentile(one, 1, 0.5));
  expect(7, stg_bench_percentile(one, 1, 1));
}

static double calls_of(double first_us, double later_us, double other_us) {
  double calls = -1;
  assert_true(stg_bench_amortise(first_us, later_us, other_us, &calls));
  return calls;
}

static void amortised_at_the_first_count_of_calls_that_cost_no_more(void **state) {
  (void)state;
  /* 100 + 9 * 10 = 190 and 10 * 19 = 190: just paid */
  expect(10, calls_of(100, 10, 19));
  /* a little less gain takes one more call */
  expect(11, calls_of(100, 10, 18.9));
  /* 3 s, 1.24 ms and 1.5 ms a call */
  const double calls = calls_of(3043000, 1240, 1515);
  assert_true(3043000 + (calls - 1) * 1240 <= calls * 1515);
  assert_true(3043000 + (calls - 2) * 1240 > (calls - 1) * 1515);
}

static void a_first_call_that_costs_no_more_has_paid_at_once(void **state) {
  (void)state;
  expect(1, calls_of(10, 10, 10));
  expect(1, calls_of(5, 20, 10));
}

static void never_amortised_without_a_gain(void **state) {
  (void)state;
  double calls = -1;
  assert_false(stg_bench_amortise(100, 10, 10, &calls));
  assert_false(stg_bench_amortise(100, 11, 10, &calls));
  expect(-1, calls);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_percentile_is_a_measured_value),
      cmocka_unit_test(p99_of_a_thousand_leaves_ten_above_it),
      cmocka_unit_test(every_percentile_of_one_value_is_it),
      cmocka_unit_test(amortised_at_the_first_count_of_calls_that_cost_no_more),
      cmocka_unit_test(a_first_call_that_costs_no_more_has_paid_at_once),
      cmocka_unit_test(never_amortised_without_a_gain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

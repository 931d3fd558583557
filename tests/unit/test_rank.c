/*
 * test_rank.c: ranks of queries among their corruptions, and what many of them come to.
 */
#include "engine/oracle/rank.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const double minus_inf = -(double)INFINITY;
static const double nan_score = (double)NAN;

static void counts_who_is_above_and_half_of_who_is_equal(void **state) {
  static const double others[] = {-1, -2, -2, -3, -(double)INFINITY};
  (void)state;
  assert_true(stg_oracle_rank(-0.5, others, 5) == 1);
  assert_true(stg_oracle_rank(-1, others, 5) == 1.5);
  assert_true(stg_oracle_rank(-2, others, 5) == 3);
  assert_true(stg_oracle_rank(-3.5, others, 5) == 5);
  assert_true(stg_oracle_rank(7, NULL, 0) == 1);
}

static void scores_that_are_all_equal_give_the_middle(void **state) {
  double equal[100];
  (void)state;
  for (size_t n = 1; n <= 100; n++) {
    equal[n - 1] = -102.5;
    assert_true(stg_oracle_rank(-102.5, equal, n) == ((double)n + 2) / 2);
  }
}

static void what_is_nan_is_below_all_numbers_on_both_sides(void **state) {
  const double others[] = {nan_score, -1, -100, minus_inf};
  (void)state;
  assert_true(stg_oracle_rank(-1e300, others, 4) == 3);
  assert_true(stg_oracle_rank(nan_score, others, 4) == 4);
  assert_true(stg_oracle_rank(minus_inf, others, 4) == 4);
  assert_true(stg_oracle_rank(nan_score, &nan_score, 1) == 1.5);
  assert_true(stg_oracle_rank(0, &nan_score, 1) == 1);
}

static void many_ranks_have_a_mean_and_hits(void **state) {
  static const double one[] = {-2};
  static const double equal[] = {-1, -1, -1, -1};                 /* 3 */
  static const double above[] = {5, 5, 5, 5, 5, 5, 5, 5, 5};      /* 10 */
  static const double beyond[] = {5, 5, 5, 5, 5, 5, 5, 5, 5, -1}; /* 10.5 */
  struct stg_oracle_ranking ranking = {0};
  (void)state;
  assert_true(stg_oracle_mrr(&ranking) == 0);
  assert_true(stg_oracle_hits(&ranking, 0) == 0);
  assert_true(stg_oracle_ranking_add(&ranking, -1, one, 1) == 1);
  assert_true(stg_oracle_mrr(&ranking) == 1);
  assert_true(stg_oracle_ranking_add(&ranking, -1, equal, 4) == 3);
  assert_true(stg_oracle_ranking_add(&ranking, -1, above, 9) == 10);
  assert_true(stg_oracle_ranking_add(&ranking, -1, beyond, 10) == 10.5);
  assert_int_equal(ranking.n, 4);
  assert_int_equal(ranking.tied, 2);
  assert_true(fabs(stg_oracle_mrr(&ranking) - (1 + 1 / 3.0 + 1 / 10.0 + 1 / 10.5) / 4) < 1e-15);
  assert_true(stg_oracle_hits(&ranking, 0) == 0.25);
  assert_true(stg_oracle_hits(&ranking, 1) == 0.5);
  assert_true(stg_oracle_hits(&ranking, 2) == 0.75);
}

static void the_hits_are_those_of_1_3_and_10(void **state) {
  (void)state;
  assert_int_equal(stg_oracle_hits_at[0], 1);
  assert_int_equal(stg_oracle_hits_at[1], 3);
  assert_int_equal(stg_oracle_hits_at[2], 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_who_is_above_and_half_of_who_is_equal),
      cmocka_unit_test(scores_that_are_all_equal_give_the_middle),
      cmocka_unit_test(what_is_nan_is_below_all_numbers_on_both_sides),
      cmocka_unit_test(many_ranks_have_a_mean_and_hits),
      cmocka_unit_test(the_hits_are_those_of_1_3_and_10),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

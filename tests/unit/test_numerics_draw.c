/*
 * test_numerics_draw.c: random calls stay within their ranges and are the same every time.
 */
#include "tools/bench/numerics_draw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#define N_VECTORS 9
#define N_DRAWS 20000

static const stg_vector vectors[N_VECTORS] = {11, 12, 13, 14, 15, 16, 17, 18, 19};

static void numbers_cover_their_range_and_do_not_leave_it(void **state) {
  struct stg_numerics_draws draws = {.seed = 1};
  unsigned seen[5] = {0};
  float least = 3, most = -3;
  (void)state;
  for (size_t i = 0; i < N_DRAWS; i++) {
    const uint32_t below = stg_numerics_below(&draws, 5);
    const float between = stg_numerics_between(&draws, -2, 2);
    assert_true(below < 5);
    assert_true(between >= -2 && between < 2);
    seen[below]++;
    least = between < least ? between : least;
    most = between > most ? between : most;
  }
  for (size_t k = 0; k < 5; k++) { /* 4000 expected, standard deviation 57 */
    assert_true(seen[k] > 3700 && seen[k] < 4300);
  }
  assert_true(least < -1.99F && most > 1.99F);
}

/* Just below the upper end in double, on it in float32. */
static void a_number_that_rounds_up_to_the_end_is_not_drawn(void **state) {
  struct stg_numerics_draws draws = {.seed = 2};
  const float high = 1 + 0x1p-23F;
  (void)state;
  for (size_t i = 0; i < N_DRAWS; i++) {
    assert_true(stg_numerics_between(&draws, 1, high) < high);
  }
}

static void equal_seeds_draw_equal_calls(void **state) {
  struct stg_numerics_draws a = {.seed = 7}, b = {.seed = 7}, other = {.seed = 8};
  unsigned same = 0;
  (void)state;
  for (size_t i = 0; i < 100; i++) {
    stg_op_call x, y, z;
    stg_numerics_draw_call(&a, "gated_add", vectors, N_VECTORS, &x);
    stg_numerics_draw_call(&b, "gated_add", vectors, N_VECTORS, &y);
    stg_numerics_draw_call(&other, "gated_add", vectors, N_VECTORS, &z);
    assert_memory_equal(x.vectors, y.vectors, sizeof x.vectors);
    assert_memory_equal(x.params, y.params, sizeof x.params);
    same += x.params[0] == z.params[0] && x.params[1] == z.params[1];
  }
  assert_int_equal(0, same);
}

static void a_call_names_different_vectors_of_those_given(void **state) {
  struct stg_numerics_draws draws = {.seed = 3};
  unsigned first[N_VECTORS] = {0};
  (void)state;
  for (size_t i = 0; i < 1000; i++) {
    stg_op_call call;
    stg_numerics_draw_call(&draws, "swap", vectors, N_VECTORS, &call);
    assert_string_equal("swap", call.op);
    assert_int_equal(0, call.params_given);
    for (size_t k = 0; k < STG_MAX_CALL_VECTORS; k++) {
      assert_true(call.vectors[k] >= 11 && call.vectors[k] <= 19);
      for (size_t m = 0; m < k; m++) {
        assert_true(call.vectors[k] != call.vectors[m]);
      }
    }
    first[call.vectors[0] - 11]++;
  }
  for (size_t k = 0; k < N_VECTORS; k++) {
    assert_true(first[k] > 0);
  }
}

static void a_cap_has_a_lower_and_an_upper_bound(void **state) {
  struct stg_numerics_draws draws = {.seed = 4};
  (void)state;
  for (size_t i = 0; i < 1000; i++) {
    stg_op_call call;
    stg_numerics_draw_call(&draws, "projection_cap", vectors, N_VECTORS, &call);
    assert_int_equal(3, call.params_given);
    assert_true(call.params[0] >= -2 && call.params[0] < 0);
    assert_true(call.params[1] >= 0 && call.params[1] < 2);
  }
}

static void an_op_without_ranges_keeps_its_defaults(void **state) {
  struct stg_numerics_draws draws = {.seed = 5};
  stg_op_call call;
  (void)state;
  stg_numerics_draw_call(&draws, "lean", vectors, N_VECTORS, &call);
  assert_int_equal(0, call.params_given);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_cover_their_range_and_do_not_leave_it),
      cmocka_unit_test(a_number_that_rounds_up_to_the_end_is_not_drawn),
      cmocka_unit_test(equal_seeds_draw_equal_calls),
      cmocka_unit_test(a_call_names_different_vectors_of_those_given),
      cmocka_unit_test(a_cap_has_a_lower_and_an_upper_bound),
      cmocka_unit_test(an_op_without_ranges_keeps_its_defaults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_intmath.c: size arithmetic at its edges.
 */
#include "runtime/base/intmath.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void multiplies_up_to_the_largest_size(void **state) {
  (void)state;
  size_t r = 0;
  assert_true(stg_mul_size(SIZE_MAX, 1, &r));
  assert_true(r == SIZE_MAX);
  assert_true(stg_mul_size(0, SIZE_MAX, &r));
  assert_int_equal(r, 0);
  assert_true(stg_mul_size(SIZE_MAX / 3, 3, &r));
  assert_true(r == SIZE_MAX / 3 * 3);
}

static void refuses_products_and_sums_that_wrap(void **state) {
  (void)state;
  size_t r = 42;
  assert_false(stg_mul_size(SIZE_MAX / 2 + 1, 2, &r));
  assert_false(stg_mul_size(SIZE_MAX, SIZE_MAX, &r));
  assert_false(stg_add_size(SIZE_MAX, 1, &r));
  assert_int_equal(r, 42);
  assert_true(stg_add_size(SIZE_MAX - 1, 1, &r));
  assert_true(r == SIZE_MAX);
}

static void divides_and_rounds_up(void **state) {
  (void)state;
  assert_int_equal(stg_ceil_div(0, 8), 0);
  assert_int_equal(stg_ceil_div(1, 8), 1);
  assert_int_equal(stg_ceil_div(8, 8), 1);
  assert_int_equal(stg_ceil_div(9, 8), 2);
  assert_true(stg_ceil_div(SIZE_MAX, 2) == SIZE_MAX / 2 + 1);
  assert_int_equal(stg_round_up(0, 16), 0);
  assert_int_equal(stg_round_up(1, 16), 16);
  assert_int_equal(stg_round_up(16, 16), 16);
  assert_int_equal(stg_round_up(7, 3), 9);
}

static void finds_powers_of_two(void **state) {
  (void)state;
  assert_int_equal(stg_next_pow2(0), 1);
  assert_int_equal(stg_next_pow2(1), 1);
  assert_int_equal(stg_next_pow2(3), 4);
  assert_int_equal(stg_next_pow2(4), 4);
  assert_true(stg_next_pow2(((size_t)1 << 63) - 1) == (size_t)1 << 63);
  assert_true(stg_next_pow2((size_t)1 << 63) == (size_t)1 << 63);
  assert_false(stg_is_pow2(0));
  assert_true(stg_is_pow2(1));
  assert_false(stg_is_pow2(6));
  assert_true(stg_is_pow2((size_t)1 << 63));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(multiplies_up_to_the_largest_size),
      cmocka_unit_test(refuses_products_and_sums_that_wrap),
      cmocka_unit_test(divides_and_rounds_up),
      cmocka_unit_test(finds_powers_of_two),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

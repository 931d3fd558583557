/*
 * test_gram.c: dots of vector pairs, rounded once, remembered, forgotten.
 */
#include "engine/gram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"

static int open_memo(void **state) {
  struct stg_gram_memo *memo = NULL;
  *state = NULL;
  if (stg_gram_memo_create(&memo, NULL) != STG_OK) {
    return -1;
  }
  *state = memo;
  return 0;
}

static int close_memo(void **state) {
  stg_gram_memo_destroy(*state);
  return 0;
}

static float dot_of(struct stg_gram_memo *memo, const struct stg_gram_side *a,
                    const struct stg_gram_side *b, size_t length) {
  float dot = 0;
  stg_error error = STG_ERROR_INIT;
  assert_int_equal(STG_OK, stg_gram_memo_get(memo, a, b, length, &dot, &error));
  return dot;
}

static void expect_counters(struct stg_gram_memo *memo, uint64_t pairs, uint64_t hits) {
  uint64_t seen_pairs, seen_hits;
  stg_gram_memo_counters(memo, &seen_pairs, &seen_hits);
  assert_int_equal(pairs, seen_pairs);
  assert_int_equal(hits, seen_hits);
}

static void a_sum_in_float64_is_rounded_once(void **state) {
  /* in float32 the small terms would all be lost beside 2^30 */
  float a[1001], ones[1001];
  for (size_t k = 0; k < 1001; k++) {
    a[k] = k == 0 ? 0x1p30F : 1;
    ones[k] = 1;
  }
  const struct stg_gram_side left = {1, STG_F32, a}, right = {2, STG_F32, ones};
  assert_true(dot_of(*state, &left, &right, 1001) == (float)(0x1p30 + 1000));
}

/* What gram.c says of its order, a lane at a time. */
static float dot_in_order(const float *a, const float *b, size_t length) {
  double lanes[16];
  for (size_t l = 0; l < 16; l++) {
    lanes[l] = 0;
    for (size_t k = l; k < length; k += 16) {
      lanes[l] += (double)a[k] * (double)b[k];
    }
  }
  double eights[8], fours[4];
  for (size_t l = 0; l < 8; l++) {
    eights[l] = lanes[l] + lanes[l + 8];
  }
  for (size_t l = 0; l < 4; l++) {
    fours[l] = eights[l] + eights[l + 4];
  }
  return (float)((fours[0] + fours[2]) + (fours[1] + fours[3]));
}

/* Ones in one lane are lost beside 2^53 in it, and kept where they come together first. */
static void the_order_of_the_sum_is_fixed(void **state) {
  enum { LENGTH = 1600 };
  static float a[LENGTH], ones[LENGTH];
  static const size_t lengths[] = {1, 15, 16, 17, 31, 511, 512, 513, 1024, 1599, LENGTH};
  uint64_t id = 1;
  for (size_t k = 0; k < LENGTH; k++) {
    ones[k] = 1;
  }
  for (size_t at = 0; at < 32; at++) {
    for (size_t k = 0; k < LENGTH; k++) {
      a[k] = 1;
    }
    a[at] = 0x1p53F;
    a[(5 * at + 7) % 64 + 900] = -0x1p53F;
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
      const struct stg_gram_side left = {id, STG_F32, a}, right = {id + 1, STG_F32, ones};
      assert_true(dot_of(*state, &left, &right, lengths[n]) == dot_in_order(a, ones, lengths[n]));
      id += 2;
    }
  }
}

static void vectors_of_every_type_and_length_are_summed_alike(void **state) {
  enum { LENGTH = 1100 };
  static const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
  static float a[LENGTH], b[LENGTH], wide_a[LENGTH], wide_b[LENGTH];
  static uint32_t stored_a[LENGTH], stored_b[LENGTH];
  for (size_t k = 0; k < LENGTH; k++) {
    a[k] = (float)(k * 37 % 101) * 0.013F - 0.5F;
    b[k] = (float)(k * 53 % 97) * 0.011F - 0.4F;
  }
  uint64_t id = 1;
  for (size_t t = 0; t < 9; t++) {
    const stg_dtype of_a = dtypes[t / 3], of_b = dtypes[t % 3];
    stg_convert(of_a, stored_a, STG_F32, a, LENGTH);
    stg_convert(of_b, stored_b, STG_F32, b, LENGTH);
    stg_convert(STG_F32, wide_a, of_a, stored_a, LENGTH);
    stg_convert(STG_F32, wide_b, of_b, stored_b, LENGTH);
    for (size_t length = 1; length <= LENGTH; length += 31) {
      const struct stg_gram_side left = {id, of_a, stored_a}, right = {id + 1, of_b, stored_b};
      assert_true(dot_of(*state, &left, &right, length) == dot_in_order(wide_a, wide_b, length));
      assert_true(dot_of(*state, &left, &left, length) == dot_in_order(wide_a, wide_a, length));
      id += 2;
    }
  }
}

static void sixteen_bit_vectors_are_widened(void **state) {
  uint16_t a[5], b[5];
  for (size_t k = 0; k < 5; k++) {
    a[k] = stg_bf16_from_f32((float)k + 0.5F);
    b[k] = stg_f16_from_f32((float)k - 2);
  }
  const struct stg_gram_side left = {1, STG_BF16, a}, right = {2, STG_F16, b};
  /* 0.5*-2 + 1.5*-1 + 2.5*0 + 3.5*1 + 4.5*2 */
  assert_true(dot_of(*state, &left, &right, 5) == 10);
}

static void both_orders_are_one_pair(void **state) {
  const float a[] = {1, 2, 3}, b[] = {-1, 5, 0.25F};
  const struct stg_gram_side left = {9, STG_F32, a}, right = {4, STG_F32, b};
  const float dot = dot_of(*state, &left, &right, 3);
  expect_counters(*state, 1, 0);
  assert_true(dot == dot_of(*state, &right, &left, 3));
  expect_counters(*state, 1, 1);
  assert_true(dot_of(*state, &left, &left, 3) == 14);
  expect_counters(*state, 2, 1);
}

static void a_vector_is_forgotten_with_all_its_pairs(void **state) {
  const float a[] = {1}, b[] = {2}, c[] = {3};
  const struct stg_gram_side sides[] = {{1, STG_F32, a}, {2, STG_F32, b}, {3, STG_F32, c}};
  for (size_t i = 0; i < 3; i++) {
    for (size_t j = i; j < 3; j++) {
      dot_of(*state, &sides[i], &sides[j], 1);
    }
  }
  expect_counters(*state, 6, 0);
  stg_gram_memo_forget(*state, 2);
  expect_counters(*state, 3, 0);
  stg_gram_memo_forget(*state, 2);
  stg_gram_memo_forget(*state, 99);
  expect_counters(*state, 3, 0);
  assert_true(dot_of(*state, &sides[0], &sides[2], 1) == 3);
  expect_counters(*state, 3, 1);
  assert_true(dot_of(*state, &sides[1], &sides[2], 1) == 6);
  expect_counters(*state, 4, 1);
}

static void thousands_of_pairs_are_found_again(void **state) {
  enum { N = 80 };
  float values[N];
  for (size_t i = 0; i < N; i++) {
    values[i] = (float)i;
  }
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < N; i++) {
      for (size_t j = i; j < N; j++) {
        const struct stg_gram_side left = {i + 1, STG_F32, &values[i]};
        const struct stg_gram_side right = {j + 1, STG_F32, &values[j]};
        assert_true(dot_of(*state, &left, &right, 1) == (float)(i * j));
      }
    }
    expect_counters(*state, (uint64_t)N * (N + 1) / 2, (uint64_t)round * N * (N + 1) / 2);
  }
}

/* Vectors come and go beside some that stay: as many pairs as vectors alive, each found again. */
static void many_vectors_are_forgotten_beside_those_that_stay(void **state) {
  enum { STAY = 40, COME_AND_GO = 20000 };
  const float two[] = {2}, three[] = {3};
  for (uint64_t id = 1; id <= STAY; id++) {
    const struct stg_gram_side side = {id, STG_F32, two};
    assert_true(dot_of(*state, &side, &side, 1) == 4);
  }
  for (uint64_t k = 0; k < COME_AND_GO; k++) {
    const struct stg_gram_side stays = {1 + k % STAY, STG_F32, two};
    const struct stg_gram_side goes = {STAY + 1 + k, STG_F32, three};
    assert_true(dot_of(*state, &goes, &stays, 1) == 6);
    assert_true(dot_of(*state, &stays, &stays, 1) == 4);
    if (k >= 300) {
      stg_gram_memo_forget(*state, goes.id - 300);
    }
  }
  expect_counters(*state, STAY + 300, COME_AND_GO);
  for (uint64_t k = COME_AND_GO - 300; k < COME_AND_GO; k++) {
    const struct stg_gram_side stays = {1 + k % STAY, STG_F32, two};
    const struct stg_gram_side goes = {STAY + 1 + k, STG_F32, three};
    assert_true(dot_of(*state, &stays, &goes, 1) == 6);
  }
  expect_counters(*state, STAY + 300, COME_AND_GO + 300);
}

static void a_memo_that_cannot_grow_says_so_and_stays_right(void **state) {
  const float one[] = {1};
  float dot = 77;
  stg_error error = STG_ERROR_INIT;
  uint64_t id = 1;
  stg_status status = STG_OK;
  stg_alloc_fail_at(1);
  while (status == STG_OK && id < 10000) {
    const struct stg_gram_side side = {id, STG_F32, one};
    dot = 77;
    status = stg_gram_memo_get(*state, &side, &side, 1, &dot, &error);
    id++;
  }
  stg_gram_memo_forget(*state, 1); /* no memory for that either: nothing lost */
  stg_alloc_fail_at(0);
  assert_int_equal(STG_E_NO_MEMORY, status);
  assert_true(dot == 77);
  const struct stg_gram_side first = {1, STG_F32, one}, last = {id, STG_F32, one};
  assert_true(dot_of(*state, &first, &first, 1) == 1);
  assert_true(dot_of(*state, &last, &last, 1) == 1);
}

#define MEMO_TEST(test) cmocka_unit_test_setup_teardown(test, open_memo, close_memo)

int main(void) {
  const struct CMUnitTest tests[] = {
      MEMO_TEST(a_sum_in_float64_is_rounded_once),
      MEMO_TEST(the_order_of_the_sum_is_fixed),
      MEMO_TEST(vectors_of_every_type_and_length_are_summed_alike),
      MEMO_TEST(sixteen_bit_vectors_are_widened),
      MEMO_TEST(both_orders_are_one_pair),
      MEMO_TEST(a_vector_is_forgotten_with_all_its_pairs),
      MEMO_TEST(thousands_of_pairs_are_found_again),
      MEMO_TEST(many_vectors_are_forgotten_beside_those_that_stay),
      MEMO_TEST(a_memo_that_cannot_grow_says_so_and_stays_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

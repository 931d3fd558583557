/*
 * test_random.c: Philox against its published answers, the normal values against theory, and the
 * bits that must never change.
 */
#include "specs/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void matches_the_published_philox_answers(void **state) {
  (void)state;
  /* Random123, kat_vectors: philox4x32 10 rounds */
  static const struct {
    uint32_t counter[4];
    uint32_t key[2];
    uint32_t answer[4];
  } cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint32_t words[4];
    stg_philox4x32(cases[i].counter, cases[i].key, words);
    assert_memory_equal(words, cases[i].answer, sizeof words);
  }
}

/* The normal distribution function by the C library's erfc, for comparison only. */
static double distribution(double z) {
  return 0.5 * erfc(-z / sqrt(2.0));
}

static void inverts_the_normal_distribution(void **state) {
  (void)state;
  for (uint64_t word = 0; word <= UINT32_MAX; word += 104729) {
    double p = ((double)word + 0.5) / 4294967296.0;
    double z = stg_inverse_normal((uint32_t)word);
    double tail = p < 0.5 ? p : 1.0 - p;
    assert_true(fabs(distribution(-fabs(z)) - tail) <= 1e-13 * tail + 1e-16);
    assert_true((z < 0) == (p < 0.5));
  }
}

static void is_odd_finite_and_rising_over_the_branches(void **state) {
  (void)state;
  /* around both ends of the central branch, and the extremes */
  static const uint32_t edges[] = {0, 4, 59, 60, 322122546, 322122547, 322122548, 2147483646};
  double last = -10.0;
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
    double z = stg_inverse_normal(edges[i]);
    assert_true(z > last && z < 0.0 && z > -6.34);
    assert_true(stg_inverse_normal(UINT32_MAX - edges[i]) == -z);
    last = z;
  }
}

static int compare_floats(const void *a, const void *b) {
  float left = *(const float *)a;
  float right = *(const float *)b;
  return (left > right) - (left < right);
}

static void has_the_moments_and_the_shape_of_a_normal_sample(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  float *values = malloc(COUNT * sizeof *values);
  assert_non_null(values);
  stg_random_normal(42, 0, 0, 1.0f, values, COUNT);
  double mean = 0.0;
  double square = 0.0;
  double next = 0.0;
  for (size_t i = 0; i < COUNT; i++) {
    mean += (double)values[i] / COUNT;
    square += (double)values[i] * (double)values[i] / COUNT;
    next += i > 0 ? (double)values[i] * (double)values[i - 1] / COUNT : 0.0;
  }
  /* five standard errors */
  assert_true(fabs(mean) < 5.0 / sqrt(COUNT));
  assert_true(fabs(square - 1.0) < 5.0 * sqrt(2.0 / COUNT));
  assert_true(fabs(next) < 5.0 / sqrt(COUNT));
  qsort(values, COUNT, sizeof *values, compare_floats);
  double worst = 0.0;
  for (size_t i = 0; i < COUNT; i++) {
    worst = fmax(worst, fabs(distribution((double)values[i]) - (double)i / COUNT));
  }
  /* Kolmogorov-Smirnov at one in a million */
  assert_true(worst < 2.7 / sqrt(COUNT));
  free(values);
}

static void element_depends_on_its_index_alone(void **state) {
  (void)state;
  float whole[67];
  stg_random_normal(7, 3, 1000, 2.0f, whole, 67);
  for (size_t first = 0; first < 67; first++) {
    float part[67];
    size_t count = 67 - first;
    stg_random_normal(7, 3, 1000 + first, 2.0f, part, count);
    assert_memory_equal(part, whole + first, count * sizeof *part);
  }
}

static void streams_and_seeds_differ(void **state) {
  (void)state;
  float values[4][8];
  stg_random_normal(1, 0, 0, 1.0f, values[0], 8);
  stg_random_normal(2, 0, 0, 1.0f, values[1], 8);
  stg_random_normal(1, 1, 0, 1.0f, values[2], 8);
  stg_random_normal((uint64_t)1 << 32, (uint64_t)1 << 32, 0, 1.0f, values[3], 8);
  for (int i = 0; i < 4; i++) {
    for (int k = i + 1; k < 4; k++) {
      assert_memory_not_equal(values[i], values[k], sizeof values[i]);
    }
  }
}

/* Workloads name their numbers by seed, so these bits are part of the format. */
static void keeps_its_bits(void **state) {
  (void)state;
  static const struct {
    uint64_t seed;
    uint64_t stream;
    uint64_t index;
    uint32_t bits;
  } pinned[] = {
      {0u, 0u, 0u, 0xbe82fa50},
      {0u, 0u, 1u, 0x3f96bb4f},
      {1u, 0u, 0u, 0x3f9d2c14},
      {1u, 4294967296u, 0u, 0xbfbad356},
      {1u, 4294967296u, 8388607u, 0xbf09121a},
      {7u, 31u, 4095u, 0x3dbe7a07},
      {11u, 15u, 17u, 0xbfec9e7c},
      {9007199254740991u, 8589934592u, 1099511627779u, 0xbf913274},
      {1u, 0u, 7u, 0x3ecdbf6b},
  };
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
    float value = 0.0f;
    uint32_t bits = 0;
    stg_random_normal(pinned[i].seed, pinned[i].stream, pinned[i].index, 1.0f, &value, 1);
    memcpy(&bits, &value, sizeof bits);
    assert_int_equal(bits, pinned[i].bits);
  }
}

static void scale_multiplies_before_the_one_rounding(void **state) {
  (void)state;
  float plain[16];
  float scaled[16];
  stg_random_normal(5, 0, 0, 1.0f, plain, 16);
  stg_random_normal(5, 0, 0, 0.5f, scaled, 16);
  for (int i = 0; i < 16; i++) {
    assert_true(scaled[i] == 0.5f * plain[i]);
  }
}

/* Worked out from the words of Philox with another program. */
static void integers_keep_their_range_and_their_values(void **state) {
  (void)state;
  static const struct {
    uint64_t seed;
    uint64_t stream;
    uint64_t index;
    int64_t min, max, value;
  } pinned[] = {
      {3U, 38654705664U, 0U, 64, 900, 475},
      {3U, 38654705664U, 1U, 64, 900, 223},
      {3U, 38654705664U, 2U, 64, 900, 324},
      {3U, 38654705664U, 3U, 64, 900, 176},
      {3U, 38654705664U, 7U, 64, 900, 686},
      {0U, 0U, 0U, 0, 4294967295, 1713891541},
      {9007199254740991U, 38654705664U, 1099511627779U, -5, 5, 3},
  };
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
    assert_int_equal(stg_random_between(pinned[i].seed, pinned[i].stream, pinned[i].index,
                                        pinned[i].min, pinned[i].max),
                     pinned[i].value);
  }
  for (uint64_t i = 0; i < 64; i++) {
    assert_int_equal(stg_random_between(1, 2, i, -7, -7), -7);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matches_the_published_philox_answers),
      cmocka_unit_test(inverts_the_normal_distribution),
      cmocka_unit_test(is_odd_finite_and_rising_over_the_branches),
      cmocka_unit_test(has_the_moments_and_the_shape_of_a_normal_sample),
      cmocka_unit_test(element_depends_on_its_index_alone),
      cmocka_unit_test(streams_and_seeds_differ),
      cmocka_unit_test(keeps_its_bits),
      cmocka_unit_test(integers_keep_their_range_and_their_values),
      cmocka_unit_test(scale_multiplies_before_the_one_rounding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

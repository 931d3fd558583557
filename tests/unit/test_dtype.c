/*
 * test_dtype.c: sizes, names, and conversions against a slow exact reference.
 *
 * The reference finds the two neighbours of a value in the table of all finite values of a type
 * and compares with their midpoint, which double holds exactly.
 */
#include "runtime/base/dtype.h"

#include <float.h>
#include <math.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A 16-bit type: how to widen, and the bit pattern of +infinity (one past the largest finite). */
struct half_type {
  float (*widen)(uint16_t bits);
  uint16_t (*narrow)(float x);
  uint16_t infinity;
  uint16_t quiet;
};

static float widen_bf16(uint16_t bits) {
  return stg_bf16_to_f32(bits);
}
static uint16_t narrow_bf16(float x) {
  return stg_bf16_from_f32(x);
}
static const struct half_type f16 = {stg_f16_to_f32, stg_f16_from_f32, 0x7c00, 0x0200};
static const struct half_type bf16 = {widen_bf16, narrow_bf16, 0x7f80, 0x0040};

/* The value of a positive pattern; infinity counts as the next value of the finite series. */
static double series_value(const struct half_type *type, uint16_t bits) {
  if (bits != type->infinity) {
    return (double)type->widen(bits);
  }
  double last = (double)type->widen((uint16_t)(bits - 1));
  return last + (last - (double)type->widen((uint16_t)(bits - 2)));
}

static uint16_t reference_narrow(const struct half_type *type, float x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  double magnitude = fabs((double)x);
  uint16_t below = 0;
  uint16_t above = type->infinity;
  if (magnitude >= series_value(type, above)) {
    return (uint16_t)(sign | above);
  }
  while (above - below > 1) {
    uint16_t middle = (uint16_t)((below + above) / 2);
    if (series_value(type, middle) <= magnitude) {
      below = middle;
    } else {
      above = middle;
    }
  }
  double midpoint = (series_value(type, below) + series_value(type, above)) / 2;
  bool up = magnitude > midpoint || (magnitude == midpoint && (below & 1) != 0);
  return (uint16_t)(sign | (up ? above : below));
}

static void assert_narrows_like_reference(const struct half_type *type, uint32_t bits) {
  float x = stg_f32_from_bits(bits);
  if (!isnan(x) && type->narrow(x) != reference_narrow(type, x)) {
    fail_msg("0x%08x narrows to 0x%04x, not 0x%04x", bits, type->narrow(x),
             reference_narrow(type, x));
  }
}

/* Every value of the type, every midpoint, and the f32 on either side of both. */
static void check_all_boundaries(const struct half_type *type) {
  for (uint32_t bits = 0; bits < type->infinity; bits++) {
    double low = series_value(type, (uint16_t)bits);
    double high = series_value(type, (uint16_t)(bits + 1));
    const float around[] = {(float)low, (float)((low + high) / 2)};
    for (size_t i = 0; i < 2; i++) {
      for (int step = -1; step <= 1; step++) {
        uint32_t near = (stg_f32_bits(around[i]) + (uint32_t)step) & 0x7fffffffu;
        assert_narrows_like_reference(type, near);
        assert_narrows_like_reference(type, near | 0x80000000u);
      }
    }
  }
}

/* A walk through all of f32, prime stride. */
static void check_samples(const struct half_type *type) {
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 2203) {
    assert_narrows_like_reference(type, (uint32_t)bits);
  }
}

static void check_round_trip(const struct half_type *type) {
  for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
    bool nan = (bits & 0x7fffu) > type->infinity;
    uint16_t expected = (uint16_t)(nan ? bits | type->quiet : bits);
    float wide = type->widen((uint16_t)bits);
    assert_int_equal(isnan(wide) != 0, nan);
    assert_int_equal(type->narrow(wide), expected);
  }
}

static void f16_survives_the_way_through_f32(void **state) {
  (void)state;
  check_round_trip(&f16);
}

static void bf16_survives_the_way_through_f32(void **state) {
  (void)state;
  check_round_trip(&bf16);
}

static void f16_rounds_to_nearest_even_at_every_boundary(void **state) {
  (void)state;
  check_all_boundaries(&f16);
}

static void bf16_rounds_to_nearest_even_at_every_boundary(void **state) {
  (void)state;
  check_all_boundaries(&bf16);
}

static void f16_rounds_all_of_f32_like_the_reference(void **state) {
  (void)state;
  check_samples(&f16);
}

static void bf16_rounds_all_of_f32_like_the_reference(void **state) {
  (void)state;
  check_samples(&bf16);
}

static void f16_has_the_values_of_its_definition(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x7c00; bits++) {
    int exponent = (int)(bits >> 10);
    double fraction = (double)(bits & 0x3ffu);
    double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    assert_true((double)stg_f16_to_f32((uint16_t)bits) == value);
    assert_true((double)stg_f16_to_f32((uint16_t)(bits | 0x8000u)) == -value);
  }
  assert_true(stg_f16_to_f32(0x7c00) == INFINITY);
  assert_true(stg_f16_to_f32(0xfc00) == -INFINITY);
}

static void overflow_becomes_infinity_and_no_less(void **state) {
  (void)state;
  assert_int_equal(stg_f16_from_f32(65519.996F), 0x7bff);
  assert_int_equal(stg_f16_from_f32(65520.0F), 0x7c00);
  assert_int_equal(stg_f16_from_f32(-1e30F), 0xfc00);
  assert_int_equal(stg_f16_from_f32(-INFINITY), 0xfc00);
  assert_int_equal(stg_bf16_from_f32(FLT_MAX), 0x7f80);
  assert_int_equal(stg_bf16_from_f32(0x1.fefffep127F), 0x7f7f);
}

static void nan_stays_a_quiet_nan_of_its_sign(void **state) {
  (void)state;
  /* payloads that a plain shift would turn into infinity */
  const uint32_t nans[] = {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x7f801fffu};
  for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
    for (uint32_t sign = 0; sign <= 0x80000000u; sign += 0x80000000u) {
      float x = stg_f32_from_bits(nans[i] | sign);
      uint16_t half = stg_f16_from_f32(x);
      uint16_t brain = stg_bf16_from_f32(x);
      assert_int_equal(half & 0x7e00, 0x7e00);
      assert_int_equal(brain & 0x7fc0, 0x7fc0);
      assert_int_equal(half >> 15, sign >> 31);
      assert_int_equal(brain >> 15, sign >> 31);
      if (sign != 0) {
        break;
      }
    }
  }
}

static void names_sizes_and_limits_of_every_type(void **state) {
  (void)state;
  const struct {
    stg_dtype dtype;
    const char *name;
    size_t bytes;
    double unit, tiny, max;
  } rows[] = {
      {STG_BF16, "bf16", 2, ldexp(1, -8), (double)stg_bf16_to_f32(1),
       (double)stg_bf16_to_f32(0x7f7f)},
      {STG_F16, "f16", 2, ldexp(1, -11), (double)stg_f16_to_f32(1), (double)stg_f16_to_f32(0x7bff)},
      {STG_F32, "f32", 4, ldexp(1, -24), (double)stg_f32_from_bits(1), (double)FLT_MAX},
      {STG_DTYPE_NONE, "none", 0, 0, 0, 0},
      {(stg_dtype)77, "none", 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_string_equal(stg_dtype_name(rows[i].dtype), rows[i].name);
    assert_int_equal(stg_dtype_bytes(rows[i].dtype), rows[i].bytes);
    assert_true(stg_dtype_unit(rows[i].dtype) == rows[i].unit);
    assert_true(stg_dtype_tiny(rows[i].dtype) == rows[i].tiny);
    assert_true(stg_dtype_max(rows[i].dtype) == rows[i].max);
  }
}

static void parses_names_and_nothing_else(void **state) {
  (void)state;
  stg_dtype dtype = STG_DTYPE_NONE;
  assert_true(stg_dtype_parse("bf16", &dtype));
  assert_int_equal(dtype, STG_BF16);
  assert_true(stg_dtype_parse("f32", &dtype));
  assert_int_equal(dtype, STG_F32);
  const char *const bad[] = {"", "F16", "f16 ", "f64", "none"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_false(stg_dtype_parse(bad[i], &dtype));
    assert_int_equal(dtype, STG_F32);
  }
}

static void loads_and_stores_single_elements(void **state) {
  (void)state;
  const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
  for (size_t i = 0; i < 3; i++) {
    unsigned char data[12] = {0};
    stg_store_f32(dtypes[i], data, 1, -1.5F);
    assert_true(stg_load_f32(dtypes[i], data, 0) == 0.0F);
    assert_true(stg_load_f32(dtypes[i], data, 1) == -1.5F);
    assert_true(stg_load_f32(dtypes[i], data, 2) == 0.0F);
  }
}

/* Lengths on both sides of the chunk; the element after the last one must stay. */
static void converts_between_any_two_types_rounding_once(void **state) {
  (void)state;
  enum { MAX_ELEMS = 600 };
  const stg_dtype dtypes[] = {STG_BF16, STG_F16, STG_F32};
  const size_t counts[] = {0, 1, 255, 256, 257, 599};
  for (size_t k = 0; k < (size_t)9 * 6; k++) {
    stg_dtype to = dtypes[k % 3];
    stg_dtype from = dtypes[k / 3 % 3];
    size_t count = counts[k / 9];
    float src[MAX_ELEMS];
    float dst[MAX_ELEMS];
    memset(dst, 0x55, sizeof dst);
    for (size_t i = 0; i < MAX_ELEMS; i++) {
      stg_store_f32(from, src, i, (float)i * 1.00390625F - 3.3F);
    }
    stg_convert(to, dst, from, src, count);
    for (size_t i = 0; i < count; i++) {
      float one[1];
      stg_store_f32(to, one, 0, stg_load_f32(from, src, i));
      assert_true(stg_load_f32(to, dst, i) == stg_load_f32(to, one, 0));
    }
    assert_int_equal(((unsigned char *)dst)[count * stg_dtype_bytes(to)], 0x55);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f16_survives_the_way_through_f32),
      cmocka_unit_test(bf16_survives_the_way_through_f32),
      cmocka_unit_test(f16_rounds_to_nearest_even_at_every_boundary),
      cmocka_unit_test(bf16_rounds_to_nearest_even_at_every_boundary),
      cmocka_unit_test(f16_rounds_all_of_f32_like_the_reference),
      cmocka_unit_test(bf16_rounds_all_of_f32_like_the_reference),
      cmocka_unit_test(f16_has_the_values_of_its_definition),
      cmocka_unit_test(overflow_becomes_infinity_and_no_less),
      cmocka_unit_test(nan_stays_a_quiet_nan_of_its_sign),
      cmocka_unit_test(names_sizes_and_limits_of_every_type),
      cmocka_unit_test(parses_names_and_nothing_else),
      cmocka_unit_test(loads_and_stores_single_elements),
      cmocka_unit_test(converts_between_any_two_types_rounding_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_key.c: length-prefixed material and its key.
 */
#include "runtime/base/key.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void lays_a_field_down_as_name_nul_length_value(void **state) {
  (void)state;
  struct stg_strbuf material = {0};
  stg_material_text(&material, "arch", "sm_90");
  const char expected[] = "arch\0\x05\0\0\0\0\0\0\0sm_90";
  assert_int_equal(material.len, sizeof expected - 1);
  assert_memory_equal(material.data, expected, sizeof expected - 1);
  stg_strbuf_finish(&material);
}

static void lays_numbers_down_little_endian(void **state) {
  (void)state;
  struct stg_strbuf material = {0};
  stg_material_u64(&material, "n", 0x0102030405060708u);
  const char expected[] = "n\0\x08\0\0\0\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01";
  assert_int_equal(material.len, sizeof expected - 1);
  assert_memory_equal(material.data, expected, sizeof expected - 1);
  stg_strbuf_finish(&material);
}

static void reads_its_fields_back_in_order(void **state) {
  (void)state;
  struct stg_strbuf material = {0};
  struct stg_material_view field;
  size_t cursor = 0;
  stg_material_text(&material, "kernel", "steer");
  stg_material_text(&material, "", "");
  stg_material_field(&material, "bytes", "\0\1\0", 3);

  assert_true(stg_material_next(material.data, material.len, &cursor, &field));
  assert_string_equal(field.name, "kernel");
  assert_int_equal(field.len, 5);
  assert_memory_equal(field.value, "steer", 5);
  assert_true(stg_material_next(material.data, material.len, &cursor, &field));
  assert_string_equal(field.name, "");
  assert_int_equal(field.len, 0);
  assert_true(stg_material_next(material.data, material.len, &cursor, &field));
  assert_string_equal(field.name, "bytes");
  assert_int_equal(field.len, 3);
  assert_memory_equal(field.value, "\0\1\0", 3);
  assert_false(stg_material_next(material.data, material.len, &cursor, &field));
  assert_int_equal(cursor, material.len);
  stg_strbuf_finish(&material);
}

static void stops_at_a_field_that_was_cut_anywhere(void **state) {
  (void)state;
  struct stg_strbuf material = {0};
  stg_material_text(&material, "options", "--std=c++17");
  for (size_t len = 1; len < material.len; len++) {
    struct stg_material_view field;
    size_t cursor = 0;
    assert_false(stg_material_next(material.data, len, &cursor, &field));
    assert_int_equal(cursor, 0);
  }
  stg_strbuf_finish(&material);
}

static void refuses_a_length_beyond_the_end(void **state) {
  (void)state;
  struct stg_material_view field;
  size_t cursor = 0;
  const char huge[] = "n\0\xff\xff\xff\xff\xff\xff\xff\xffvalue";
  assert_false(stg_material_next(huge, sizeof huge - 1, &cursor, &field));
  assert_int_equal(cursor, 0);
}

/* Two fields, and one whose value is all that the second adds to the first. */
static void keeps_lists_apart_that_join_to_the_same_text(void **state) {
  (void)state;
  struct stg_strbuf one = {0};
  struct stg_strbuf two = {0};
  const char joined[] = "-ao\0-b";
  stg_material_field(&one, "o", joined, sizeof joined - 1);
  stg_material_text(&two, "o", "-a");
  stg_material_text(&two, "o", "-b");
  assert_false(stg_key_equal(stg_key_of(one.data, one.len), stg_key_of(two.data, two.len)));
  stg_strbuf_finish(&one);
  stg_strbuf_finish(&two);
}

static void hashes_as_xxh3_128_does(void **state) {
  (void)state;
  char hex[STG_KEY_HEX_CHARS + 1];
  /* the published test value of the empty input with seed 0 */
  stg_key_hex(stg_key_of("", 0), hex);
  assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

static void writes_and_parses_hex(void **state) {
  (void)state;
  struct stg_key key = {.high = 0x0123456789abcdefu, .low = 0xfedcba9876543210u};
  struct stg_key parsed = {0};
  char hex[STG_KEY_HEX_CHARS + 1];
  stg_key_hex(key, hex);
  assert_string_equal(hex, "0123456789abcdeffedcba9876543210");
  assert_true(stg_key_parse(hex, &parsed));
  assert_true(stg_key_equal(key, parsed));
}

static void refuses_hex_that_is_not_exactly_a_key(void **state) {
  (void)state;
  const char *const bad[] = {
      "",
      "0123456789abcdeffedcba987654321",
      "0123456789abcdeffedcba98765432100",
      "0123456789ABCDEFfedcba9876543210",
      "0123456789abcdeffedcba987654321g",
      "0123456789abcdeffedcba987654321 ",
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct stg_key key = {.high = 7, .low = 8};
    assert_false(stg_key_parse(bad[i], &key));
    assert_true(key.high == 7 && key.low == 8);
  }
}

static void orders_by_the_high_half_first(void **state) {
  (void)state;
  struct stg_key a = {.high = 1, .low = UINT64_MAX};
  struct stg_key b = {.high = 2, .low = 0};
  struct stg_key c = {.high = 2, .low = 1};
  assert_true(stg_key_compare(a, b) < 0);
  assert_true(stg_key_compare(b, a) > 0);
  assert_true(stg_key_compare(b, c) < 0);
  assert_true(stg_key_compare(c, b) > 0);
  assert_int_equal(stg_key_compare(c, c), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lays_a_field_down_as_name_nul_length_value),
      cmocka_unit_test(lays_numbers_down_little_endian),
      cmocka_unit_test(reads_its_fields_back_in_order),
      cmocka_unit_test(stops_at_a_field_that_was_cut_anywhere),
      cmocka_unit_test(refuses_a_length_beyond_the_end),
      cmocka_unit_test(keeps_lists_apart_that_join_to_the_same_text),
      cmocka_unit_test(hashes_as_xxh3_128_does),
      cmocka_unit_test(writes_and_parses_hex),
      cmocka_unit_test(refuses_hex_that_is_not_exactly_a_key),
      cmocka_unit_test(orders_by_the_high_half_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_strbuf.c: growth, sticky failure, JSON strings, and numbers that read back equal.
 */
#include "runtime/base/strbuf.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tests/support/quick.h"
#include "tests/support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void is_an_empty_text_at_first(void **state) {
  (void)state;
  struct stg_strbuf sb = {0};
  assert_string_equal(stg_strbuf_text(&sb), "");
  assert_int_equal(stg_strbuf_status(&sb, NULL), STG_OK);
  stg_strbuf_finish(&sb);
}

static void appends_at_every_size_around_its_capacity(void **state) {
  (void)state;
  struct stg_strbuf probe = {0};
  stg_strbuf_char(&probe, 'x');
  const size_t cap = probe.capacity;
  stg_strbuf_finish(&probe);
  const size_t sizes[] = {0, 1, cap - 2, cap - 1, cap, cap + 1, 10 * cap};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct stg_strbuf sb = {0};
    char *text = calloc(1, sizes[i] + 1);
    memset(text, 'a', sizes[i]);
    stg_strbuf_str(&sb, text);
    stg_strbuf_printf(&sb, "%s", text);
    stg_strbuf_char(&sb, '!');
    assert_int_equal(stg_strbuf_status(&sb, NULL), STG_OK);
    assert_int_equal(sb.len, 2 * sizes[i] + 1);
    assert_int_equal(strspn(sb.data, "a"), 2 * sizes[i]);
    assert_string_equal(sb.data + 2 * sizes[i], "!");
    free(text);
    stg_strbuf_finish(&sb);
  }
}

static void keeps_bytes_that_are_no_text(void **state) {
  (void)state;
  struct stg_strbuf sb = {0};
  stg_strbuf_mem(&sb, "a\0b", 3);
  stg_strbuf_mem(&sb, NULL, 0);
  assert_int_equal(sb.len, 3);
  assert_memory_equal(sb.data, "a\0b\0", 4);
  stg_strbuf_finish(&sb);
}

static void fails_for_good_when_the_heap_does(void **state) {
  (void)state;
  struct stg_strbuf sb = {0};
  stg_error err = STG_ERROR_INIT;
  stg_strbuf_str(&sb, "kept");
  stg_alloc_fail_at(1);
  stg_strbuf_printf(&sb, "%1000d", 1);
  stg_alloc_fail_at(0);
  stg_strbuf_str(&sb, "late");
  assert_string_equal(stg_strbuf_text(&sb), "kept");
  assert_int_equal(stg_strbuf_status(&sb, &err), STG_E_NO_MEMORY);
  assert_string_equal(err.message, "out of memory: a text of 4 bytes cannot grow");
  assert_null(stg_strbuf_take(&sb));
  assert_int_equal(stg_strbuf_status(&sb, NULL), STG_OK);
}

static void refuses_lengths_that_wrap(void **state) {
  (void)state;
  struct stg_strbuf sb = {0};
  stg_strbuf_char(&sb, 'x');
  stg_strbuf_mem(&sb, "", SIZE_MAX - 1);
  assert_true(sb.failed);
  stg_strbuf_finish(&sb);
}

static void hands_its_text_over_and_starts_again(void **state) {
  (void)state;
  struct stg_strbuf sb = {0};
  stg_strbuf_str(&sb, "one");
  char *one = stg_strbuf_take(&sb);
  stg_strbuf_str(&sb, "two");
  assert_string_equal(one, "one");
  assert_string_equal(stg_strbuf_text(&sb), "two");
  stg_free(one);
  stg_strbuf_finish(&sb);
}

static void hands_over_an_empty_text_too(void **state) {
  (void)state;
  struct stg_strbuf sb = {0};
  char *text = stg_strbuf_take(&sb);
  assert_string_equal(text, "");
  stg_free(text);
}

static void assert_json(const char *text, const char *expected) {
  struct stg_strbuf sb = {0};
  stg_strbuf_json(&sb, text);
  assert_string_equal(stg_strbuf_text(&sb), expected);
  stg_strbuf_finish(&sb);
}

static void escapes_what_json_must(void **state) {
  (void)state;
  assert_json("", "\"\"");
  assert_json("plain / text", "\"plain / text\"");
  assert_json("a\"b\\c", "\"a\\\"b\\\\c\"");
  assert_json("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
  assert_json("\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"");
}

static void keeps_utf8_and_replaces_what_is_none(void **state) {
  (void)state;
  assert_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  assert_json("a\xff"
              "b",
              "\"a\xef\xbf\xbd"
              "b\"");
  assert_json("\x80", "\"\xef\xbf\xbd\"");                                 /* a lone continuation */
  assert_json("\xc3", "\"\xef\xbf\xbd\"");                                 /* cut short */
  assert_json("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* overlong */
  assert_json("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* a surrogate */
  assert_json("\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
  assert_json("\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void assert_double(double value, const char *expected) {
  struct stg_strbuf sb = {0};
  stg_strbuf_double(&sb, value);
  assert_string_equal(stg_strbuf_text(&sb), expected);
  stg_strbuf_finish(&sb);
}

static void assert_float(float value, const char *expected) {
  struct stg_strbuf sb = {0};
  stg_strbuf_float(&sb, value);
  assert_string_equal(stg_strbuf_text(&sb), expected);
  stg_strbuf_finish(&sb);
}

static void prints_the_shortest_number(void **state) {
  (void)state;
  assert_double(0, "0");
  assert_double(-0.0, "-0");
  assert_double(0.1, "0.1");
  assert_double(0.1 + 0.2, "0.30000000000000004");
  assert_double(1e300, "1e+300");
  assert_double(DBL_MAX, "1.7976931348623157e+308");
  assert_double(0x1p-1074, "5e-324");
  assert_double(123456789, "123456789");
  assert_float(0.1F, "0.1");
  assert_float(1.0F / 3.0F, "0.33333334");
  assert_float(FLT_MAX, "3.4028235e+38");
  assert_float(0x1p-149F, "1e-45");
  assert_float(-2.5F, "-2.5");
}

static void names_what_is_not_finite(void **state) {
  (void)state;
  assert_float(INFINITY, "inf");
  assert_float(-INFINITY, "-inf");
  assert_float(NAN, "nan");
  assert_float(-NAN, "nan");
  assert_double((double)INFINITY, "inf");
}

static void reads_every_printed_number_back_equal(void **state) {
  (void)state;
  uint64_t bits = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < (test_is_quick() ? 2000 : 20000); i++) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    double value;
    memcpy(&value, &bits, sizeof value);
    float narrow = stg_f32_from_bits((uint32_t)(bits >> 32));
    struct stg_strbuf sb = {0};
    if (isfinite(value)) {
      stg_strbuf_double(&sb, value);
      assert_true(strtod(stg_strbuf_text(&sb), NULL) == value);
    }
    stg_strbuf_finish(&sb);
    if (isfinite(narrow)) {
      stg_strbuf_float(&sb, narrow);
      assert_true(strtof(stg_strbuf_text(&sb), NULL) == narrow);
    }
    stg_strbuf_finish(&sb);
  }
}

/* Builds a locale with a decimal comma for this process alone; skips where localedef cannot. */
static void prints_a_point_whatever_the_locale(void **state) {
  char command[8192];
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' >/dev/null 2>&1",
           temp_path(state, "de_DE.UTF-8"));
  // NOLINTNEXTLINE(cert-env33-c): a command of the test's own
  if (system(command) != 0 || setenv("LOCPATH", *state, 1) != 0 ||
      setlocale(LC_ALL, "de_DE.UTF-8") == NULL) {
    skip();
  }
  char comma[16];
  snprintf(comma, sizeof comma, "%g", 0.5);
  struct stg_strbuf sb = {0};
  stg_strbuf_double(&sb, 0.1);
  stg_strbuf_char(&sb, ' ');
  stg_strbuf_double(&sb, -1234567.25e-20);
  stg_strbuf_char(&sb, ' ');
  stg_strbuf_float(&sb, 1.5F);
  setlocale(LC_ALL, "C");
  unsetenv("LOCPATH");
  assert_string_equal(comma, "0,5"); /* the locale was in force */
  assert_string_equal(stg_strbuf_text(&sb), "0.1 -1.23456725e-14 1.5");
  stg_strbuf_finish(&sb);
}

static void sizes_read_as_people_write_them(void **state) {
  (void)state;
  static const struct {
    uint64_t bytes;
    const char *text;
  } sizes[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1.0 KiB"},
      {112793, "110.1 KiB"},
      {UINT64_C(1) << 20, "1.0 MiB"},
      {100768153, "96.1 MiB"},
      {UINT64_C(1) << 30, "1.00 GiB"},
      {UINT64_C(1932735283), "1.80 GiB"},
      {UINT64_MAX, "17179869184.00 GiB"},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct stg_strbuf text = {0};
    stg_strbuf_bytes(&text, sizes[i].bytes);
    assert_string_equal(stg_strbuf_text(&text), sizes[i].text);
    stg_strbuf_finish(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_an_empty_text_at_first),
      cmocka_unit_test(appends_at_every_size_around_its_capacity),
      cmocka_unit_test(keeps_bytes_that_are_no_text),
      cmocka_unit_test(fails_for_good_when_the_heap_does),
      cmocka_unit_test(refuses_lengths_that_wrap),
      cmocka_unit_test(hands_its_text_over_and_starts_again),
      cmocka_unit_test(hands_over_an_empty_text_too),
      cmocka_unit_test(escapes_what_json_must),
      cmocka_unit_test(keeps_utf8_and_replaces_what_is_none),
      cmocka_unit_test(prints_the_shortest_number),
      cmocka_unit_test(names_what_is_not_finite),
      cmocka_unit_test(reads_every_printed_number_back_equal),
      cmocka_unit_test(sizes_read_as_people_write_them),
      cmocka_unit_test_setup_teardown(prints_a_point_whatever_the_locale, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_lexer.c: spelling, columns and numbers of the op language.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <string.h>

#include "codegen/lang/lexer.h"
#include "runtime/base/dtype.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct stg_token next(struct stg_lexer *lexer) {
  struct stg_token token = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_lexer_next(lexer, &token, &err);
  assert_string_equal(err.message, "");
  assert_int_equal(status, STG_OK);
  return token;
}

static void assert_spelled(struct stg_token token, const char *text) {
  assert_int_equal(token.len, strlen(text));
  assert_memory_equal(token.text, text, token.len);
}

static void reads_every_fixed_token_with_its_column(void **state) {
  (void)state;
  static const char *const texts[] = {
#define STG_TOKEN_TEXT(name, text) text,
      STG_TOKEN_LIST(STG_TOKEN_TEXT)
#undef STG_TOKEN_TEXT
  };
  struct stg_lexer lexer = {.text = "+= <= >= == != && || = + - * / < > ! ? : ( ) ,"};
  size_t column = 1;
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct stg_token token = next(&lexer);
    assert_int_equal(token.kind, STG_TOKEN_ADD_ASSIGN + i);
    assert_int_equal(token.column, column);
    assert_spelled(token, texts[i]);
    column += strlen(texts[i]) + 1;
  }
  assert_int_equal(next(&lexer).kind, STG_TOKEN_END);
}

static void prefers_the_longer_token(void **state) {
  (void)state;
  struct stg_lexer lexer = {.text = "<==!=>=="};
  assert_int_equal(next(&lexer).kind, STG_TOKEN_LE);
  assert_int_equal(next(&lexer).kind, STG_TOKEN_ASSIGN);
  assert_int_equal(next(&lexer).kind, STG_TOKEN_NE);
  assert_int_equal(next(&lexer).kind, STG_TOKEN_GE);
  assert_int_equal(next(&lexer).kind, STG_TOKEN_ASSIGN);
}

static void reads_names_and_repeats_the_end(void **state) {
  (void)state;
  struct stg_lexer lexer = {.text = "\t a_1  _B2 "};
  struct stg_token first = next(&lexer);
  struct stg_token second = next(&lexer);
  assert_int_equal(first.kind, STG_TOKEN_NAME);
  assert_spelled(first, "a_1");
  assert_int_equal(first.column, 3);
  assert_spelled(second, "_B2");
  assert_int_equal(next(&lexer).kind, STG_TOKEN_END);
  struct stg_token end = next(&lexer);
  assert_int_equal(end.kind, STG_TOKEN_END);
  assert_int_equal(end.column, 12);
}

static const struct {
  const char *text;
  float value;
} number_rows[] = {
    {"0", 0.0f},
    {"0.0", 0.0f},
    {"1", 1.0f},
    {"007", 7.0f},
    {"0.1", 0.1f},
    {"2.5e3", 2500.0f},
    {"1E-2", 0.01f},
    {"1e+2", 100.0f},
    {"16777217", 16777216.0f},         /* a tie, to even */
    {"16777217.0000001", 16777218.0f}, /* would be 16777216 if rounded to double and then again */
    {"1.00000017881393432617187499", 1.00000011920928955078125f},
    {"3.4028235e38", 3.40282346638528859811704183484516925e38f},
    {"1e-45", 1.40129846432481707e-45f},
};

static void rounds_numbers_once_to_float32(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(number_rows); i++) {
    struct stg_lexer lexer = {.text = number_rows[i].text};
    struct stg_token token = next(&lexer);
    assert_int_equal(token.kind, STG_TOKEN_NUMBER);
    assert_spelled(token, number_rows[i].text);
    assert_int_equal(stg_f32_bits(token.number), stg_f32_bits(number_rows[i].value));
  }
}

static void reads_a_point_whatever_the_locale(void **state) {
  (void)state;
  static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
  for (size_t i = 0; i < COUNT(with_comma); i++) {
    if (setlocale(LC_NUMERIC, with_comma[i]) != NULL) {
      break;
    }
  }
  struct stg_lexer lexer = {.text = "0.5"};
  float value = next(&lexer).number;
  setlocale(LC_NUMERIC, "C");
  assert_float_equal(value, 0.5f, 0);
}

static void reads_a_sign_as_its_own_token(void **state) {
  (void)state;
  struct stg_lexer lexer = {.text = "1e-3-2"};
  assert_float_equal(next(&lexer).number, 1e-3f, 0);
  assert_int_equal(next(&lexer).kind, STG_TOKEN_SUB);
  assert_float_equal(next(&lexer).number, 2.0f, 0);
}

#define TEN "0123456789"

static const struct {
  const char *text;
  const char *message;
} bad_rows[] = {
    {"  @", "column 3: unexpected '@'; operators are + - * / < <= > >= == != && || ! ? : = +="},
    {"&", "column 1: unexpected '&'; operators are + - * / < <= > >= == != && || ! ? : = +="},
    {"\n", "column 1: unexpected byte 0x0a; the language is plain ASCII"},
    {"\xc2\xb7", "column 1: unexpected byte 0xc2; the language is plain ASCII"},
    {".5", "column 1: '.5' is not a number; write a digit on each side of the point"},
    {"5.", "column 1: '5.' is not a number; write a digit on each side of the point"},
    {".", "column 1: '.' is not a number; write a digit on each side of the point"},
    {"5.e3", "column 1: '5.e3' is not a number; write a digit on each side of the point"},
    {"2v", "column 2: unexpected 'v' after the number '2'; put an operator between them"},
    {"0x10", "column 2: unexpected 'x' after the number '0'; put an operator between them"},
    {"1e", "column 2: unexpected 'e' after the number '1'; put an operator between them"},
    {"1e+", "column 2: unexpected 'e' after the number '1'; put an operator between them"},
    {" 1e39", "column 2: '1e39' is beyond float32 (at most 3.4028235e38); infinity is written inf"},
    {"1e-60", "column 1: '1e-60' is zero in float32 (at least 1e-45); write 0"},
    {TEN TEN TEN TEN TEN TEN TEN, "column 1: a number of 70 characters; at most 63 are read"},
    {"a" TEN TEN TEN TEN TEN TEN TEN, "column 1: a name of 71 characters; at most 63 are allowed"},
};

static void refuses_what_is_no_token(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(bad_rows); i++) {
    struct stg_lexer lexer = {.text = bad_rows[i].text};
    struct stg_token token = {.kind = STG_TOKEN_COMMA, .column = 77};
    stg_error err = STG_ERROR_INIT;
    assert_int_equal(stg_lexer_next(&lexer, &token, &err), STG_E_FORMAT);
    assert_string_equal(err.message, bad_rows[i].message);
    assert_int_equal(token.column, 77);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_every_fixed_token_with_its_column),
      cmocka_unit_test(prefers_the_longer_token),
      cmocka_unit_test(reads_names_and_repeats_the_end),
      cmocka_unit_test(rounds_numbers_once_to_float32),
      cmocka_unit_test(reads_a_point_whatever_the_locale),
      cmocka_unit_test(reads_a_sign_as_its_own_token),
      cmocka_unit_test(refuses_what_is_no_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

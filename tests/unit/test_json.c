/*
 * test_json.c: what is JSON and what is not, where an error stands, typed reads.
 */
#include "specs/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/alloc.h"

/* Parse, expecting success; the test finishes the document. */
static struct stg_json_doc parse(const char *text) {
  struct stg_json_doc doc = {0};
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_json_parse("x.json", text, strlen(text), &doc, &err);
  if (status != STG_OK) {
    print_error("%s: %s\n", text, err.message);
  }
  assert_int_equal(status, STG_OK);
  return doc;
}

static void assert_rejected(const char *text, size_t len, const char *message) {
  struct stg_json_doc doc = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_json_parse("x.json", text, len, &doc, &err), STG_E_FORMAT);
  assert_string_equal(err.message, message);
  assert_null(doc.root);
  assert_null(doc.file);
}

struct rejected {
  const char *text;
  const char *message;
};

static void assert_all_rejected(const struct rejected *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    assert_rejected(cases[i].text, strlen(cases[i].text), cases[i].message);
  }
}
#define ASSERT_ALL_REJECTED(cases) assert_all_rejected(cases, sizeof(cases) / sizeof *(cases))

static void accepts_every_kind_of_value(void **state) {
  (void)state;
  static const char *const texts[] = {
      "null",
      " true ",
      "\t\r\nfalse\n",
      "\"\"",
      "[]",
      "{}",
      "0",
      "-0",
      "-0.5e-3",
      "1E+20",
      "{\"a\":[1,{\"b\":[[],{}]},\"\\u00e9\\\"\\\\\\/\\b\\f\\n\\r\\t\"]}",
      "\"\\ud83d\\ude00\"",
      "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct stg_json_doc doc = parse(texts[i]);
    assert_non_null(doc.root);
    stg_json_finish(&doc);
  }
}

static void rejects_broken_structure_with_line_and_column(void **state) {
  (void)state;
  static const struct rejected cases[] = {
      {"", "x.json:1:1: expected a value, found the end of the text"},
      {"{\n  \"a\": 1\n  \"b\": 2\n}", "x.json:3:3: expected ',' or '}', found '\"'"},
      {"[1, 2", "x.json:1:6: expected ',' or ']', found the end of the text"},
      {"[1 2]", "x.json:1:4: expected ',' or ']', found '2'"},
      {"[1]]", "x.json:1:4: expected the end of the text after the value, found ']'"},
      {"{} // note", "x.json:1:4: expected the end of the text after the value, found '/'"},
      {"{\"a\" 1}", "x.json:1:6: expected ':' after the member name, found '1'"},
      {"{\"a\": 1,}", "x.json:1:9: expected a member name in quotes, found '}'"},
      {"{a: 1}", "x.json:1:2: expected a member name in quotes, found 'a'"},
      {"[\"\xc3\xa9\xc3\xa9\", }", "x.json:1:8: expected a value, found '}'"},
      {"[nul]", "x.json:1:2: expected a value (numbers are finite; a bound may be \"inf\" or "
                "\"-inf\"), found 'nul'"},
      {"[truest]", "x.json:1:2: expected a value, found 'truest'"},
      {"\xef\xbb\xbf{}",
       "x.json:1:1: starts with a byte order mark; save the file as UTF-8 without it"},
  };
  ASSERT_ALL_REJECTED(cases);
}

static void rejects_numbers_outside_the_grammar(void **state) {
  (void)state;
  static const struct rejected cases[] = {
      {"[01]", "x.json:1:2: a number may not start with 0"},
      {"[-01]", "x.json:1:2: a number may not start with 0"},
      {"[1.]", "x.json:1:4: expected a digit after '.', found ']'"},
      {"[.5]", "x.json:1:2: expected a value, found '.'"},
      {"[+1]", "x.json:1:2: expected a value, found '+'"},
      {"[1e]", "x.json:1:4: expected a digit in the exponent, found ']'"},
      {"[1e+]", "x.json:1:5: expected a digit in the exponent, found ']'"},
      {"[0x10]", "x.json:1:3: expected ',' or ']', found 'x10'"},
      {"[NaN]", "x.json:1:2: expected a value (numbers are finite; a bound may be \"inf\" or "
                "\"-inf\"), found 'NaN'"},
      {"[-Infinity]", "x.json:1:3: expected a digit after '-' (a bound may be \"-inf\"), found "
                      "'Infinity'"},
      {"[1234567890123456789012345678901234567890123456789012345678901234]",
       "x.json:1:2: a number of 64 characters; at most 63"},
  };
  ASSERT_ALL_REJECTED(cases);
}

static void rejects_broken_strings(void **state) {
  (void)state;
  static const struct rejected cases[] = {
      {"[\"abc", "x.json:1:2: this string has no closing quote"},
      {"[\"a\\", "x.json:1:4: unknown escape in a string; write '\\\\' for a backslash"},
      {"[\"a\\x\"]", "x.json:1:4: unknown escape in a string; write '\\\\' for a backslash"},
      {"[\"a\nb\"]", "x.json:1:4: control byte 0x0a in a string; write it as '\\u000a'"},
      {"[\"\\u00g0\"]", "x.json:1:3: expected four hex digits after '\\u'"},
      {"[\"\\u0000\"]", "x.json:1:3: '\\u0000' is not allowed in a string"},
      {"[\"\\ud83d\"]", "x.json:1:3: '\\ud83d' is half a surrogate pair"},
      {"[\"\\ud83d\\u0041\"]", "x.json:1:3: '\\ud83d' is half a surrogate pair"},
      {"[\"\\ude00\"]", "x.json:1:3: '\\ude00' is half a surrogate pair"},
      {"[\"\x80\"]", "x.json:1:3: byte 0x80 is not valid UTF-8; save the file as UTF-8"},
      {"[\"\xc0\xaf\"]", "x.json:1:3: byte 0xc0 is not valid UTF-8; save the file as UTF-8"},
      {"[\"\xed\xa0\x80\"]", "x.json:1:3: byte 0xed is not valid UTF-8; save the file as UTF-8"},
      {"[\"\xf4\x90\x80\x80\"]",
       "x.json:1:3: byte 0xf4 is not valid UTF-8; save the file as UTF-8"},
      {"[\"\xe2\x82\"]", "x.json:1:3: byte 0xe2 is not valid UTF-8; save the file as UTF-8"},
  };
  ASSERT_ALL_REJECTED(cases);
}

static void rejects_nul_bytes_inside_and_after_the_text(void **state) {
  (void)state;
  assert_rejected("[\"a\0b\"]", 7,
                  "x.json:1:4: control byte 0x00 in a string; write it as '\\u0000'");
  assert_rejected("[]\0", 3,
                  "x.json:1:3: expected the end of the text after the value, found byte 0x00");
}

static void does_not_read_past_the_given_length(void **state) {
  (void)state;
  struct stg_json_doc doc = {0};
  stg_error err = STG_ERROR_INIT;
  static const char *const texts[] = {"[1,2]", "[true", "\"\\ud8"};
  char *text = stg_malloc(5); /* no NUL, so that a sanitizer sees a step too far */
  memcpy(text, texts[0], 5);
  assert_int_equal(stg_json_parse("x.json", text, 5, &doc, &err), STG_OK);
  stg_json_finish(&doc);
  memcpy(text, texts[1], 5);
  assert_rejected(text, 5, "x.json:1:6: expected ',' or ']', found the end of the text");
  memcpy(text, texts[2], 5);
  assert_rejected(text, 5, "x.json:1:2: expected four hex digits after '\\u'");
  stg_free(text);
}

static void bounds_the_depth(void **state) {
  (void)state;
  char text[2 * (STG_JSON_MAX_DEPTH + 1) + 1] = "";
  memset(text, '[', STG_JSON_MAX_DEPTH);
  memset(text + STG_JSON_MAX_DEPTH, ']', STG_JSON_MAX_DEPTH);
  struct stg_json_doc doc = parse(text);
  stg_json_finish(&doc);
  memset(text, '[', STG_JSON_MAX_DEPTH + 1);
  assert_rejected(text, strlen(text), "x.json:1:65: nested deeper than 64 levels");
}

static void bounds_the_size_and_the_number_of_values(void **state) {
  (void)state;
  size_t size = (size_t)STG_JSON_MAX_BYTES + 1;
  char *text = stg_malloc(size);
  memset(text, ' ', size);
  assert_rejected(text, size, "x.json: 67108865 bytes; a JSON file has at most 67108864");
  text[0] = '[';
  for (size_t i = 1; i < size - 1; i += 2) {
    text[i] = '1';
    text[i + 1] = ',';
  }
  assert_rejected(text, size - 1,
                  "x.json:1:8388608: more than 4194304 values; put large vectors into a "
                  "safetensors file");
  stg_free(text);
}

static void a_caller_may_allow_fewer_values_and_say_why(void **state) {
  (void)state;
  static const char text[] = "{\"a\": [1, 2]}";
  struct stg_json_doc doc = {0};
  stg_error err = STG_ERROR_INIT;
  struct stg_json_limit limit = {4, "the object, the list, 1 and 2"};
  assert_int_equal(stg_json_parse_within("x.json", text, strlen(text), limit, &doc, &err), STG_OK);
  stg_json_finish(&doc);
  limit.max_values = 3;
  assert_int_equal(stg_json_parse_within("x.json", text, strlen(text), limit, &doc, &err),
                   STG_E_FORMAT);
  assert_string_equal(err.message,
                      "x.json:1:11: more than 3 values; the object, the list, 1 and 2");
  assert_null(doc.root);
}

static void rejects_duplicate_members_and_gives_their_path(void **state) {
  (void)state;
  static const struct rejected cases[] = {
      {"{\"a\": 1, \"a\": 2}", "x.json: a: this member is given twice; keep one"},
      {"{\"a\": [0, {\"b\": {\"c\": 1, \"d\": 2, \"c\": 3}}]}",
       "x.json: a[1].b.c: this member is given twice; keep one"},
      {"[{}, {\"\\u0061\": 1, \"a\": 2}]", "x.json: [1].a: this member is given twice; keep one"},
  };
  ASSERT_ALL_REJECTED(cases);
}

static void tells_members_apart_by_case(void **state) {
  (void)state;
  struct stg_json_doc doc = parse("{\"Key\": 1, \"key\": 2}");
  struct stg_json root = stg_json_root(&doc);
  struct stg_json member;
  int64_t value = 0;
  assert_true(stg_json_find(&root, "key", &member));
  assert_int_equal(stg_json_int(&member, 0, 9, &value, NULL), STG_OK);
  assert_int_equal(value, 2);
  assert_false(stg_json_find(&root, "KEY", &member));
  stg_json_finish(&doc);
}

/* Quadratic work on 1e5 members or 1e6 numbers would take minutes, and the test would time out. */
static void stays_fast_on_many_members_and_numbers(void **state) {
  (void)state;
  enum { MEMBERS = 100000, NUMBERS = 1000000 };
  struct stg_strbuf text = {0};
  stg_strbuf_str(&text, "{\"numbers\":[0");
  for (int i = 1; i < NUMBERS; i++) {
    stg_strbuf_str(&text, ",0.5");
  }
  stg_strbuf_str(&text, "]");
  for (int i = 0; i < MEMBERS; i++) {
    stg_strbuf_printf(&text, ",\"member_%d\":%d", i, i);
  }
  stg_strbuf_str(&text, "}");
  struct stg_json_doc doc = parse(stg_strbuf_text(&text));
  struct stg_json root = stg_json_root(&doc);
  struct stg_json member;
  assert_int_equal(stg_json_count(&root), MEMBERS + 1);
  assert_true(stg_json_find(&root, "numbers", &member));
  assert_int_equal(stg_json_count(&member), NUMBERS);
  assert_true(stg_json_find(&root, "member_99999", &member));
  stg_json_finish(&doc);
  stg_strbuf_finish(&text);
}

static void walks_children_in_file_order(void **state) {
  (void)state;
  struct stg_json_doc doc = parse("{\"z\": 1, \"a\": [5, 6]}");
  struct stg_json root = stg_json_root(&doc);
  struct stg_json member;
  struct stg_json item;
  char path[STG_JSON_PATH_BYTES];
  assert_true(stg_json_first(&root, &member));
  assert_string_equal(member.key, "z");
  assert_false(stg_json_first(&member, &item));
  assert_true(stg_json_next(&member));
  assert_string_equal(member.key, "a");
  assert_true(stg_json_first(&member, &item));
  assert_true(stg_json_next(&item));
  stg_json_path(&item, path);
  assert_string_equal(path, "a[1]");
  assert_false(stg_json_next(&item));
  assert_false(stg_json_next(&member));
  stg_json_finish(&doc);
}

static void quotes_odd_names_in_paths_and_cuts_long_ones(void **state) {
  (void)state;
  struct stg_json_doc doc = parse("{\"a.b\": {\"tab\\there\": 1}}");
  struct stg_json root = stg_json_root(&doc);
  struct stg_json member;
  struct stg_json inner;
  char path[STG_JSON_PATH_BYTES];
  stg_json_first(&root, &member);
  stg_json_first(&member, &inner);
  stg_json_path(&inner, path);
  assert_string_equal(path, "[\"a.b\"][\"tab?here\"]");
  stg_json_finish(&doc);

  struct stg_strbuf text = {0};
  for (int i = 0; i < 12; i++) {
    stg_strbuf_str(&text, "{\"a_name_of_thirty_characters_xx\":");
  }
  stg_strbuf_str(&text, "1}}}}}}}}}}}}");
  doc = parse(stg_strbuf_text(&text));
  struct stg_json steps[13];
  steps[0] = stg_json_root(&doc);
  for (int i = 1; i <= 12; i++) {
    assert_true(stg_json_first(&steps[i - 1], &steps[i]));
  }
  stg_json_path(&steps[12], path);
  assert_int_equal(strlen(path), STG_JSON_PATH_BYTES - 1);
  assert_string_equal(path + STG_JSON_PATH_BYTES - 4, "...");
  stg_json_finish(&doc);
  stg_strbuf_finish(&text);
}

static void cuts_a_long_file_name_so_that_the_message_is_seen(void **state) {
  (void)state;
  char file[1000];
  memset(file, 'f', sizeof file - 1);
  file[sizeof file - 1] = '\0';
  struct stg_json_doc doc = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_json_parse(file, "{\"a\":1,\"a\":1}", 13, &doc, &err), STG_E_FORMAT);
  assert_non_null(strstr(err.message, "fff: a: this member is given twice; keep one"));
}

static void lists_what_is_allowed_beside_an_unknown_member(void **state) {
  (void)state;
  static const char *const allowed[] = {"rows", "slot", NULL};
  struct stg_json_doc doc = parse("{\"rows\": 1, \"solt\": 2}");
  struct stg_json root = stg_json_root(&doc);
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_json_check_keys(&root, allowed, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: solt: unknown member; allowed: 'rows', 'slot'");
  stg_json_finish(&doc);
}

static void names_a_missing_member(void **state) {
  (void)state;
  struct stg_json_doc doc = parse("{\"a\": {}}");
  struct stg_json root = stg_json_root(&doc);
  struct stg_json a;
  struct stg_json b;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_json_get(&root, "a", &a, &err), STG_OK);
  assert_int_equal(stg_json_get(&a, "b", &b, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: a: 'b' is missing");
  assert_int_equal(stg_json_get(&root, "b", &b, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: 'b' is missing");
  stg_json_finish(&doc);
}

/* One document of every kind of value, and the member that a test looks at. */
static struct stg_json member_of(const struct stg_json *root, const char *key) {
  struct stg_json member = {0};
  assert_true(stg_json_find(root, key, &member));
  return member;
}

static void reads_values_of_the_expected_type(void **state) {
  (void)state;
  struct stg_json_doc doc =
      parse("{\"i\": -3, \"f\": 0.1, \"s\": \"t\", \"b\": true, \"p\": \"inf\", \"m\": \"-inf\"}");
  struct stg_json root = stg_json_root(&doc);
  struct stg_json at = member_of(&root, "i");
  int64_t integer = 0;
  float number = 0;
  const char *text = NULL;
  bool truth = false;
  assert_int_equal(stg_json_int(&at, -3, 3, &integer, NULL), STG_OK);
  assert_int_equal(integer, -3);
  at = member_of(&root, "f");
  assert_int_equal(stg_json_float(&at, &number, NULL), STG_OK);
  assert_true(number == 0.1f);
  double all_digits = 0;
  assert_int_equal(stg_json_double(&at, &all_digits, NULL), STG_OK);
  assert_true(all_digits == 0.1);
  at = member_of(&root, "s");
  assert_int_equal(stg_json_string(&at, &text, NULL), STG_OK);
  assert_string_equal(text, "t");
  at = member_of(&root, "b");
  assert_int_equal(stg_json_bool(&at, &truth, NULL), STG_OK);
  assert_true(truth);
  at = member_of(&root, "p");
  assert_int_equal(stg_json_bound(&at, &number, NULL), STG_OK);
  assert_true(number == INFINITY);
  at = member_of(&root, "m");
  assert_int_equal(stg_json_bound(&at, &number, NULL), STG_OK);
  assert_true(number == -INFINITY);
  stg_json_finish(&doc);
}

static void says_what_was_expected_and_what_was_found(void **state) {
  (void)state;
  struct stg_json_doc doc = parse(
      "{\"i\": 1.5, \"big\": 1e300, \"huge\": 1e999, \"s\": \"a text that is longer than forty "
      "characters\", \"o\": {}, \"a\": [], \"n\": null, \"t\": true, \"exact\": 9007199254740993}");
  struct stg_json root = stg_json_root(&doc);
  stg_error err = STG_ERROR_INIT;
  int64_t integer = 7;
  float number = 7;
  const char *text = NULL;
  bool truth = false;
  struct stg_json at = member_of(&root, "i");
  assert_int_equal(stg_json_int(&at, 1, 5, &integer, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: i: expected an integer from 1 to 5, found 1.5");
  at = member_of(&root, "exact");
  assert_int_equal(stg_json_int(&at, 0, ((int64_t)1 << 53) - 1, &integer, &err), STG_E_FORMAT);
  at = member_of(&root, "big");
  assert_int_equal(stg_json_int(&at, 1, 5, &integer, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: big: expected an integer from 1 to 5, found 1e+300");
  assert_int_equal(stg_json_float(&at, &number, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: big: expected a number that fits float32 (at most "
                                   "3.4e38), found 1e+300");
  double wide = 7;
  assert_int_equal(stg_json_double(&at, &wide, &err), STG_OK);
  assert_true(wide == 1e300);
  at = member_of(&root, "huge");
  assert_int_equal(stg_json_float(&at, &number, &err), STG_E_FORMAT);
  assert_int_equal(stg_json_double(&at, &wide, &err), STG_E_FORMAT);
  assert_non_null(strstr(err.message, "x.json: huge: expected a number that fits float64"));
  assert_int_equal(stg_json_int(&at, 1, 5, &integer, &err), STG_E_FORMAT);
  at = member_of(&root, "s");
  assert_int_equal(stg_json_int(&at, 1, 5, &integer, &err), STG_E_FORMAT);
  assert_string_equal(err.message,
                      "x.json: s: expected an integer from 1 to 5, found \"a text that "
                      "is longer than forty charact...\"");
  assert_int_equal(stg_json_bound(&at, &number, &err), STG_E_FORMAT);
  at = member_of(&root, "o");
  assert_int_equal(stg_json_string(&at, &text, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: o: expected a string, found an object");
  at = member_of(&root, "a");
  assert_int_equal(stg_json_bool(&at, &truth, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: a: expected true or false, found an array");
  at = member_of(&root, "n");
  assert_int_equal(stg_json_expect_array(&at, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: n: expected an array, found null");
  at = member_of(&root, "t");
  assert_int_equal(stg_json_expect_object(&at, &err), STG_E_FORMAT);
  assert_string_equal(err.message, "x.json: t: expected an object, found true");
  assert_int_equal(integer, 7); /* untouched by all of them */
  assert_true(number == 7);
  stg_json_finish(&doc);
}

static void reports_every_failed_allocation_and_leaks_nothing(void **state) {
  (void)state;
  static const char text[] = "{\"a\": {\"b\": 1, \"c\": [2, 3]}, \"d\": \"e\"}";
  stg_status status = STG_E_NO_MEMORY;
  size_t failures = 0;
  while (status != STG_OK) {
    struct stg_json_doc doc = {0};
    stg_error err = STG_ERROR_INIT;
    stg_alloc_fail_at(failures + 1);
    status = stg_json_parse("x.json", text, sizeof text - 1, &doc, &err);
    stg_alloc_fail_at(0);
    assert_true(status == STG_OK || status == STG_E_NO_MEMORY);
    assert_int_equal(err.code, status);
    failures += status != STG_OK;
    stg_json_finish(&doc);
  }
  assert_true(failures >= 2);
}

static void names_a_file_that_is_not_there(void **state) {
  (void)state;
  struct stg_json_doc doc = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_json_load("no/such/file.json", &doc, &err), STG_E_NOT_FOUND);
  assert_string_equal(err.message, "cannot read 'no/such/file.json': No such file or directory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_every_kind_of_value),
      cmocka_unit_test(rejects_broken_structure_with_line_and_column),
      cmocka_unit_test(rejects_numbers_outside_the_grammar),
      cmocka_unit_test(rejects_broken_strings),
      cmocka_unit_test(rejects_nul_bytes_inside_and_after_the_text),
      cmocka_unit_test(does_not_read_past_the_given_length),
      cmocka_unit_test(bounds_the_depth),
      cmocka_unit_test(bounds_the_size_and_the_number_of_values),
      cmocka_unit_test(a_caller_may_allow_fewer_values_and_say_why),
      cmocka_unit_test(rejects_duplicate_members_and_gives_their_path),
      cmocka_unit_test(tells_members_apart_by_case),
      cmocka_unit_test(stays_fast_on_many_members_and_numbers),
      cmocka_unit_test(walks_children_in_file_order),
      cmocka_unit_test(quotes_odd_names_in_paths_and_cuts_long_ones),
      cmocka_unit_test(cuts_a_long_file_name_so_that_the_message_is_seen),
      cmocka_unit_test(lists_what_is_allowed_beside_an_unknown_member),
      cmocka_unit_test(names_a_missing_member),
      cmocka_unit_test(reads_values_of_the_expected_type),
      cmocka_unit_test(says_what_was_expected_and_what_was_found),
      cmocka_unit_test(reports_every_failed_allocation_and_leaks_nothing),
      cmocka_unit_test(names_a_file_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_error.c: the formatter that returns its own code, and the names of statuses.
 */
#include "runtime/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void fills_code_and_message_and_returns_the_code(void **state) {
  (void)state;
  stg_error err = STG_ERROR_INIT;
  stg_status status = stg_error_set(&err, STG_E_CAPACITY, "slot %d of %d", 9, 8);
  assert_int_equal(status, STG_E_CAPACITY);
  assert_int_equal(err.code, STG_E_CAPACITY);
  assert_string_equal(err.message, "slot 9 of 8");
}

static void accepts_no_error_at_all(void **state) {
  (void)state;
  assert_int_equal(stg_error_set(NULL, STG_E_BUSY, "%s", "unseen"), STG_E_BUSY);
  assert_int_equal(stg_error_prefix(NULL, "%s: ", "unseen"), STG_OK);
  assert_int_equal(stg_error_io(NULL, ENOENT, "open", "x"), STG_E_IO);
}

static void puts_context_before_the_message(void **state) {
  (void)state;
  stg_error err = STG_ERROR_INIT;
  stg_error_set(&err, STG_E_INVALID, "scale is %d", -1);
  stg_status status = stg_error_prefix(&err, "slots.%s: ", "calm");
  assert_int_equal(status, STG_E_INVALID);
  assert_string_equal(err.message, "slots.calm: scale is -1");
}

static void keeps_messages_on_one_line(void **state) {
  (void)state;
  stg_error err = STG_ERROR_INIT;
  stg_error_set(&err, STG_E_COMPILE, "first\nsecond\rthird");
  assert_string_equal(err.message, "first second third");
}

static void keeps_the_longest_message_whole(void **state) {
  (void)state;
  char text[STG_ERROR_MESSAGE_BYTES];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  stg_error err = STG_ERROR_INIT;
  stg_error_set(&err, STG_E_FORMAT, "%s", text);
  assert_string_equal(err.message, text);
}

static void cuts_longer_messages_with_an_ellipsis(void **state) {
  (void)state;
  char text[4 * STG_ERROR_MESSAGE_BYTES];
  memset(text, 'a', sizeof text - 1);
  for (size_t len = STG_ERROR_MESSAGE_BYTES; len < sizeof text; len += 7) {
    stg_error err = STG_ERROR_INIT;
    stg_error_set(&err, STG_E_FORMAT, "%.*s", (int)len, text);
    assert_int_equal(strlen(err.message), STG_ERROR_MESSAGE_BYTES - 1);
    assert_string_equal(err.message + STG_ERROR_MESSAGE_BYTES - 5, "a...");
  }
}

static void cuts_between_characters_of_utf8(void **state) {
  (void)state;
  /* every alignment of 3-byte characters against the cut */
  for (size_t lead = 0; lead < 3; lead++) {
    char text[STG_ERROR_MESSAGE_BYTES + 64] = "";
    memset(text, 'a', lead);
    for (size_t at = lead; at < STG_ERROR_MESSAGE_BYTES + 32; at += 3) {
      snprintf(text + at, sizeof text - at, "%s", "\xe2\x82\xac");
    }
    stg_error err = STG_ERROR_INIT;
    stg_error_set(&err, STG_E_FORMAT, "%s", text);
    size_t kept = strlen(err.message) - 3;
    assert_int_equal((kept - lead) % 3, 0);
    assert_memory_equal(err.message, text, kept);
    assert_string_equal(err.message + kept, "...");
  }
}

static void cuts_a_message_that_its_context_made_too_long(void **state) {
  (void)state;
  char text[STG_ERROR_MESSAGE_BYTES];
  memset(text, 'b', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  stg_error err = STG_ERROR_INIT;
  stg_error_set(&err, STG_E_IO, "%s", text);
  stg_error_prefix(&err, "here: ");
  assert_int_equal(strlen(err.message), STG_ERROR_MESSAGE_BYTES - 1);
  assert_memory_equal(err.message, "here: bbb", 9);
  assert_string_equal(err.message + STG_ERROR_MESSAGE_BYTES - 5, "b...");
}

static void names_verb_path_and_reason_of_an_io_error(void **state) {
  (void)state;
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(stg_error_io(&err, ENOENT, "open", "a/b"), STG_E_IO);
  assert_string_equal(err.message, "cannot open 'a/b': No such file or directory");
}

static void names_every_status_and_survives_an_unknown_one(void **state) {
  (void)state;
  assert_string_equal(stg_status_name(STG_OK), "STG_OK");
  assert_string_equal(stg_status_name(STG_E_CORRUPT), "STG_E_CORRUPT");
  assert_string_equal(stg_status_text(STG_E_BUSY), "still in use");
  assert_string_equal(stg_status_name((stg_status)999), "STG_UNKNOWN");
  assert_string_equal(stg_status_text((stg_status)999), "unknown status");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fills_code_and_message_and_returns_the_code),
      cmocka_unit_test(accepts_no_error_at_all),
      cmocka_unit_test(puts_context_before_the_message),
      cmocka_unit_test(keeps_messages_on_one_line),
      cmocka_unit_test(keeps_the_longest_message_whole),
      cmocka_unit_test(cuts_longer_messages_with_an_ellipsis),
      cmocka_unit_test(cuts_between_characters_of_utf8),
      cmocka_unit_test(cuts_a_message_that_its_context_made_too_long),
      cmocka_unit_test(names_verb_path_and_reason_of_an_io_error),
      cmocka_unit_test(names_every_status_and_survives_an_unknown_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

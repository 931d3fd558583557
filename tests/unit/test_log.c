/*
 * test_log.c: which messages reach the callback, and in what shape.
 */
#include "runtime/base/log.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct heard {
  int count;
  stg_log_level level;
  char message[4096];
};

static void listen(void *user, stg_log_level level, const char *message) {
  struct heard *heard = user;
  heard->count++;
  heard->level = level;
  snprintf(heard->message, sizeof heard->message, "%s", message);
}

static void drops_everything_without_a_callback(void **state) {
  (void)state;
  struct stg_log log = {.level = STG_LOG_DEBUG};
  stg_log_printf(&log, STG_LOG_ERROR, "lost");
  stg_log_printf(NULL, STG_LOG_ERROR, "lost");
  stg_log_text(NULL, STG_LOG_ERROR, "lost");
}

static void passes_the_level_and_the_formatted_line(void **state) {
  (void)state;
  struct heard heard = {0};
  struct stg_log log = {.fn = listen, .user = &heard, .level = STG_LOG_INFO};
  stg_log_printf(&log, STG_LOG_INFO, "loaded %d of %s", 3, "eight");
  assert_int_equal(heard.count, 1);
  assert_int_equal(heard.level, STG_LOG_INFO);
  assert_string_equal(heard.message, "loaded 3 of eight");
}

static void passes_exactly_the_levels_asked_for(void **state) {
  (void)state;
  const int passed[] = {2, 0, 1, 2, 3, 4}; /* by level: default is warn */
  for (int level = STG_LOG_DEFAULT; level <= STG_LOG_DEBUG; level++) {
    struct heard heard = {0};
    struct stg_log log = {.fn = listen, .user = &heard, .level = (stg_log_level)level};
    for (int severity = STG_LOG_DEFAULT; severity <= STG_LOG_DEBUG; severity++) {
      stg_log_printf(&log, (stg_log_level)severity, "m");
    }
    assert_int_equal(heard.count, passed[level]);
    heard.count = 0;
    for (int severity = STG_LOG_DEFAULT; severity <= STG_LOG_DEBUG; severity++) {
      stg_log_text(&log, (stg_log_level)severity, "m");
    }
    assert_int_equal(heard.count, passed[level]);
  }
}

static void makes_one_line_of_printf_and_none_of_text(void **state) {
  (void)state;
  struct heard heard = {0};
  struct stg_log log = {.fn = listen, .user = &heard};
  stg_log_printf(&log, STG_LOG_WARN, "a\nb");
  assert_string_equal(heard.message, "a b");
  stg_log_text(&log, STG_LOG_WARN, "a\nb");
  assert_string_equal(heard.message, "a\nb");
}

static void cuts_a_line_without_end(void **state) {
  (void)state;
  struct heard heard = {0};
  struct stg_log log = {.fn = listen, .user = &heard};
  stg_log_printf(&log, STG_LOG_ERROR, "%4000d", 1);
  size_t len = strlen(heard.message);
  assert_true(len > 1000 && len < 4000);
  assert_string_equal(heard.message + len - 3, "...");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(drops_everything_without_a_callback),
      cmocka_unit_test(passes_the_level_and_the_formatted_line),
      cmocka_unit_test(passes_exactly_the_levels_asked_for),
      cmocka_unit_test(makes_one_line_of_printf_and_none_of_text),
      cmocka_unit_test(cuts_a_line_without_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

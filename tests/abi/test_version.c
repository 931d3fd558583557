/*
 * test_version.c: the version of the library at run time is that of its header.
 */
#include <steergraph/steergraph.h>

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void library_and_header_agree(void **state) {
  (void)state;
  assert_string_equal(stg_version(), STEERGRAPH_VERSION_STRING);
}

static void the_string_is_made_of_the_numbers(void **state) {
  (void)state;
  char text[64];
  snprintf(text, sizeof text, "%d.%d.%d", STEERGRAPH_VERSION_MAJOR, STEERGRAPH_VERSION_MINOR,
           STEERGRAPH_VERSION_PATCH);
  assert_string_equal(text, STEERGRAPH_VERSION_STRING);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(library_and_header_agree),
      cmocka_unit_test(the_string_is_made_of_the_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

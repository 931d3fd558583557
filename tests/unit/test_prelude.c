/*
 * test_prelude.c: device code by file.
 */
#include "codegen/prelude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void finds_a_file_by_its_whole_name(void **state) {
  (void)state;
  const struct stg_embedded_file *math = stg_prelude_find("math");
  assert_non_null(math);
  assert_int_equal(strlen(math->text), math->len);
  assert_non_null(strstr(math->text, "stg_math_exp"));
  assert_null(stg_prelude_find("mat"));
  assert_null(stg_prelude_find("math.h"));
  assert_null(stg_prelude_find(""));
}

static void appends_what_was_named_in_that_order_and_nothing_else(void **state) {
  (void)state;
  const char *const stems[] = {"chunk", "math"};
  const struct stg_embedded_file *chunk = stg_prelude_find("chunk");
  const struct stg_embedded_file *math = stg_prelude_find("math");
  struct stg_strbuf out = {0};
  stg_strbuf_str(&out, "// before\n");
  const size_t begin = out.len;
  stg_prelude_append(stems, 2, &out);
  assert_int_equal(stg_strbuf_status(&out, NULL), STG_OK);
  assert_int_equal(out.len, begin + chunk->len + math->len);
  assert_memory_equal(out.data + begin, chunk->text, chunk->len);
  assert_memory_equal(out.data + begin + chunk->len, math->text, math->len);
  stg_strbuf_finish(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_a_file_by_its_whole_name),
      cmocka_unit_test(appends_what_was_named_in_that_order_and_nothing_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

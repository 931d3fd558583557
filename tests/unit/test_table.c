/*
 * test_table.c: aligned columns, and how they give way to a narrow terminal.
 */
#include "tools/table.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ELLIPSIS "\xe2\x80\xa6"

/* Two rows of a name, two columns that may go, and a long text. */
static void assert_prints(size_t max_width, const char *expected) {
  struct stg_table table = {.columns = "lrll", .yields = ".21s", .max_width = max_width};
  struct stg_strbuf text = {0};
  static const char *const cells[] = {"key",  "ms",   "when", "signature",
                                      "abcd", "1234", "2026", "steer v1 | hidden=4096 | sm_90"};
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    stg_table_cell(&table, cells[i]);
  }
  stg_table_print(&table, &text);
  assert_string_equal(stg_strbuf_text(&text), expected);
  stg_strbuf_finish(&text);
}

#define WHOLE                                                                                      \
  "key     ms  when  signature\n"                                                                  \
  "abcd  1234  2026  steer v1 | hidden=4096 | sm_90\n"

static void is_as_wide_as_its_cells_where_nothing_limits_it(void **state) {
  (void)state;
  assert_prints(0, WHOLE);
  assert_prints(48, WHOLE);
  assert_prints(1000, WHOLE);
}

static void shortens_a_column_in_its_middle_first(void **state) {
  (void)state;
  assert_prints(47, "key     ms  when  signature\n"
                    "abcd  1234  2026  steer v1 | hid" ELLIPSIS "n=4096 | sm_90\n");
  assert_prints(42, "key     ms  when  signature\n"
                    "abcd  1234  2026  steer v1 | h" ELLIPSIS "096 | sm_90\n");
}

static void leaves_columns_out_in_their_order_when_too_little_is_left(void **state) {
  (void)state;
  assert_prints(41, "key     ms  signature\n"
                    "abcd  1234  steer v1 | hid" ELLIPSIS "n=4096 | sm_90\n");
  assert_prints(32, "key   signature\n"
                    "abcd  steer v1 | hi" ELLIPSIS "4096 | sm_90\n");
}

static void has_sizes_as_people_write_them(void **state) {
  (void)state;
  struct stg_table table = {.columns = "rl"};
  struct stg_strbuf text = {0};
  stg_table_bytes(&table, 14 << 20);
  stg_table_cell(&table, "a");
  stg_table_bytes(&table, 9);
  stg_table_cell(&table, "b");
  stg_table_print(&table, &text);
  assert_string_equal(stg_strbuf_text(&text), "14.0 MiB  a\n     9 B  b\n");
  stg_strbuf_finish(&text);
}

static void survives_any_width(void **state) {
  (void)state;
  assert_prints(12, "key   sig" ELLIPSIS "re\n"
                    "abcd  ste" ELLIPSIS "90\n");
  assert_prints(7, "key   " ELLIPSIS "\n"
                   "abcd  " ELLIPSIS "\n");
  assert_prints(1, "key   \n"
                   "abcd  \n");
}

static void counts_and_cuts_by_code_points(void **state) {
  (void)state;
  struct stg_table table = {.columns = "ls", .yields = ".s", .max_width = 10};
  struct stg_strbuf text = {0};
  stg_table_cell(&table, "\xc3\xa4");
  stg_table_cell(&table, "\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6");
  stg_table_print(&table, &text);
  assert_string_equal(stg_strbuf_text(&text),
                      "\xc3\xa4  \xc3\xb6\xc3\xb6\xc3\xb6" ELLIPSIS "\xc3\xb6\xc3\xb6\xc3\xb6\n");
  stg_strbuf_finish(&text);
}

static void does_not_cut_what_nothing_may_give_way_in(void **state) {
  (void)state;
  struct stg_table table = {.columns = "l", .max_width = 4, .indent = "  "};
  struct stg_strbuf text = {0};
  stg_table_cell(&table, "longer than that");
  stg_table_print(&table, &text);
  assert_string_equal(stg_strbuf_text(&text), "  longer than that\n");
  stg_strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_as_wide_as_its_cells_where_nothing_limits_it),
      cmocka_unit_test(shortens_a_column_in_its_middle_first),
      cmocka_unit_test(leaves_columns_out_in_their_order_when_too_little_is_left),
      cmocka_unit_test(has_sizes_as_people_write_them),
      cmocka_unit_test(survives_any_width),
      cmocka_unit_test(counts_and_cuts_by_code_points),
      cmocka_unit_test(does_not_cut_what_nothing_may_give_way_in),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_bench_report.c: measured rows as a table and as JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tools/bench/report.h"

static const struct stg_bench_machine machine = {
    .card = "Card 1", .driver = 13020, .cuda = "13.0.88"};

static void add(struct stg_bench_report *report, const struct stg_bench_row *row) {
  assert_int_equal(stg_bench_report_add(report, row, NULL), STG_OK);
}

static void writes_every_key_and_null_where_nothing_was_measured(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  struct stg_strbuf text = {0};
  add(&report, &(struct stg_bench_row){.suite = "steer", .name = "1 op", .series = "copy"});
  stg_bench_report_json(&report, &machine, &text);
  assert_string_equal(stg_strbuf_text(&text), "[\n"
                                              "  {\n"
                                              "    \"suite\": \"steer\",\n"
                                              "    \"name\": \"1 op\",\n"
                                              "    \"series\": \"copy\",\n"
                                              "    \"card\": \"Card 1\",\n"
                                              "    \"driver\": 13020,\n"
                                              "    \"cuda\": \"13.0.88\",\n"
                                              "    \"median_us\": null,\n"
                                              "    \"min_us\": null,\n"
                                              "    \"max_us\": null,\n"
                                              "    \"wall_us\": null,\n"
                                              "    \"floor_us\": null,\n"
                                              "    \"ratio\": null\n"
                                              "  }\n"
                                              "]\n");
  stg_strbuf_finish(&text);
  stg_bench_report_finish(&report);
}

static void gives_the_ratio_of_the_device_time_to_the_floor_and_extras_last(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  struct stg_strbuf text = {0};
  struct stg_bench_row row = {.suite = "steer",
                              .name = "1 op",
                              .series = STG_BENCH_OURS,
                              .device = {.median_us = 3, .min_us = 2.5, .max_us = 4},
                              .wall = {.median_us = 9},
                              .has_device = true,
                              .has_wall = true,
                              .floor_us = 2};
  stg_bench_row_extra(&row, "tile_rows", 8);
  add(&report, &row);
  stg_bench_report_json(&report, &machine, &text);
  assert_non_null(strstr(stg_strbuf_text(&text), "\"median_us\": 3,\n"
                                                 "    \"min_us\": 2.5,\n"
                                                 "    \"max_us\": 4,\n"
                                                 "    \"wall_us\": 9,\n"
                                                 "    \"floor_us\": 2,\n"
                                                 "    \"ratio\": 1.5,\n"
                                                 "    \"tile_rows\": 8\n"));
  stg_strbuf_finish(&text);
  stg_bench_report_print(&report, &machine, &text);
  assert_string_equal(stg_strbuf_text(&text),
                      "Card 1, driver 13.2, NVRTC 13.0.88\n"
                      "steer  1 op  steergraph  3.00 us  wall 9.00 us  floor 2.00 us  x 1.50  "
                      "tile_rows 8\n");
  stg_strbuf_finish(&text);
  stg_bench_report_finish(&report);
}

static void says_the_release_of_the_driver_where_it_is_known(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  struct stg_strbuf text = {0};
  struct stg_bench_machine known = machine;
  struct stg_bench_row row = {.suite = "s", .name = "n", .series = "x", .floor_us = 2};
  known.driver_release = "580.159.04";
  stg_bench_row_extra(&row, "tile_rows", 8);
  add(&report, &row);
  stg_bench_report_print(&report, &known, &text);
  assert_non_null(strstr(stg_strbuf_text(&text), "Card 1, driver 13.2 (580.159.04), NVRTC 13.0"));
  stg_strbuf_finish(&text);
  stg_bench_report_finish(&report);
  row.driver_release = "580.159.04";
  add(&report, &row);
  stg_bench_report_json(&report, &known, &text);
  assert_non_null(strstr(stg_strbuf_text(&text), "\"ratio\": null,\n"
                                                 "    \"driver_release\": \"580.159.04\",\n"
                                                 "    \"tile_rows\": 8\n"));
  stg_strbuf_finish(&text);
  stg_bench_report_finish(&report);
}

static void keeps_rows_and_their_texts_of_its_own_while_it_grows(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  char name[16];
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "row %d", i);
    add(&report, &(struct stg_bench_row){.suite = "s", .name = name, .series = "x"});
  }
  memset(name, 0, sizeof name);
  assert_int_equal(report.n_rows, 200);
  assert_string_equal(report.rows[0].name, "row 0");
  assert_ptr_equal(stg_bench_report_find(&report, "s", "row 150", "x"), &report.rows[150]);
  assert_null(stg_bench_report_find(&report, "s", "row 150", "y"));
  stg_bench_report_finish(&report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_every_key_and_null_where_nothing_was_measured),
      cmocka_unit_test(gives_the_ratio_of_the_device_time_to_the_floor_and_extras_last),
      cmocka_unit_test(says_the_release_of_the_driver_where_it_is_known),
      cmocka_unit_test(keeps_rows_and_their_texts_of_its_own_while_it_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_plot.c: bars are as high as their times, floors are lines, and the file is XML.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/plot_scale.h"
#include "tools/bench/plot_series.h"
#include "tools/bench/plot_text.h"
#include "tools/bench/suite.h"
#include "tools/bench/svg.h"

extern char **environ;

static const struct stg_bench_machine machine = {
    .card = "Card <1> & \"2\"", .driver = 13000, .cuda = "13.0.88"};

/* cmocka's own is of float. */
static void assert_near(double expected, double found, double tolerance) {
  if (!(fabs(expected - found) <= tolerance)) {
    fail_msg("expected %.17g, found %.17g", expected, found);
  }
}

static void add(struct stg_bench_report *report, const char *name, const char *series, double us,
                double floor_us) {
  const struct stg_bench_row row = {.suite = "steer",
                                    .name = name,
                                    .series = series,
                                    .device = {us, us, us},
                                    .has_device = true,
                                    .floor_us = floor_us};
  assert_int_equal(STG_OK, stg_bench_report_add(report, &row, NULL));
}

/* The text of a plot; stg_free. */
static char *plot(void **state, const struct stg_bench_report *report) {
  char *text = NULL;
  size_t size = 0;
  stg_error err = STG_ERROR_INIT;
  const char *path = temp_path(state, "plot.svg");
  if (stg_bench_plot_write(report, &machine, path, &err) != STG_OK) {
    fail_msg("%s", err.message);
  }
  assert_int_equal(STG_OK, stg_file_read(path, 1 << 20, &text, &size, NULL));
  return text;
}

static double attribute(const char *element, const char *key) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, " %s=\"", key);
  const char *at = strstr(element, wanted);
  assert_non_null(at);
  return strtod(at + strlen(wanted), NULL);
}

/* The element that begins with `<rect class="bar"` and whose title has `text`. */
static const char *bar_of(const char *svg, const char *text) {
  const char *title = strstr(svg, text);
  assert_non_null(title);
  const char *found = NULL;
  for (const char *at = svg; (at = strstr(at, "<rect class=\"bar\"")) != NULL && at < title; at++) {
    found = at;
  }
  assert_non_null(found);
  return found;
}

static size_t count(const char *svg, const char *text) {
  size_t n = 0;
  for (const char *at = svg; (at = strstr(at, text)) != NULL; at++) {
    n++;
  }
  return n;
}

static void heights_are_proportional_to_times(void **state) {
  struct stg_bench_report report = {0};
  add(&report, "1 distinct", "steergraph", 10, 8);
  add(&report, "1 distinct", "copy", 8, 8);
  add(&report, "1 distinct", "slice loop", 40, 8);
  add(&report, "2 distinct", "steergraph", 12.5, 8);
  add(&report, "1 op, something else", "steergraph", 99, 0);
  char *svg = plot(state, &report);
  const double one = attribute(bar_of(svg, "1 distinct, steergraph: 10"), "height");
  const double loop = attribute(bar_of(svg, "1 distinct, slice loop: 40"), "height");
  const double two = attribute(bar_of(svg, "2 distinct, steergraph: 12.5"), "height");
  assert_near(4, loop / one, 0.01);
  assert_near(1.25, two / one, 0.01);
  assert_int_equal(3, count(svg, "<rect class=\"bar\""));
  assert_non_null(strstr(svg, "device time per apply, linear scale"));
  /* bars stand on one line, and the floor is where a bar of its time would end */
  const double ground = attribute(bar_of(svg, "1 distinct, steergraph"), "y") + one;
  const char *floor_line = strstr(bar_of(svg, "1 distinct, slice loop"), "<line class=\"floor\"");
  assert_non_null(floor_line);
  assert_near(ground - one * 0.8, attribute(floor_line, "y1"), 0.02);
  assert_near(ground - one * 0.8, attribute(floor_line, "y2"), 0.02);
  assert_int_equal(3, count(svg, "<line class=\"floor\"")); /* two groups and the key */
  stg_free(svg);
  stg_bench_report_finish(&report);
}

static void a_wide_span_is_logarithmic(void **state) {
  struct stg_bench_report report = {0};
  add(&report, "1 distinct", "steergraph", 10, 0);
  add(&report, "1 distinct", "a", 100, 0);
  add(&report, "1 distinct", "b", 1000, 0);
  char *svg = plot(state, &report);
  const double one = attribute(bar_of(svg, ", steergraph: 10"), "height");
  const double ten = attribute(bar_of(svg, ", a: 100"), "height");
  const double hundred = attribute(bar_of(svg, ", b: 1 ms"), "height");
  assert_true(one > 0);
  assert_near(ten - one, hundred - ten, 0.02);
  assert_non_null(strstr(svg, "device time per apply, logarithmic scale"));
  assert_null(strstr(svg, "class=\"floor\" x1"));
  stg_free(svg);
  stg_bench_report_finish(&report);
}

/* The colour of the bar whose title has `text`. */
static void assert_fill(const char *svg, const char *text, const char *colour) {
  const char *fill = strstr(bar_of(svg, text), "fill=\"");
  assert_non_null(fill);
  assert_memory_equal(fill + 6, colour, strlen(colour));
}

static void add_to(struct stg_bench_report *report, const char *suite, const char *name,
                   const char *series) {
  const struct stg_bench_row row = {.suite = suite,
                                    .name = name,
                                    .series = series,
                                    .device = {5, 5, 5},
                                    .wall = {5, 5, 5},
                                    .has_device = true,
                                    .has_wall = true};
  assert_int_equal(STG_OK, stg_bench_report_add(report, &row, NULL));
}

static void a_series_has_one_colour_in_all_panels_and_ours_is_first(void **state) {
  struct stg_bench_report report = {0};
  add_to(&report, "steer", "1 op", "torch x");
  add_to(&report, "steer", "1 op", "slice loop");
  add_to(&report, "steer", "1 op", "steergraph");
  add_to(&report, "steer", "1 distinct", "torch y");
  add_to(&report, "steer", "1 distinct", "torch x");
  add_to(&report, "warmup", "later calls", "eager launches");
  add_to(&report, "warmup", "later calls", "steergraph");
  char *svg = plot(state, &report);
  const char *const ours[] = {"1 op, steergraph: 5", "later calls, steergraph: 5"};
  for (size_t i = 0; i < 2; i++) {
    assert_fill(svg, ours[i], "#0072b2");
  }
  assert_true(attribute(bar_of(svg, "1 op, steergraph"), "x") <
              attribute(bar_of(svg, "1 op, slice loop"), "x"));
  assert_true(attribute(bar_of(svg, "1 op, slice loop"), "x") <
              attribute(bar_of(svg, "1 op, torch x"), "x"));
  assert_true(attribute(bar_of(svg, "later calls, steergraph"), "x") <
              attribute(bar_of(svg, "later calls, eager launches"), "x"));
  char colour[8] = {0};
  memcpy(colour, strstr(bar_of(svg, "1 op, torch x"), "fill=\"") + 6, 7);
  assert_fill(svg, "1 distinct, torch x", colour);
  /* each once in the legend, whatever the number of panels */
  assert_int_equal(5, count(svg, "<rect class=\"key\""));
  assert_int_equal(1, count(svg, ">steergraph</text>"));
  stg_free(svg);
  stg_bench_report_finish(&report);
}

static void a_group_is_as_wide_as_its_bars_and_warm_rows_are_left_out(void **state) {
  struct stg_bench_report report = {0};
  char name[32];
  for (int i = 0; i < 8; i++) {
    snprintf(name, sizeof name, "%d rows, 1 op", i + 1);
    add_to(&report, "decode", name, "steergraph");
    snprintf(name, sizeof name, "%d rows, 1 op, warm", i + 1);
    add_to(&report, "decode", name, "steergraph");
  }
  for (int i = 0; i < 12; i++) {
    snprintf(name, sizeof name, "torch %d", i);
    add_to(&report, "decode", "1 rows, 1 op", name);
  }
  char *svg = plot(state, &report);
  assert_int_equal(20, count(svg, "<rect class=\"bar\""));
  assert_null(strstr(svg, "warm"));
  assert_near(900, attribute(strstr(svg, "<svg"), "width"), 0);
  const double bar = attribute(bar_of(svg, "1 rows, 1 op, torch 1:"), "x") -
                     attribute(bar_of(svg, "1 rows, 1 op, torch 0:"), "x");
  assert_true(bar >= 11 && bar <= 18);
  assert_true(attribute(bar_of(svg, "3 rows, 1 op"), "x") -
                  attribute(bar_of(svg, "2 rows, 1 op"), "x") <
              8 * bar);
  stg_free(svg);
  stg_bench_report_finish(&report);
}

/* Its floor is a read; blocks and paged caches are in the tables alone, a loop has wall times. */
static void attention_has_panels_of_its_own(void **state) {
  static const char *const names[] = {"32 x 512 to 4096, 32/8 heads of 128",
                                      "32 x 512 to 4096, 32/8 heads of 128, paged",
                                      "block, 32 x 512 to 4096"};
  struct stg_bench_report report = {0};
  add_to(&report, "rope", "2048, 32/8 heads of 128", "steergraph");
  add_to(&report, "rope", "2048, 32/8 heads of 128", "copy");
  add_to(&report, "rope", "2048, 32/8 heads of 128", "torch rope");
  for (size_t i = 0; i < 3; i++) {
    add_to(&report, "attend", names[i], "steergraph");
    add_to(&report, "attend", names[i], "read");
  }
  report.rows[3].floor_us = 4;
  add_to(&report, "attend", "every length to 1024, 8 x 12 heads of 64, float32", "steergraph");
  char *svg = plot(state, &report);
  assert_int_equal(4, count(svg, "<rect class=\"bar\""));
  assert_int_equal(2, count(svg, "device time per launch"));
  assert_int_equal(1, count(svg, "wall time per token"));
  assert_int_equal(2, count(svg, "<line class=\"floor\"")); /* one group and the key */
  assert_non_null(strstr(svg, "2048, 32/8 heads of 128, torch rope: 5"));
  assert_non_null(strstr(svg, "32 x 512 to 4096, 32/8 heads of 128, steergraph: 5"));
  assert_non_null(strstr(svg, "heads of 64, float32, steergraph: 5"));
  assert_null(strstr(svg, "paged"));
  assert_null(strstr(svg, "block"));
  assert_null(strstr(svg, ">read</text>"));
  stg_free(svg);
  stg_bench_report_finish(&report);
}

static void more_bars_than_a_readme_shows_make_it_wider(void **state) {
  struct stg_bench_report report = {0};
  char name[32];
  char series[32];
  for (int i = 0; i < 10; i++) {
    snprintf(name, sizeof name, "%d distinct", i);
    for (int s = 0; s < STG_PLOT_MAX_SERIES + 4; s++) {
      snprintf(series, sizeof series, "series %d", s);
      add(&report, name, series, 10, 8);
    }
  }
  char *svg = plot(state, &report);
  assert_int_equal(10 * STG_PLOT_MAX_SERIES, count(svg, "<rect class=\"bar\""));
  const double width = attribute(strstr(svg, "<svg"), "width");
  assert_true(width >= 10 * STG_PLOT_MAX_SERIES * 11);
  snprintf(name, sizeof name, "9 distinct, series %d:", STG_PLOT_MAX_SERIES - 1);
  assert_true(attribute(bar_of(svg, name), "x") + 11 < width);
  stg_free(svg);
  stg_bench_report_finish(&report);
}

static void assert_lines(const char *text, size_t chars, const char *expected) {
  struct stg_plot_line lines[STG_PLOT_MAX_LINES];
  char found[256] = "";
  const size_t n = stg_plot_wrap(text, chars, lines);
  for (size_t i = 0; i < n; i++) {
    const size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%s%.*s", i > 0 ? "|" : "", (int)lines[i].bytes,
             lines[i].start);
  }
  assert_string_equal(expected, found);
}

static void names_are_broken_into_lines_and_never_cut(void **state) {
  (void)state;
  assert_lines("1 op", 10, "1 op");
  assert_lines("", 10, "");
  assert_lines("32 rows, 8 ops", 11, "32 rows,|8 ops");
  assert_lines("first result, empty cache", 30, "first result, empty cache");
  assert_lines("calls, a second thread creating 50 new tables", 16,
               "calls,|a second thread|creating 50 new|tables");
  assert_lines("unbreakable", 4, "unbreakable");
  assert_lines("unbreakable x", 0, "unbreakable|x");
  assert_lines("a b c d e f g h i j", 1, "a|b|c|d|e|f|g|h i j");
  assert_lines(" a  b ", 1, "|a|b");
  assert_lines("äöü äöü", 7, "äöü äöü");
  assert_int_equal(3, stg_plot_chars("äöü", strlen("äöü")));
}

static void warm_up_is_drawn_by_wall_time(void **state) {
  struct stg_bench_report report = {0};
  struct stg_bench_row row = {.suite = "warmup",
                              .name = "later calls",
                              .series = "steergraph",
                              .wall = {20, 20, 20},
                              .has_wall = true};
  assert_int_equal(STG_OK, stg_bench_report_add(&report, &row, NULL));
  row.name = "first result, empty cache";
  row.wall.median_us = 18.4e6;
  assert_int_equal(STG_OK, stg_bench_report_add(&report, &row, NULL));
  char *svg = plot(state, &report);
  assert_non_null(strstr(svg, "first result, empty cache, steergraph: 18.4 s"));
  assert_non_null(strstr(svg, "later calls, steergraph: 20 µs"));
  assert_non_null(strstr(svg, "wall time, logarithmic scale"));
  stg_free(svg);
  stg_bench_report_finish(&report);
}

static void is_well_formed_whatever_the_names(void **state) {
  struct stg_bench_report report = {0};
  add(&report, "<&\"'> 1 distinct", "]]> \x01 \xff\xfe ü", 10, 8);
  add(&report, "1 op", "steergraph", 10, 8);
  char *svg = plot(state, &report);
  assert_non_null(strstr(svg, "&lt;&amp;&quot;&#39;&gt; 1 distinct"));
  assert_non_null(strstr(svg, "]]&gt; ? ?? ü"));
  stg_free(svg);
  stg_bench_report_finish(&report);
  char python[] = "python3";
  char option[] = "-c";
  char code[] = "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])";
  char *path = stg_strdup(temp_path(state, "plot.svg"));
  char *argv[] = {python, option, code, path, NULL};
  pid_t pid = -1;
  int outcome = -1;
  assert_int_equal(0, posix_spawnp(&pid, python, NULL, NULL, argv, environ));
  assert_int_equal(pid, waitpid(pid, &outcome, 0));
  assert_int_equal(0, outcome);
  stg_free(path);
}

static void refuses_a_report_with_nothing_to_draw(void **state) {
  const struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  const char *path = temp_path(state, "none.svg");
  assert_int_equal(STG_E_INVALID, stg_bench_plot_write(&report, &machine, path, &err));
  assert_non_null(strstr(err.message, "none.svg': no row that is drawn"));
  assert_int_equal(STG_E_NOT_FOUND, stg_file_read(path, 10, NULL, NULL, NULL));
}

static void ticks_are_round_and_cover_all_times(void **state) {
  (void)state;
  const double pairs[][2] = {{1, 1}, {3, 37}, {9.99, 100}, {0.002, 18e6}, {1, 20}, {1, 21}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    const struct stg_plot_scale scale = stg_plot_scale_for(pairs[i][0], pairs[i][1]);
    assert_true(scale.n_ticks >= 2);
    assert_near(1, stg_plot_scale_share(&scale, scale.high_us), 1e-9);
    assert_near(scale.high_us, scale.ticks_us[scale.n_ticks - 1], scale.high_us * 1e-9);
    assert_true(scale.high_us >= pairs[i][1] * (1 - 1e-9));
    assert_true(stg_plot_scale_share(&scale, pairs[i][0]) > 0);
    assert_int_equal(pairs[i][1] > 20 * pairs[i][0], scale.logarithmic);
  }
}

static void times_have_their_unit(void **state) {
  (void)state;
  static const struct {
    double us;
    const char *text;
  } cases[] = {{0, "0"},           {0.85, "850 ns"}, {1, "1 µs"},
               {12.62, "12.6 µs"}, {999.7, "1 ms"},  {3043, "3.04 ms"},
               {18.4e6, "18.4 s"}, {999.6e3, "1 s"}, {999.2, "999 µs"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[STG_PLOT_TIME_CHARS];
    stg_plot_time(cases[i].us, text);
    assert_string_equal(cases[i].text, text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(heights_are_proportional_to_times, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_wide_span_is_logarithmic, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_series_has_one_colour_in_all_panels_and_ours_is_first,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_group_is_as_wide_as_its_bars_and_warm_rows_are_left_out,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(attention_has_panels_of_its_own, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(more_bars_than_a_readme_shows_make_it_wider,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test(names_are_broken_into_lines_and_never_cut),
      cmocka_unit_test_setup_teardown(warm_up_is_drawn_by_wall_time, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(is_well_formed_whatever_the_names, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_a_report_with_nothing_to_draw, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test(ticks_are_round_and_cover_all_times),
      cmocka_unit_test(times_have_their_unit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

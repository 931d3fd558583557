/*
 * test_peer_run.c: what a peer hands back is joined or refused; how it ends is said with its name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/peer_folder.h"
#include "tools/bench/peer_run.h"

static const struct stg_peer_arg one_op = {"steer", "1 op", "/nowhere"};

/* A script that writes `rows` to the file that it is told, and then does `then`. */
#define WRITES(rows, then)                                                                         \
  "import os, sys, time\n"                                                                         \
  "open(sys.argv[sys.argv.index('--json') + 1], 'w').write('''" rows "''')\n" then "\n"
#define ROW(name, more)                                                                            \
  "{\"suite\": \"steer\", \"name\": \"" name "\", \"series\": \"torch eager loop\", "              \
  "\"card\": \"Card 1\", \"driver\": 13000, \"cuda\": \"13.0\", \"median_us\": 20.0, "             \
  "\"min_us\": 19.0, \"max_us\": 24.0, \"wall_us\": 30.0, \"floor_us\": null, "                    \
  "\"ratio\": null" more "}"

/* cmocka's own is of float. */
static void assert_near(double expected, double found, double tolerance) {
  if (!(fabs(expected - found) <= tolerance)) {
    fail_msg("expected %.17g, found %.17g", expected, found);
  }
}

static void write_text(const char *path, const char *text) {
  assert_int_equal(STG_OK, stg_file_write_atomic(path, text, strlen(text), 0644, NULL));
}

static stg_status run_text(void **state, const char *script, double limit_s,
                           struct stg_bench_report *report, stg_error *err) {
  const char *path = temp_path(state, "peer_x.py");
  write_text(path, script);
  const struct stg_peer_call call = {.script = path,
                                     .cases = &one_op,
                                     .n_cases = 1,
                                     .out = temp_path(state, "rows.json"),
                                     .limit_s = limit_s};
  return stg_peer_run(&call, report, err);
}

static void add_ours(struct stg_bench_report *report) {
  struct stg_bench_row row = {.suite = "steer",
                              .name = "1 op",
                              .series = STG_BENCH_OURS,
                              .device = {10, 9, 11},
                              .has_device = true,
                              .floor_us = 8};
  stg_bench_row_extra(&row, "floor_early_us", 7.5);
  assert_int_equal(STG_OK, stg_bench_report_add(report, &row, NULL));
}

static double extra(const struct stg_bench_row *row, const char *key) {
  const double *value = stg_bench_row_find_extra(row, key);
  if (value == NULL) {
    fail_msg("no extra '%s'", key);
    return 0;
  }
  return *value;
}

static void joins_rows_to_ours(void **state) {
  struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  add_ours(&report);
  const char *script = WRITES("[" ROW("1 op", ", \"first_call_ms\": 18400.0") "]", "");
  assert_int_equal(STG_OK, run_text(state, script, 60, &report, &err));
  const struct stg_bench_row *row =
      stg_bench_report_find(&report, "steer", "1 op", "torch eager loop");
  assert_non_null(row);
  assert_true(row->has_device && row->has_wall);
  assert_near(20, row->device.median_us, 0);
  assert_near(19, row->device.min_us, 0);
  assert_near(24, row->device.max_us, 0);
  assert_near(30, row->wall.median_us, 0);
  assert_near(8, row->floor_us, 0);
  assert_near(7.5, extra(row, "floor_early_us"), 0);
  assert_near(2, extra(row, "steergraph_x"), 0);
  assert_near(18400, extra(row, "first_call_ms"), 0);
  assert_string_equal("Card 1", row->card);
  assert_string_equal("13.0", row->cuda);
  stg_bench_report_finish(&report);
}

static void adds_rows_that_have_none_of_ours(void **state) {
  struct stg_bench_report report = {0};
  assert_int_equal(STG_OK, run_text(state, WRITES("[" ROW("1 op", "") "]", ""), 60, &report, NULL));
  assert_int_equal(1, report.n_rows);
  assert_int_equal(0, report.rows[0].n_extras);
  stg_bench_report_finish(&report);
}

/* Nothing is added, and the message has the parts. */
static void check_refused(void **state, const char *script, double limit_s, stg_status status,
                          const char *said) {
  struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  add_ours(&report);
  assert_int_equal(status, run_text(state, script, limit_s, &report, &err));
  assert_int_equal(1, report.n_rows);
  if (strncmp(err.message, "peer 'peer_x.py': ", 18) != 0 || strstr(err.message, said) == NULL) {
    fail_msg("expected \"peer 'peer_x.py': ...%s\", found \"%s\"", said, err.message);
  }
  stg_bench_report_finish(&report);
}

static void says_the_last_line_of_a_peer_that_fails(void **state) {
  check_refused(state, "import sys\nprint('loading')\nsys.exit('cannot import torch: none\\n')\n",
                60, STG_E_IO, "cannot import torch: none (exit status 1)");
  check_refused(state, "import os\nos._exit(3)\n", 60, STG_E_IO,
                "failed and said nothing (exit status 3)");
}

static void says_the_signal_that_ended_a_peer(void **state) {
  check_refused(state, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", 60, STG_E_IO,
                "was ended by signal 11");
}

static void ends_a_peer_that_takes_too_long(void **state) {
  check_refused(state, "import time\ntime.sleep(600)\n", 0.3, STG_E_IO, "was not done after 0 s");
}

static void keeps_rows_of_a_peer_that_failed_after_writing(void **state) {
  static const struct {
    const char *script;
    double limit_s;
    const char *said;
  } cases[] = {
      {WRITES("[" ROW("1 op", "") "]", "sys.exit('no more')"), 60, "no more (exit status 1)"},
      {WRITES("[" ROW("1 op", "") "]", "os.kill(os.getpid(), 9)"), 60, "was ended by signal 9"},
      {WRITES("[" ROW("1 op", "") "]", "time.sleep(600)"), 3, "was not done after 3 s"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct stg_bench_report report = {0};
    stg_error err = STG_ERROR_INIT;
    add_ours(&report);
    assert_int_equal(STG_E_IO, run_text(state, cases[i].script, cases[i].limit_s, &report, &err));
    assert_non_null(strstr(err.message, cases[i].said));
    const struct stg_bench_row *row =
        stg_bench_report_find(&report, "steer", "1 op", "torch eager loop");
    assert_non_null(row);
    assert_near(2, extra(row, "steergraph_x"), 0);
    stg_bench_report_finish(&report);
  }
}

static void refuses_wrong_rows_of_a_peer_that_failed(void **state) {
  check_refused(state, WRITES("[" ROW("1 op", "") ", 5]", "sys.exit('too late')"), 60, STG_E_IO,
                "too late (exit status 1)");
  check_refused(state, WRITES("[" ROW("1 op", ""), "sys.exit('too late')"), 60, STG_E_IO,
                "too late (exit status 1)");
}

static void refuses_what_are_no_rows(void **state) {
  check_refused(state, WRITES("[]", ""), 60, STG_E_FORMAT, "at least one row");
  check_refused(state, WRITES("{", ""), 60, STG_E_FORMAT, "rows.json");
  check_refused(state, WRITES("[" ROW("1 op", "") ", " ROW("2 ops", "") "]", ""), 60, STG_E_FORMAT,
                "'2 ops' of suite 'steer' is none of its cases");
  check_refused(state, WRITES("[" ROW("1 op", ", \"first_call_ms\": \"5\"") "]", ""), 60,
                STG_E_FORMAT, "first_call_ms");
  check_refused(state, WRITES("[{\"suite\": \"steer\"}]", ""), 60, STG_E_FORMAT, "name");
  check_refused(state,
                WRITES("[{\"suite\": \"steer\", \"name\": \"1 op\", \"series\": \"torch\", "
                       "\"card\": \"Card 1\", \"driver\": 13000, \"cuda\": \"13.0\", "
                       "\"median_us\": null, \"min_us\": null, \"max_us\": null, "
                       "\"wall_us\": 30.0, \"floor_us\": null, \"ratio\": null}]",
                       ""),
                60, STG_E_FORMAT, "[0]: 'median_us' of a peer is null");
  check_refused(state, "pass\n", 60, STG_E_NOT_FOUND, "rows.json");
}

static void finds_the_scripts_or_says_where_it_looked(void **state) {
  char *folder = NULL;
  stg_error err = STG_ERROR_INIT;
  const char *empty = temp_path(state, "");
  assert_int_equal(STG_E_NOT_FOUND, stg_peer_folder_find(empty, &folder, &err));
  assert_null(folder);
  assert_non_null(strstr(err.message, empty));
  assert_non_null(strstr(err.message, "--peers-from"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(joins_rows_to_ours, temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(adds_rows_that_have_none_of_ours, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(says_the_last_line_of_a_peer_that_fails, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(says_the_signal_that_ended_a_peer, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(ends_a_peer_that_takes_too_long, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(keeps_rows_of_a_peer_that_failed_after_writing,
                                      temp_folder_setup, temp_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_wrong_rows_of_a_peer_that_failed, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_what_are_no_rows, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(finds_the_scripts_or_says_where_it_looked, temp_folder_setup,
                                      temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

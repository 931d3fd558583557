/*
 * test_bench_peers.c: what a run with peers keeps and adds. Cases and processes are left out: they
 * need a GPU, and test_peer_run.c has the processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tools/bench/attn_peers.h"
#include "tools/bench/peer_case.h"
#include "tools/bench/peer_run.h"
#include "tools/bench/suite.h"

#define COMPILED "torch.compile loop (dynamic)"

static const char *failing; /* the script that fails, or NULL */
static size_t started, attention_runs;

stg_status stg_peer_case_write(const struct stg_bench_batch *batch, const char *folder,
                               stg_error *reterr) {
  (void)batch, (void)folder, (void)reterr;
  return STG_OK;
}

stg_status stg_peer_case_expect(const char *folder, const char *cache, stg_error *reterr) {
  (void)folder, (void)cache, (void)reterr;
  return STG_OK;
}

/* Those of attention, which have their own list and cases. */
stg_status stg_attn_peers_run(const struct stg_attn_peers *run, struct stg_bench_report *report,
                              stg_error *reterr) {
  (void)report;
  attention_runs++;
  assert_non_null(run->folder);
  return failing != NULL && strcmp(failing, "rope.py") == 0
             ? stg_error_set(reterr, STG_E_IO, "peer 'rope.py': was not done after 120 s")
             : STG_OK;
}

/* Each peer adds a row of its first case, as those of loop.py and compiled.py are called. */
stg_status stg_peer_run(const struct stg_peer_call *call, struct stg_bench_report *report,
                        stg_error *reterr) {
  const char *script = strrchr(call->script, '/') + 1;
  const bool compiled = strcmp(script, "compiled.py") == 0;
  started++;
  if (failing != NULL && strcmp(script, failing) == 0) {
    return stg_error_set(reterr, STG_E_IO, "peer '%s': was not done after 120 s", script);
  }
  struct stg_bench_row row = {.suite = call->cases[0].suite,
                              .name = call->cases[0].name,
                              .series = compiled ? COMPILED : "torch eager loop",
                              .wall = {.median_us = compiled ? 500 : 1500},
                              .has_wall = true};
  stg_bench_row_extra(&row, "first_call_ms", 10);
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status run(const char *script, struct stg_bench_report *report, stg_error *err) {
  static const char *const suites[] = {"warmup"};
  const struct stg_bench_options options = {.peers = STG_PEERS_SOURCE};
  const struct stg_bench_row ours = {
      .suite = "warmup", .name = "later calls", .series = STG_BENCH_OURS};
  failing = script;
  started = 0;
  assert_int_equal(STG_OK, stg_bench_report_add(report, &ours, NULL));
  return stg_bench_peers_run(&options, suites, 1, report, err);
}

static void keeps_our_rows_and_those_of_earlier_peers_when_one_fails(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_E_IO, run("compiled.py", &report, &err));
  assert_string_equal("peer 'compiled.py': was not done after 120 s", err.message);
  assert_int_equal(2, started);
  assert_int_equal(2, report.n_rows);
  assert_string_equal(STG_BENCH_OURS, report.rows[0].series);
  assert_string_equal("torch eager loop", report.rows[1].series);
  stg_bench_report_finish(&report);
}

static void says_how_long_a_compiled_peer_takes_to_amortise(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  assert_int_equal(STG_OK, run(NULL, &report, NULL));
  assert_int_equal(3, started);
  assert_int_equal(0, attention_runs);
  const struct stg_bench_row *first =
      stg_bench_report_find(&report, "warmup", "first result, empty cache", COMPILED);
  assert_non_null(first);
  const double *calls = stg_bench_row_find_extra(first, "amortise_calls");
  assert_non_null(calls);
  assert_true(*calls == 10); /* 9500 us at 1000 a call, and the first */
  assert_non_null(stg_bench_report_find(&report, "warmup", "later calls", COMPILED));
  stg_bench_report_finish(&report);
}

static void names_a_workload_that_its_suite_has_not(void **state) {
  (void)state;
  static const char *const suites[] = {"decode"};
  const struct stg_bench_options options = {.peers = STG_PEERS_SOURCE};
  struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_E_NOT_FOUND, stg_bench_peers_run(&options, suites, 1, &report, &err));
  assert_non_null(strstr(err.message, "suite 'decode' has no row '32 rows, 1 op' of ours"));
  stg_bench_report_finish(&report);
}

static void has_attention_done_by_peers_of_its_own(void **state) {
  (void)state;
  static const char *const suites[] = {"rope"};
  const struct stg_bench_options options = {.peers = STG_PEERS_SOURCE};
  const struct stg_bench_row ours = {.suite = "rope", .name = "x", .series = STG_BENCH_OURS};
  struct stg_bench_report report = {0};
  stg_error err = STG_ERROR_INIT;
  started = attention_runs = 0;
  failing = NULL;
  assert_int_equal(STG_OK, stg_bench_report_add(&report, &ours, NULL));
  assert_int_equal(STG_OK, stg_bench_peers_run(&options, suites, 1, &report, &err));
  failing = "rope.py";
  assert_int_equal(STG_E_IO, stg_bench_peers_run(&options, suites, 1, &report, &err));
  assert_string_equal("peer 'rope.py': was not done after 120 s", err.message);
  assert_int_equal(0, started);
  assert_int_equal(2, attention_runs);
  assert_int_equal(1, report.n_rows);
  stg_bench_report_finish(&report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_our_rows_and_those_of_earlier_peers_when_one_fails),
      cmocka_unit_test(says_how_long_a_compiled_peer_takes_to_amortise),
      cmocka_unit_test(has_attention_done_by_peers_of_its_own),
      cmocka_unit_test(names_a_workload_that_its_suite_has_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

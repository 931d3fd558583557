/*
 * test_bench_peers.c: what a run with peers keeps and adds. Cases and processes are left out: they
 * need a GPU, and test_peer_run.c has the processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "runtime/base/interrupt.h"
#include "tools/bench/attn_peers.h"
#include "tools/bench/components_peers.h"
#include "tools/bench/peer_case.h"
#include "tools/bench/prove_peers.h"
#include "tools/bench/suite.h"

#define COMPILED "torch.compile loop (dynamic)"

static const char *failing; /* the script that fails, or NULL */
static bool out_of_memory;  /* where one fails */
static bool interrupted;    /* by Ctrl-C while a script runs */
static size_t started, attention_runs, prove_runs, components_runs;

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
  assert_non_null(run->failures);
  return failing != NULL && strcmp(failing, "rope") == 0
             ? stg_error_set(reterr, STG_E_CORRUPT, "the oracle does not agree")
             : STG_OK;
}

stg_status stg_prove_peers_run(const struct stg_prove_peers *run, struct stg_bench_report *report,
                               stg_error *reterr) {
  (void)report;
  prove_runs++;
  assert_non_null(run->folder);
  assert_non_null(run->scripts);
  assert_non_null(run->failures);
  return failing != NULL && strcmp(failing, "prove") == 0
             ? stg_error_set(reterr, STG_E_CORRUPT, "the oracle does not agree")
             : STG_OK;
}

/* Those of components, likewise. */
bool stg_components_peers_wanted(const char *const *suites, size_t n_suites) {
  return n_suites == 1 && strcmp(suites[0], "components") == 0;
}

stg_status stg_components_peers_run(const struct stg_components_peers *run,
                                    struct stg_bench_report *report, stg_error *reterr) {
  (void)report, (void)reterr;
  components_runs++;
  assert_non_null(run->folder);
  assert_non_null(run->scripts);
  assert_non_null(run->failures);
  return STG_OK;
}

/* Each peer adds a row of its first case, as those of loop.py and compiled.py are called. */
stg_status stg_peer_run(const struct stg_peer_call *call, struct stg_bench_report *report,
                        stg_error *reterr) {
  const char *script = strrchr(call->script, '/') + 1;
  const bool compiled = strcmp(script, "compiled.py") == 0;
  const bool reduced = strcmp(script, "reduced.py") == 0;
  started++;
  if (interrupted) {
    assert_int_equal(0, raise(SIGINT));
  }
  if (failing != NULL && strcmp(script, failing) == 0 && out_of_memory) {
    return stg_error_set(reterr, STG_E_NO_MEMORY, "the rows of a report");
  }
  if (failing != NULL && strcmp(script, failing) == 0) {
    return stg_error_set(reterr, STG_E_IO, "peer '%s': was not done after 120 s", script);
  }
  struct stg_bench_row row = {.suite = call->cases[0].suite,
                              .name = call->cases[0].name,
                              .series = compiled  ? COMPILED
                                        : reduced ? "torch.compile loop (reduce-overhead)"
                                                  : "torch eager loop",
                              .wall = {.median_us = compiled ? 500 : 1500},
                              .has_wall = true};
  stg_bench_row_extra(&row, "first_call_ms", 10);
  return stg_bench_report_add(report, &row, reterr);
}

static stg_status run(const char *script, struct stg_bench_report *report,
                      struct stg_peer_failures *failures, stg_error *err) {
  static const char *const suites[] = {"warmup"};
  const struct stg_bench_options options = {.peers = STG_PEERS_SOURCE};
  const struct stg_bench_row ours = {
      .suite = "warmup", .name = "later calls", .series = STG_BENCH_OURS};
  failing = script;
  started = 0;
  assert_int_equal(STG_OK, stg_bench_report_add(report, &ours, NULL));
  return stg_bench_peers_run(&options, suites, 1, report, failures, err);
}

static void goes_on_with_the_others_when_a_peer_fails(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  struct stg_peer_failures failures = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_OK, run("loop.py", &report, &failures, &err));
  assert_int_equal(1, failures.count);
  assert_string_equal("peer 'loop.py': was not done after 120 s", failures.first.message);
  assert_int_equal(3, started);
  assert_string_equal(STG_BENCH_OURS, report.rows[0].series);
  assert_string_equal(STG_BENCH_RUN, report.rows[1].suite);
  assert_string_equal("peer loop.py failed", report.rows[1].name);
  assert_non_null(stg_bench_report_find(&report, "steer", "1 op", COMPILED));
  /* which is amortised over a loop that was not timed */
  assert_null(stg_bench_report_find(&report, "warmup", "first result, empty cache", COMPILED));
  stg_bench_report_finish(&report);
}

static void starts_no_other_peer_without_memory(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  struct stg_peer_failures failures = {0};
  stg_error err = STG_ERROR_INIT;
  out_of_memory = true;
  assert_int_equal(STG_E_NO_MEMORY, run("loop.py", &report, &failures, &err));
  out_of_memory = false;
  assert_string_equal("the rows of a report", err.message);
  assert_int_equal(1, started);
  assert_int_equal(0, failures.count);
  stg_bench_report_finish(&report);
}

/* A signal that is to end us waits until everything is cleared away. */
static void starts_no_other_peer_when_it_is_to_end(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  struct stg_peer_failures failures = {0};
  struct stg_interrupt_hold hold;
  stg_error err = STG_ERROR_INIT;
  int signal = 0;
  stg_interrupt_hold(&hold);
  interrupted = true;
  assert_int_equal(STG_E_IO, run("loop.py", &report, &failures, &err));
  assert_string_equal("peer 'loop.py': was not done after 120 s", err.message);
  assert_int_equal(1, started);
  assert_int_equal(0, failures.count);
  assert_int_equal(1, report.n_rows);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  assert_int_equal(0, sigwait(&set, &signal));
  assert_int_equal(SIGINT, signal);
  interrupted = false;
  stg_interrupt_release(&hold);
  stg_bench_report_finish(&report);
}

static void says_how_long_a_compiled_peer_takes_to_amortise(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  struct stg_peer_failures failures = {0};
  assert_int_equal(STG_OK, run(NULL, &report, &failures, NULL));
  assert_int_equal(0, failures.count);
  assert_int_equal(3, started);
  assert_int_equal(0, attention_runs + prove_runs + components_runs);
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
  struct stg_peer_failures failures = {0};
  stg_error err = STG_ERROR_INIT;
  assert_int_equal(STG_E_NOT_FOUND,
                   stg_bench_peers_run(&options, suites, 1, &report, &failures, &err));
  assert_non_null(strstr(err.message, "suite 'decode' has no row '32 rows, 1 op' of ours"));
  stg_bench_report_finish(&report);
}

static void has_attention_done_by_peers_of_its_own(void **state) {
  (void)state;
  static const char *const suites[] = {"rope"};
  const struct stg_bench_options options = {.peers = STG_PEERS_SOURCE};
  const struct stg_bench_row ours = {.suite = "rope", .name = "x", .series = STG_BENCH_OURS};
  struct stg_bench_report report = {0};
  struct stg_peer_failures failures = {0};
  stg_error err = STG_ERROR_INIT;
  started = attention_runs = 0;
  failing = NULL;
  assert_int_equal(STG_OK, stg_bench_report_add(&report, &ours, NULL));
  assert_int_equal(STG_OK, stg_bench_peers_run(&options, suites, 1, &report, &failures, &err));
  failing = "rope";
  assert_int_equal(STG_E_CORRUPT,
                   stg_bench_peers_run(&options, suites, 1, &report, &failures, &err));
  assert_string_equal("the oracle does not agree", err.message);
  assert_int_equal(0, started);
  assert_int_equal(2, attention_runs);
  assert_int_equal(1, report.n_rows);
  stg_bench_report_finish(&report);
}

static void has_proof_searches_done_by_peers_of_their_own(void **state) {
  (void)state;
  static const char *const suites[] = {"prove"};
  const struct stg_bench_options options = {.peers = STG_PEERS_SOURCE};
  struct stg_bench_report report = {0};
  struct stg_peer_failures failures = {0};
  stg_error err = STG_ERROR_INIT;
  started = attention_runs = prove_runs = 0;
  failing = NULL;
  assert_int_equal(STG_OK, stg_bench_peers_check(&options, suites, 1, &err));
  assert_int_equal(STG_OK, stg_bench_peers_run(&options, suites, 1, &report, &failures, &err));
  failing = "prove";
  assert_int_equal(STG_E_CORRUPT,
                   stg_bench_peers_run(&options, suites, 1, &report, &failures, &err));
  assert_string_equal("the oracle does not agree", err.message);
  assert_int_equal(2, prove_runs);
  assert_int_equal(0, started + attention_runs);
  stg_bench_report_finish(&report);
}

static void has_components_done_by_a_peer_of_their_own(void **state) {
  (void)state;
  static const char *const suites[] = {"components"};
  const struct stg_bench_options options = {.peers = STG_PEERS_SOURCE};
  struct stg_bench_report report = {0};
  struct stg_peer_failures failures = {0};
  stg_error err = STG_ERROR_INIT;
  started = attention_runs = components_runs = 0;
  failing = NULL;
  assert_int_equal(STG_OK, stg_bench_peers_check(&options, suites, 1, &err));
  assert_int_equal(STG_OK, stg_bench_peers_run(&options, suites, 1, &report, &failures, &err));
  assert_true(components_runs == 1 && started == 0 && attention_runs == 0);
  stg_bench_report_finish(&report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(goes_on_with_the_others_when_a_peer_fails),
      cmocka_unit_test(starts_no_other_peer_without_memory),
      cmocka_unit_test(starts_no_other_peer_when_it_is_to_end),
      cmocka_unit_test(says_how_long_a_compiled_peer_takes_to_amortise),
      cmocka_unit_test(has_attention_done_by_peers_of_its_own),
      cmocka_unit_test(has_proof_searches_done_by_peers_of_their_own),
      cmocka_unit_test(has_components_done_by_a_peer_of_their_own),
      cmocka_unit_test(names_a_workload_that_its_suite_has_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

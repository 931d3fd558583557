/*
 * test_bench_prove_suite.c: the suite `prove` on a device of the host, whose pools are few and
 * small, and whose clocks are stood in for; and its peer, of which none is run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/support/host_device.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/prove_bed.h"
#include "tools/bench/prove_first.h"
#include "tools/bench/prove_floor.h"
#include "tools/bench/prove_peers.h"
#include "tools/bench/timing.h"

#define DEVICE_US 2000.0
#define WALL_US 3000.0
#define FMA 1e6
#define TF32 4e6

static size_t peaks_measured, first_reports, children;
static bool peaks_fail;
static bool spoils; /* a proof of a launch */

/* ---- what the suite finds ---- */

/* NOLINTBEGIN: names of the linker */
struct stg_prove_extent __wrap_stg_prove_extent_of(bool cuda, bool quick);
struct stg_prove_extent __wrap_stg_prove_extent_of(bool cuda, bool quick) {
  (void)quick;
  assert_true(cuda);
  return (struct stg_prove_extent){
      .bases = 1, .arithmetics = 3, .largest = 64, .repeats = 1, .checked = 2};
}

size_t __wrap_stg_prove_published_count(enum stg_prove_published which);
size_t __wrap_stg_prove_published_count(enum stg_prove_published which) {
  return which == STG_PROVE_UNPADDED ? 3 : 8;
}
/* NOLINTEND */

stg_status stg_prove_first_report(const struct stg_bench_options *options,
                                  struct stg_bench_report *report, stg_error *reterr) {
  (void)options, (void)report, (void)reterr;
  first_reports++;
  return STG_OK;
}

stg_status stg_prove_first_child(const struct stg_bench_options *options,
                                 struct stg_bench_report *report, stg_error *reterr) {
  (void)options, (void)report, (void)reterr;
  children++;
  return STG_OK;
}

stg_status stg_prove_peaks_measure(stg_engine *engine, bool quick, struct stg_prove_peaks *ret,
                                   stg_error *reterr) {
  (void)engine, (void)quick;
  peaks_measured++;
  *ret = (struct stg_prove_peaks){FMA, TF32};
  return peaks_fail ? stg_error_set(reterr, STG_E_CUDA, "no peak") : STG_OK;
}

static stg_status run_once(const struct stg_bench_timer *timer,
                           const struct stg_bench_buffers *buffers, stg_bench_launch launch,
                           void *user, stg_error *reterr) {
  stg_status status = launch(user, buffers, 0, stg_mem_stream(timer->engine), reterr);
  return status == STG_OK ? stg_mem_synchronize(timer->engine, reterr) : status;
}

stg_status stg_bench_time_wall(const struct stg_bench_timer *timer,
                               const struct stg_bench_buffers *buffers, stg_bench_launch launch,
                               void *user, struct stg_times *ret_time, stg_error *reterr) {
  *ret_time = (struct stg_times){WALL_US, WALL_US, WALL_US};
  return run_once(timer, buffers, launch, user, reterr);
}

stg_status stg_bench_time_eager(const struct stg_bench_timer *timer,
                                const struct stg_bench_buffers *buffers, stg_bench_launch launch,
                                void *user, struct stg_times *ret_time, stg_error *reterr) {
  const struct stg_prove_pool_run *run = user;
  *ret_time = (struct stg_times){DEVICE_US, DEVICE_US, DEVICE_US};
  stg_status status = run_once(timer, buffers, launch, user, reterr);
  if (spoils && run->n == 64) {
    ((stg_proof *)run->bed->device.proofs)[60].depth++; /* device memory is heap */
  }
  return status;
}

/* ---- cases ---- */

static stg_status run(struct stg_bench_report *report, stg_error *error) {
  const struct stg_bench_options options = {.cache = ""};
  peaks_measured = first_reports = children = 0;
  return stg_bench_suite_prove(&options, report, error);
}

static double extra(const struct stg_bench_row *row, const char *key) {
  const double *found = stg_bench_row_find_extra(row, key);
  if (found == NULL) {
    fail_msg("'%s', '%s' has no '%s'", row->name, row->series, key);
  }
  return found != NULL ? *found : 0;
}

static void check_pool(const struct stg_bench_report *report, const char *name,
                       enum stg_prover_arithmetic arithmetic, double peak) {
  const struct stg_bench_row *row =
      stg_bench_report_find(report, "prove", name, stg_prove_series(arithmetic));
  assert_non_null(row);
  const double flop = extra(row, "gflop") * 1e9;
  assert_true(row->has_device && row->device.median_us == DEVICE_US);
  assert_true(row->has_wall && row->wall.median_us == WALL_US);
  assert_true(row->floor_us > 0.999 * flop / peak && row->floor_us < 1.001 * flop / peak);
  assert_true(extra(row, "useful") == 1);
  assert_true(extra(row, "us_each") == DEVICE_US / extra(row, "pool"));
  assert_true(extra(row, "memory_mb") > extra(row, "states_mb"));
  assert_true(extra(row, "states_mb") > 0);
  if (arithmetic != STG_PROVER_F32) {
    assert_true(extra(row, "same_outcomes") == 1);
  }
}

static void measures_pools_in_every_arithmetic(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  stg_error error = STG_ERROR_INIT;
  if (run(&report, &error) != STG_OK) {
    fail_msg("%s", error.message);
  }
  assert_int_equal(4 + 3, report.n_rows); /* published in float32, a pool in each */
  assert_int_equal(1, peaks_measured);
  assert_int_equal(1, first_reports);
  assert_int_equal(0, children);
  check_pool(&report, "countries, pool 64", STG_PROVER_F32, FMA);
  check_pool(&report, "countries, pool 64", STG_PROVER_TF32X3, TF32 / 3);
  check_pool(&report, "countries, pool 64", STG_PROVER_TF32, TF32);
  const struct stg_bench_row *repeated =
      stg_bench_report_find(&report, "prove", "countries, 512 repeated", STG_BENCH_OURS);
  assert_non_null(repeated);
  assert_true(extra(repeated, "steps_each") == (double)(int)extra(repeated, "steps_each"));
  assert_true(extra(repeated, "compiles") == 0);
  assert_false(repeated->has_device);
  stg_bench_report_finish(&report);
}

static void refuses_a_launch_that_proves_something_else(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  stg_error error = STG_ERROR_INIT;
  spoils = true;
  assert_int_equal(STG_E_CORRUPT, run(&report, &error));
  spoils = false;
  assert_string_equal("bench prove, countries, steergraph: candidate 60 has another proof in a "
                      "pool of 64 than in one of 64",
                      error.message);
  assert_int_equal(4, report.n_rows);
  stg_bench_report_finish(&report);
}

static void says_of_which_base_it_could_not_measure(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  stg_error error = STG_ERROR_INIT;
  peaks_fail = true;
  assert_int_equal(STG_E_CUDA, run(&report, &error));
  peaks_fail = false;
  assert_string_equal("bench prove, countries, steergraph: no peak", error.message);
  assert_int_equal(0, report.n_rows);
  stg_bench_report_finish(&report);
}

static void takes_no_word_but_its_own(void **state) {
  (void)state;
  static const char *const own[] = {STG_BENCH_CHILD}, *const other[] = {"x.json"};
  const struct stg_bench_options options[] = {{.words = own, .n_words = 1},
                                              {.words = other, .n_words = 1}};
  struct stg_bench_report report = {0};
  stg_error error = STG_ERROR_INIT;
  children = 0;
  assert_int_equal(STG_OK, stg_bench_suite_prove(&options[0], &report, &error));
  assert_int_equal(1, children);
  assert_int_equal(STG_E_INVALID, stg_bench_suite_prove(&options[1], &report, &error));
  assert_string_equal("bench prove: it takes no word, found 'x.json'", error.message);
}

/* ---- its peer ---- */

static void add_row(struct stg_bench_report *report, const char *name) {
  const struct stg_bench_row row = {.suite = "prove", .name = name, .series = STG_BENCH_OURS};
  assert_int_equal(STG_OK, stg_bench_report_add(report, &row, NULL));
}

static void a_report_without_rows_of_ours_has_no_peer(void **state) {
  const struct stg_bench_options options = {.cache = ""};
  struct stg_peer_failures failures = {0};
  const struct stg_prove_peers peers = {.options = &options,
                                        .scripts = STG_PEERS_SOURCE,
                                        .folder = temp_path(state, "."),
                                        .failures = &failures};
  struct stg_bench_report report = {0};
  stg_error error = STG_ERROR_INIT;
  add_row(&report, "countries, pool 110"); /* which has none */
  assert_int_equal(STG_E_NOT_FOUND, stg_prove_peers_run(&peers, &report, &error));
  assert_string_equal("bench --peers: suite 'prove' has no row of ours that a peer is measured "
                      "beside",
                      error.message);
  stg_bench_report_finish(&report);
}

static void a_peer_that_fails_is_counted_behind_its_files(void **state) {
  const struct stg_bench_options options = {.cache = ""};
  struct stg_peer_failures failures = {0};
  struct stg_bench_report report = {0};
  stg_error error = STG_ERROR_INIT;
  char scripts[512], folder[512];
  char *text = NULL;
  size_t size = 0;
  snprintf(scripts, sizeof scripts, "%s", temp_path(state, "none"));
  snprintf(folder, sizeof folder, "%s", temp_path(state, "."));
  const struct stg_prove_peers peers = {
      .options = &options, .scripts = scripts, .folder = folder, .failures = &failures};
  add_row(&report, "countries, pool 64");
  assert_int_equal(STG_OK, stg_prove_peers_run(&peers, &report, &error));
  assert_int_equal(1, failures.count);
  assert_non_null(strstr(failures.first.message, "peer 'prove.py': "));
  assert_int_equal(STG_OK, stg_file_read(temp_path(state, "countries/case.json"), 1 << 20, &text,
                                         &size, &error));
  assert_non_null(strstr(text, "\"countries, pool 64\""));
  stg_free(text);
  stg_bench_report_finish(&report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(measures_pools_in_every_arithmetic),
      cmocka_unit_test(refuses_a_launch_that_proves_something_else),
      cmocka_unit_test(says_of_which_base_it_could_not_measure),
      cmocka_unit_test(takes_no_word_but_its_own),
      cmocka_unit_test_setup_teardown(a_report_without_rows_of_ours_has_no_peer, temp_folder_setup,
                                      temp_folder_teardown),
      cmocka_unit_test_setup_teardown(a_peer_that_fails_is_counted_behind_its_files,
                                      temp_folder_setup, temp_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

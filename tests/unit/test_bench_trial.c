/*
 * test_bench_trial.c: a trial checks every baseline's result before anything of it is timed, and
 * refuses one that differs. What a device does is stood in for: rows are the host's, and a "time"
 * only says that it was asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "engine/hostmem.h"
#include "tools/bench/bed.h"
#include "tools/bench/trial.h"

#define HIDDEN 64
#define ROWS 4
#define N_SERVING (STG_BENCH_N_BASELINES - 1) /* the last serves one kind of op alone */

static const struct stg_bench_mix mix = {.name = "4 rows",
                                         .hidden_size = HIDDEN,
                                         .n_requests = ROWS,
                                         .rows_each = 1,
                                         .n_ops = 1,
                                         .n_distinct = ROWS,
                                         .kind = STG_BENCH_MIXED};

static uint16_t rows[ROWS * HIDDEN];
static void *memory[] = {rows}, *residual[] = {NULL};
static uint16_t pristine[ROWS * HIDDEN];

/* What was done, in order: 'o' our apply, 'b' a baseline, 't' anything timed but the floors. */
static char log_text[64];
static size_t log_length;
static size_t wrong; /* the number of the baseline whose result differs; 0: none */

static void note(char what) {
  assert_true(log_length < sizeof log_text - 1);
  log_text[log_length++] = what;
  log_text[log_length] = '\0';
}

stg_stream stg_mem_stream(stg_engine *engine) {
  (void)engine;
  return NULL;
}

stg_status stg_mem_download(stg_engine *engine, void *to, const void *from, size_t bytes,
                            stg_error *reterr) {
  (void)engine, (void)reterr;
  memcpy(to, from, bytes);
  return STG_OK;
}

stg_status stg_bench_buffers_restore(stg_engine *engine, const struct stg_bench_buffers *buffers,
                                     stg_error *reterr) {
  (void)engine, (void)reterr;
  memcpy(buffers->memory[0], pristine, sizeof pristine);
  return STG_OK;
}

struct stg_bench_buffers stg_bench_buffers_warm(stg_engine *engine,
                                                const struct stg_bench_buffers *buffers) {
  (void)engine;
  return *buffers;
}

void stg_bench_buffers_finish(stg_engine *engine, struct stg_bench_buffers *buffers) {
  (void)engine, (void)buffers;
}

stg_status stg_bench_bed_buffers(stg_engine *engine, const struct stg_bench_batch *batch,
                                 struct stg_bench_buffers *ret, stg_error *reterr) {
  (void)engine, (void)reterr;
  memcpy(pristine, batch->hidden, sizeof pristine);
  *ret = (struct stg_bench_buffers){
      .count = 1, .bytes = sizeof rows, .memory = memory, .residual = residual};
  return STG_OK;
}

stg_status stg_bench_bed_init(stg_engine *engine, const struct stg_bench_batch *batch,
                              bool every_op, struct stg_bench_bed *ret, stg_error *reterr) {
  (void)engine, (void)batch, (void)every_op, (void)ret, (void)reterr;
  return STG_OK;
}

void stg_bench_bed_finish(struct stg_bench_bed *bed) {
  (void)bed;
}

stg_status stg_bench_bed_plan(const stg_frame *frame, struct stg_bench_row *row,
                              stg_error *reterr) {
  (void)frame, (void)row, (void)reterr;
  return STG_OK;
}

/* Either side's work: the sign of every element. */
static void work_on(const struct stg_bench_buffers *buffers) {
  uint16_t *at = buffers->memory[0];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    at[i] ^= 0x8000;
  }
}

stg_status stg_bench_bed_launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                                stg_stream stream, stg_error *reterr) {
  (void)user, (void)index, (void)stream, (void)reterr;
  note('o');
  work_on(buffers);
  return STG_OK;
}

static stg_status launch_nth(const struct stg_bench_buffers *buffers, size_t nth) {
  note('b');
  work_on(buffers);
  if (nth == wrong) {
    uint16_t *at = buffers->memory[0];
    at[2 * HIDDEN + 5] ^= 0x0040; /* a half more, of row 2 */
  }
  return STG_OK;
}

#define BASELINE(nth)                                                                              \
  static stg_status launch_##nth(void *user, const struct stg_bench_buffers *buffers,              \
                                 size_t index, stg_stream stream, stg_error *reterr) {             \
    (void)user, (void)index, (void)stream, (void)reterr;                                           \
    return launch_nth(buffers, nth);                                                               \
  }
BASELINE(1)
BASELINE(2)
BASELINE(3)
BASELINE(4)
BASELINE(5)
BASELINE(6)

const struct stg_bench_baseline stg_bench_baselines[STG_BENCH_N_BASELINES] = {
    {"way 1", launch_1, false, false}, {"way 2", launch_2, false, false},
    {"way 3", launch_3, true, false},  {"way 4", launch_4, false, false},
    {"way 5", launch_5, false, false}, {"way 6", launch_6, false, true},
};

bool stg_bench_rival_can(const struct stg_bench_mix *of) {
  return of == &mix || of->n_ops == 1;
}

stg_status stg_bench_rival_init(const struct stg_bench_rival_kernels *kernels,
                                const struct stg_bench_batch *batch, struct stg_bench_rival *ret,
                                stg_error *reterr) {
  (void)reterr;
  *ret = (struct stg_bench_rival){.kernels = kernels, .batch = batch};
  return STG_OK;
}

void stg_bench_rival_finish(struct stg_bench_rival *rival) {
  (void)rival;
}

stg_status stg_bench_floor_time(const struct stg_bench_floor *floor,
                                const struct stg_bench_timer *timer,
                                const struct stg_bench_buffers *buffers, enum stg_bench_order order,
                                struct stg_times *ret_time, stg_error *reterr) {
  (void)floor, (void)timer, (void)buffers, (void)reterr;
  const double us = order == STG_BENCH_EARLY ? 2 : 4;
  *ret_time = (struct stg_times){us, us, us};
  return STG_OK;
}

double stg_bench_floor_mb(const struct stg_bench_buffers *buffers) {
  return (double)buffers->bytes * 1e-6;
}

#define TIME(name, us)                                                                             \
  stg_status name(const struct stg_bench_timer *timer, const struct stg_bench_buffers *buffers,    \
                  stg_bench_launch launch, void *user, struct stg_times *ret_time,                 \
                  stg_error *reterr) {                                                             \
    (void)timer, (void)buffers, (void)launch, (void)user, (void)reterr;                            \
    note('t');                                                                                     \
    *ret_time = (struct stg_times){us, us, us};                                                    \
    return STG_OK;                                                                                 \
  }
TIME(stg_bench_time, 5)
TIME(stg_bench_time_eager, 10)
TIME(stg_bench_time_wall, 20)

static stg_status run(size_t wrong_one, struct stg_bench_report *report, stg_error *err) {
  const struct stg_bench_lab lab = {.engine = NULL};
  const struct stg_bench_trial trial = {.suite = "steer", .mix = mix, .baselines = true};
  wrong = wrong_one;
  log_length = 0;
  return stg_bench_trial_run(&lab, &trial, report, err);
}

static void checks_each_baseline_that_serves_and_then_times(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  assert_int_equal(STG_OK, run(0, &report, NULL));
  /* ours: a line, wall, eager; of a baseline its time, and wall where it is not captured */
  assert_string_equal("obbbbb"
                      "ttt"
                      "tt"
                      "tt"
                      "t"
                      "tt"
                      "tt",
                      log_text);
  assert_int_equal(2 + N_SERVING, report.n_rows);
  assert_null(stg_bench_report_find(&report, "steer", "4 rows", "way 6"));
  stg_bench_report_finish(&report);
}

static void refuses_a_baseline_that_differs_and_times_nothing(void **state) {
  (void)state;
  for (size_t nth = 1; nth <= N_SERVING; nth++) {
    struct stg_bench_report report = {0};
    stg_error err = STG_ERROR_INIT;
    char expected[64];
    snprintf(expected, sizeof expected, "bench steer, 4 rows: 'way %zu' disagrees at row 2, ", nth);
    assert_int_equal(STG_E_CORRUPT, run(nth, &report, &err));
    if (strncmp(err.message, expected, strlen(expected)) != 0) {
      fail_msg("expected \"%s...\", found \"%s\"", expected, err.message);
    }
    assert_null(strchr(log_text, 't'));
    assert_int_equal(0, report.n_rows);
    stg_bench_report_finish(&report);
  }
}

static double extra(const struct stg_bench_report *report, const char *series, const char *key) {
  const struct stg_bench_row *row = stg_bench_report_find(report, "steer", "4 rows", series);
  assert_non_null(row);
  const double *value = stg_bench_row_find_extra(row, key);
  if (value == NULL) {
    fail_msg("'%s' has no '%s'", series, key);
    return 0;
  }
  return *value;
}

static void every_row_has_both_floors(void **state) {
  (void)state;
  struct stg_bench_report report = {0};
  assert_int_equal(STG_OK, run(0, &report, NULL));
  for (size_t i = 0; i < report.n_rows; i++) {
    assert_true(report.rows[i].floor_us == 4);
    assert_true(extra(&report, report.rows[i].series, "floor_early_us") == 2);
  }
  assert_true(extra(&report, STG_BENCH_OURS, "eager_us") == 10);
  assert_true(extra(&report, STG_BENCH_OURS, "moved_mb") == sizeof rows * 1e-6);
  assert_true(extra(&report, "way 1", "steergraph_x") == 2);
  stg_bench_report_finish(&report);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checks_each_baseline_that_serves_and_then_times),
      cmocka_unit_test(refuses_a_baseline_that_differs_and_times_nothing),
      cmocka_unit_test(every_row_has_both_floors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

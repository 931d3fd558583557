/*
 * suite_attend.c: attention over a cache of fixed size, dense and paged, beside a read of the valid
 * K and V; a layer's parts as one graph and as launches of their own; and a block that is stepped
 * through every length.
 */
#include "tools/bench/attn_loop.h"
#include "tools/bench/attn_trial.h"

static bool is_block(const struct stg_attn_case *work) {
  return work->work >= STG_ATTN_BLOCK;
}

/* All cases, or those of blocks alone. */
static stg_status run_cases(const struct stg_bench_lab *lab, bool blocks_alone, const char *series,
                            struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_read_floor read = {0};
  stg_status status = stg_bench_read_floor_init(lab->engine, &read, reterr);
  for (size_t i = 0; status == STG_OK && i < STG_ATTEND_CASES; i++) {
    if (!blocks_alone || is_block(&stg_attend_cases[i])) {
      status = stg_attn_trial_run(lab, &read, &stg_attend_cases[i], series, report, reterr);
    }
  }
  stg_bench_read_floor_finish(&read);
  return status;
}

static stg_status run_plain(const struct stg_bench_options *options,
                            struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_lab lab;
  stg_status status = stg_bench_lab_open(options, STG_LAUNCH_PLAIN, &lab, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = run_cases(&lab, true, STG_ATTN_PLAIN, report, reterr);
  stg_bench_lab_close(&lab);
  return status;
}

stg_status stg_bench_suite_attend(const struct stg_bench_options *options,
                                  struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_lab lab;
  stg_status status = stg_bench_lab_open(options, STG_LAUNCH_GRAPH, &lab, reterr);
  if (status != STG_OK) {
    return status;
  }
  status = run_cases(&lab, false, STG_BENCH_OURS, report, reterr);
  if (status == STG_OK) {
    status = stg_attn_loop_report(&lab, report, reterr);
  }
  stg_bench_lab_close(&lab);
  return status == STG_OK ? run_plain(options, report, reterr) : status;
}

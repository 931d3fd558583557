/*
 * suite_rope.c: split, rotate, append: prompts and a decode step, beside a copy of as much
 * of the packed rows.
 */
#include "tools/bench/attn_trial.h"

stg_status stg_bench_suite_rope(const struct stg_bench_options *options,
                                struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_lab lab;
  stg_status status = stg_bench_lab_open(options, STG_LAUNCH_DEFAULT, &lab, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; status == STG_OK && i < STG_ROPE_CASES; i++) {
    status = stg_attn_trial_run(&lab, NULL, &stg_rope_cases[i], STG_BENCH_OURS, report, reterr);
  }
  stg_bench_lab_close(&lab);
  return status;
}

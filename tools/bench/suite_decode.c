/*
 * suite_decode.c: one row per request, hidden size 4096, bf16: cold, and with the rows in the L2,
 * where a serving engine's previous kernel has just left them.
 */
#include "tools/bench/trial.h"

static const struct {
  const char *name;
  uint32_t rows;
  uint32_t n_ops;
} shapes[] = {
    {"32 rows, 1 op", 32, 1},   {"32 rows, 2 ops", 32, 2},  {"32 rows, 4 ops", 32, 4},
    {"32 rows, 8 ops", 32, 8},  {"1 row, 1 op", 1, 1},      {"8 rows, 1 op", 8, 1},
    {"128 rows, 1 op", 128, 1}, {"256 rows, 1 op", 256, 1},
};

stg_status stg_bench_suite_decode(const struct stg_bench_options *options,
                                  struct stg_bench_report *report, stg_error *reterr) {
  struct stg_bench_lab lab;
  stg_status status = stg_bench_lab_open(options, STG_LAUNCH_DEFAULT, &lab, reterr);
  if (status != STG_OK) {
    return status;
  }
  for (size_t i = 0; status == STG_OK && i < sizeof shapes / sizeof shapes[0]; i++) {
    const struct stg_bench_trial trial = {
        .suite = "decode",
        .mix = {.name = shapes[i].name,
                .hidden_size = STG_BENCH_HIDDEN,
                .n_requests = shapes[i].rows,
                .rows_each = 1,
                .n_ops = shapes[i].n_ops,
                .n_distinct = shapes[i].rows,
                .kind = STG_BENCH_MIXED},
        .baselines = true,
        .warm = true,
    };
    status = stg_bench_trial_run(&lab, &trial, report, reterr);
  }
  stg_bench_lab_close(&lab);
  return status;
}

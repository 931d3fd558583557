/*
 * trial.h: one batch, steered and copied and, where baselines can, worked on by them: checked, then
 * timed, then in the report.
 */
#ifndef STG_TOOLS_BENCH_TRIAL_H
#define STG_TOOLS_BENCH_TRIAL_H

#include "tools/bench/lab.h"

struct stg_bench_trial {
  const char *suite;
  struct stg_bench_mix mix;
  bool baselines; /* time those that can serve the batch */
  bool every_op;  /* also with a table that declares every built-in op */
  bool warm;      /* also on buffers that are in the L2, as rows named "NAME, warm" */
  /* a trial before of the same batch, or NULL: with no row steered; in a table without the extra */
  const char *unsteered, *without;
};

/** Add the trial's rows. STG_E_CORRUPT when a baseline disagrees. */
STG_NODISCARD stg_status stg_bench_trial_run(const struct stg_bench_lab *lab,
                                             const struct stg_bench_trial *trial,
                                             struct stg_bench_report *report, stg_error *reterr);

#endif

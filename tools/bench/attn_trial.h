/*
 * attn_trial.h: one case of rope or attend: checked, then timed beside its floor, then in the
 * report.
 */
#ifndef STG_TOOLS_BENCH_ATTN_TRIAL_H
#define STG_TOOLS_BENCH_ATTN_TRIAL_H

#include "tools/bench/attn_case.h"
#include "tools/bench/lab.h"
#include "tools/bench/read_floor.h"

/* What launches of ours are that are no graphs of the engine's. */
#define STG_ATTN_PLAIN "steergraph, plain launches"

/** Sets of tensors so that launches in turn find theirs out of the L2; 1 without a GPU, and for an
 * attention of prompts. */
uint32_t stg_attn_sets(stg_engine *engine, const struct stg_attn_case *work);

/**
 * Add the case's row of this series, and where the series is STG_BENCH_OURS one of its floor:
 * a copy of what it moves of packed rows, or a read of the valid K and V (`read`, which a rope has
 * no use for).
 * @return STG_E_CORRUPT when the oracle disagrees.
 */
STG_NODISCARD stg_status stg_attn_trial_run(const struct stg_bench_lab *lab,
                                            const struct stg_bench_read_floor *read,
                                            const struct stg_attn_case *work, const char *series,
                                            struct stg_bench_report *report, stg_error *reterr);

#endif

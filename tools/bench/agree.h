/*
 * agree.h: whether a baseline computed what we computed. Asked before either is timed.
 */
#ifndef STG_TOOLS_BENCH_AGREE_H
#define STG_TOOLS_BENCH_AGREE_H

#include "tools/bench/batch.h"

/**
 * Compare two results of a batch, bf16 [rows, hidden_size]: each element of `theirs` must be within
 * 2 units in the last place of `ours`, or within 2^-16. Both add the same products in different
 * orders, and 2^-16 is what float32 makes of that at rows of deviation 8 where an element almost
 * cancels and its own unit is smaller still. STG_E_CORRUPT names the series, the row and both
 * values.
 */
STG_NODISCARD stg_status stg_bench_agree(const struct stg_bench_batch *batch, const char *series,
                                         const uint16_t *ours, const uint16_t *theirs,
                                         stg_error *reterr);

/** Rows of `after` whose bytes are not those of the batch's hidden states. */
uint32_t stg_bench_rows_changed(const struct stg_bench_batch *batch, const uint16_t *after);

#endif

/*
 * bench/eager_rounding.h: a chain on a row with the roundings of eager PyTorch.
 *
 * Each operator of an op's body counts as one PyTorch call on tensors of the storage dtype: it
 * loads them, computes in float32, and rounds its result to the storage dtype. So a row is rounded
 * after each multiplication and each addition, and the next op sees the rounded row. Dots and norms
 * are summed in float32 over the rounded row and rounded too. Parameters and literals are Python
 * numbers: what is computed of them alone stays in double, beside a tensor they are float32.
 *
 * The order of float32 sums is a choice that PyTorch does not fix: element j goes to sum j % 64 of
 * 64, which are then added by halves. What a host would get from fused calls (addmv, addcmul,
 * torch.compile) is rounded less often and is not this.
 */
#ifndef STG_TOOLS_BENCH_EAGER_ROUNDING_H
#define STG_TOOLS_BENCH_EAGER_ROUNDING_H

#include "engine/oracle/steer.h"

/** Rows of hidden_size floats that stg_eager_rounding_row works in. */
size_t stg_eager_rounding_spare(const struct stg_oracle_chain *chain);

/**
 * Apply `chain` to `row`, hidden_size values that `dtype` holds exactly; the chain's vectors are of
 * that dtype too. `spare` is stg_eager_rounding_spare(chain) rows of scratch.
 */
void stg_eager_rounding_row(const struct stg_oracle_chain *chain, int64_t hidden_size,
                            stg_dtype dtype, float *row, float *spare);

#endif

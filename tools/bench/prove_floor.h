/*
 * prove_floor.h: the rates that kernels of nothing but products and sums reach on the card, for the
 * floor of a policy.
 */
#ifndef STG_TOOLS_BENCH_PROVE_FLOOR_H
#define STG_TOOLS_BENCH_PROVE_FLOOR_H

#include <steergraph/engine.h>

#include "tools/bench/prove_cases.h"

/* kernels/peak.cu: multiply-adds of float32, and of TF32 by the instruction that the prover's
 * kernel uses. */
#define STG_PROVE_PEAKS 2
#define STG_PROVE_PEAK_NAMES "stg_peak_fma", "stg_peak_tf32"

/** Measure on the engine's card. Needs NVRTC. */
STG_NODISCARD stg_status stg_prove_peaks_measure(stg_engine *engine, bool quick,
                                                 struct stg_prove_peaks *ret, stg_error *reterr);

#endif

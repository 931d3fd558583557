/*
 * prove_floor.h: the least that evaluating a policy can cost: its products and sums at the rate
 * that a kernel of nothing else reaches on the same card in the same run. What a search does
 * besides, and memory, are not in it.
 */
#ifndef STG_TOOLS_BENCH_PROVE_FLOOR_H
#define STG_TOOLS_BENCH_PROVE_FLOOR_H

#include <steergraph/engine.h>

#include "specs/prover_workload.h"

/* kernels/peak.cu: multiply-adds of float32, and of TF32 by the instruction that the prover's
 * kernel uses. */
#define STG_PROVE_PEAKS 2
#define STG_PROVE_PEAK_NAMES "stg_peak_fma", "stg_peak_tf32"

/* Operations a microsecond, 2 a multiply-add; {0}: not measured. */
struct stg_prove_peaks {
  double fma, tf32;
};

/** Measure on the engine's card. Needs NVRTC. */
STG_NODISCARD stg_status stg_prove_peaks_measure(stg_engine *engine, bool quick,
                                                 struct stg_prove_peaks *ret, stg_error *reterr);

/** What `flop` operations take at least in that arithmetic, of which three products of TF32 make
 * one; 0 where no peak was measured. */
double stg_prove_floor_us(const struct stg_prove_peaks *peaks,
                          enum stg_prover_arithmetic arithmetic, double flop);

#endif

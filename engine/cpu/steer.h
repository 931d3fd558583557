/*
 * cpu/steer.h: the steer family on the CPU: whole-chain scalar programs interpreted over rows, and
 * the epilogue behind them.
 *
 * Rows are independent; a row's bits depend on the row, its chain and hidden_size alone. float32
 * arithmetic
 * (-ffp-contract=off), one rounding at the store, the same recurrence as the CUDA kernel, fixed
 * reduction order (the element-to-lane map of the kernel is not reproduced: bits may differ from
 * the GPU's within the numeric contract).
 */
#ifndef STG_ENGINE_CPU_STEER_H
#define STG_ENGINE_CPU_STEER_H

#include <steergraph/dtype.h>

#include "codegen/program.h"
#include "codegen/steer.h"

/* One chain, ready to run. All borrowed. */
struct stg_cpu_chain {
  const struct stg_program *program;
  const float *const *params; /* [n_ops], each with the op's parameters */
  const void *const *vectors; /* [n_vectors], each hidden_size elements of the bank's dtype */
  const float *gram;          /* [n_vectors * n_vectors], symmetric */
};

struct stg_cpu_batch {
  int64_t hidden_size;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  int64_t rows;
  int64_t row_stride;
  const void *hidden;
  void *out;                /* == hidden: in place */
  void *residual;           /* NULL: state is hidden alone; written with a weight only */
  const int32_t *row_chain; /* [rows]: index into chains, -1 unsteered, -2 padding */
  const struct stg_cpu_chain *chains;
  const void *weight; /* [hidden_size] of dtype: epilogue add_rmsnorm; NULL: no epilogue */
  float epsilon;      /* of the epilogue */
  float *probes;      /* [rows, probe_stride], what ops give out; NULL: none does */
  int64_t probe_stride;
  struct stg_steer_counts *counts; /* [chains], added to; NULL: none */
};

/** Apply. The batch has been checked. STG_E_NO_MEMORY for the row buffers only, before any write.
 */
STG_NODISCARD stg_status stg_cpu_steer(const struct stg_cpu_batch *batch, stg_error *reterr);

#endif

/*
 * steer.h: the steer kernel as text: (set of ops, geometry) -> CUDA source + launch rule.
 *
 * Deterministic: equal arguments give equal bytes. No CUDA call is made here.
 */
#ifndef STG_CODEGEN_STEER_H
#define STG_CODEGEN_STEER_H

#include <steergraph/dtype.h>

#include "codegen/op.h"

/* One variant of the kernel. `ops` are sorted by stg_op_compare and without repeats. */
struct stg_steer_geometry {
  int64_t hidden_size;
  stg_dtype dtype;
  stg_dtype bank_dtype;
  bool pair;          /* state = hidden + residual */
  uint32_t tile_rows; /* rows per block: 1 is the decode tile */
  const struct stg_op *const *ops;
  size_t n_ops;
};

#define STG_STEER_KERNEL_NAME "stg_steer"

/* How the kernel is launched: grid.x = ceil(rows / rows_per_block), block.x = threads. */
struct stg_launch_rule {
  uint32_t threads;
  uint32_t rows_per_block;
};

/** Threads that share a row: a function of hidden_size alone, which is what makes bits invariant.
 */
uint32_t stg_steer_threads(int64_t hidden_size);

/** Largest prefill tile (rows per block) that keeps its rows in registers, by geometry. */
uint32_t stg_steer_prefill_rows(int64_t hidden_size, stg_dtype dtype, bool pair);

/** Append the source (without the prelude) and fill the launch rule. */
STG_NODISCARD stg_status stg_steer_generate(const struct stg_steer_geometry *geometry,
                                            struct stg_strbuf *ret_source,
                                            struct stg_launch_rule *ret_rule, stg_error *reterr);

/** The hand-written device helpers that go before the generated text; static storage. */
const char *stg_steer_prelude(void);

#endif

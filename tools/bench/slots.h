/*
 * bench/slots.h: a chain of the bench into a slot of a steer table.
 */
#ifndef STG_TOOLS_BENCH_SLOTS_H
#define STG_TOOLS_BENCH_SLOTS_H

#include <steergraph/steer.h>

#include "tools/bench/batch.h"

/* 1 to STG_BENCH_MAX_OPS ops on vectors that are bf16 [.., length]. */
struct stg_bench_chain {
  const struct stg_bench_op *ops;
  uint32_t n_ops;
  const uint16_t *vectors;
  size_t length;
  bool probed;              /* a probe of the first op's vector, column 0, behind the ops */
  const stg_window *window; /* of the slot; NULL: none */
};

/** Set the slot's chain of layer 0: interns the vectors that it names and leaves them to the slot.
 */
STG_NODISCARD stg_status stg_bench_slot_set(stg_engine *engine, stg_steer *steer, uint32_t slot,
                                            const struct stg_bench_chain *chain, stg_error *reterr);

#endif

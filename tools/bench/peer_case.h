/*
 * bench/peer_case.h: a workload of the bench as files that a peer in another language can read.
 *
 * The case folder holds an ordinary workload whose vectors and input come from a tensor file beside
 * it; what steergraph makes of it is written there by `steergraph run`, oracle and all, so that a
 * peer is held against a result that was judged.
 */
#ifndef STG_TOOLS_BENCH_PEER_CASE_H
#define STG_TOOLS_BENCH_PEER_CASE_H

#include "runtime/base/strbuf.h"
#include "tools/bench/batch.h"

/* Files of a case folder. */
#define STG_PEER_WORKLOAD "workload.json"
#define STG_PEER_TENSORS "tensors.safetensors"
#define STG_PEER_EXPECTED "expected.safetensors"

/** Append the batch as a workload whose vectors and rows are in STG_PEER_TENSORS beside it. */
void stg_peer_workload_print(const struct stg_bench_batch *batch, struct stg_strbuf *out);

/** Write STG_PEER_WORKLOAD and STG_PEER_TENSORS of a batch into an existing folder. */
STG_NODISCARD stg_status stg_peer_case_write(const struct stg_bench_batch *batch,
                                             const char *folder, stg_error *reterr);

/**
 * Write STG_PEER_EXPECTED: this very command runs the case on the GPU. STG_E_CORRUPT when the
 * oracle does not agree.
 */
STG_NODISCARD stg_status stg_peer_case_expect(const char *folder, const char *cache,
                                              stg_error *reterr);

#endif

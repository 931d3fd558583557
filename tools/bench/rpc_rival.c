/*
 * bench/rpc_rival.c: 32 requests from their bytes to steered rows, the ways that the published
 * benchmark measures, in C and CUDA.
 *
 * They are given what costs nothing to give: the groups of equal chains and their row indices are
 * on the device already, and vectors are uploaded from pinned memory in place.
 */
#include <string.h>

#include "engine/hostmem.h"
#include "tools/bench/baseline_launch.h"
#include "tools/bench/rpc.h"

/* Bring the vector of a request to where the baselines read it. */
static stg_status upload(struct stg_rpc_case *rpc, uint32_t request, stg_error *reterr) {
  const size_t bytes = stg_rpc_message_bytes(&rpc->messages);
  const struct stg_bench_op *op = stg_bench_batch_chain(&rpc->batch, request);
  unsigned char *pinned = rpc->pinned + request * bytes;
  stg_engine *engine = rpc->suite->engine;
  memcpy(pinned, stg_rpc_message(&rpc->messages, request), bytes);
  return stg_copy_to_device(stg_mem_device(engine),
                            (uint64_t)(uintptr_t)rpc->rival.vectors + op->vector * bytes, pinned,
                            bytes, stg_mem_stream(engine), reterr);
}

static stg_status upload_all(struct stg_rpc_case *rpc, stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t r = 0; status == STG_OK && r < STG_BENCH_REQUESTS; r++) {
    status = upload(rpc, r, reterr);
  }
  return status;
}

static stg_status upload_new(struct stg_rpc_case *rpc, stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t r = 0; status == STG_OK && r < STG_BENCH_REQUESTS; r++) {
    unsigned char digest[STG_SHA256_BYTES];
    uint32_t place;
    status = stg_sha256_of(rpc->suite->sha, stg_rpc_message(&rpc->messages, r),
                           stg_rpc_message_bytes(&rpc->messages), digest, reterr);
    if (status == STG_OK && !stg_digest_cache_take(rpc->cache, digest, &place)) {
      status = upload(rpc, r, reterr);
    }
  }
  return status;
}

static stg_status launch(struct stg_rpc_case *rpc, stg_bench_launch way, size_t index,
                         stg_error *reterr) {
  return way(&rpc->rival, &rpc->suite->buffers, index, stg_mem_stream(rpc->suite->engine), reterr);
}

stg_status stg_rpc_run_digest_adaptive(struct stg_rpc_case *rpc, size_t index, stg_error *reterr) {
  stg_status status = upload_new(rpc, reterr);
  return status == STG_OK ? launch(rpc, stg_bench_launch_adaptive, index, reterr) : status;
}

stg_status stg_rpc_run_digest_eager(struct stg_rpc_case *rpc, size_t index, stg_error *reterr) {
  stg_status status = upload_new(rpc, reterr);
  return status == STG_OK ? launch(rpc, stg_bench_launch_eager, index, reterr) : status;
}

stg_status stg_rpc_run_upload_slices(struct stg_rpc_case *rpc, size_t index, stg_error *reterr) {
  stg_status status = upload_all(rpc, reterr);
  return status == STG_OK ? launch(rpc, stg_bench_launch_slices, index, reterr) : status;
}

stg_status stg_rpc_run_upload_eager(struct stg_rpc_case *rpc, size_t index, stg_error *reterr) {
  stg_status status = upload_all(rpc, reterr);
  return status == STG_OK ? launch(rpc, stg_bench_launch_eager, index, reterr) : status;
}

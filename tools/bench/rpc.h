/*
 * bench/rpc.h: the simulated RPC case of the published steering benchmark: vectors arrive as bytes,
 * 8 KiB each, one per request.
 *
 * Interning alone is measured on the host (rpc_intern.c). A case (rpc_case.c) is 32 requests from
 * their bytes to steered rows, by this library and by its rivals (rpc_rival.c), each checked
 * against the oracle (rpc_check.c).
 */
#ifndef STG_TOOLS_BENCH_RPC_H
#define STG_TOOLS_BENCH_RPC_H

#include <steergraph/steer.h>

#include "engine/oracle/steer.h"
#include "tools/bench/baseline.h"
#include "tools/bench/digest_cache.h"
#include "tools/bench/rpc_messages.h"
#include "tools/bench/suite.h"

/* What the suite holds for all of its rows. */
struct stg_rpc_suite {
  const struct stg_bench_options *options;
  struct stg_bench_report *report;
  stg_engine *engine;
  stg_engine_info info;
  bool on_cuda;
  struct stg_sha256 *sha;                 /* NULL: not to be had, its rows are left out */
  struct stg_bench_rival_kernels kernels; /* on cuda */
  struct stg_bench_buffers buffers;       /* the batch's rows; one buffer on the CPU */
};

/** Rows of interning alone: known and new vectors, few and many in the table. */
STG_NODISCARD stg_status stg_rpc_intern_rows(const struct stg_rpc_suite *suite, stg_error *reterr);

/* Host time spent in the parts of our way, summed over calls. */
struct stg_rpc_parts {
  double intern_us, set_us, step_us;
  unsigned calls;
};

/* One mixture, from bytes to rows. {0} is none. */
struct stg_rpc_case {
  const struct stg_rpc_suite *suite;
  struct stg_bench_mix mix;
  struct stg_bench_batch batch;
  struct stg_rpc_messages messages;
  uint32_t turn; /* of the messages, and of the slots that requests are put in */
  struct stg_rpc_parts parts;
  stg_steer *steer;
  stg_frame *frame;
  int32_t row_map[STG_BENCH_REQUESTS * STG_BENCH_ROWS_PER_REQUEST];
  struct stg_bench_rival rival;
  struct stg_digest_cache *cache;
  unsigned char *pinned; /* [requests] messages on their way to the device */
};

STG_NODISCARD stg_status stg_rpc_case_init(const struct stg_rpc_suite *suite, uint32_t n_distinct,
                                           struct stg_rpc_case *rpc, stg_error *reterr);
/** Also after a failed init. */
void stg_rpc_case_finish(struct stg_rpc_case *rpc);

/* From the messages to buffer `index`, queued on the engine's stream. */
typedef stg_status stg_rpc_run_fn(struct stg_rpc_case *rpc, size_t index, stg_error *reterr);

/* Intern, a slot per request, step, apply. */
stg_rpc_run_fn stg_rpc_run_slots;
/* Intern, one call for the batch. */
stg_rpc_run_fn stg_rpc_run_once;
/* SHA-256, upload of what is new, then gather/scatter or the slice loop. */
stg_rpc_run_fn stg_rpc_run_digest_adaptive;
/* The same, then a kernel per operator and request. */
stg_rpc_run_fn stg_rpc_run_digest_eager;
/* No interning: upload of every vector, then the loops. */
stg_rpc_run_fn stg_rpc_run_upload_slices;
stg_rpc_run_fn stg_rpc_run_upload_eager;

/** The operation and parameters of a request's op, without its vector. */
stg_op_call stg_rpc_call_of(const struct stg_bench_op *op);

/** Compare the first and the last row of each request in buffer `index` with the oracle. */
STG_NODISCARD stg_status stg_rpc_check(const struct stg_rpc_case *rpc, size_t index,
                                       const char *series, stg_error *reterr);

#endif

/*
 * bench/rpc_case.c: 32 requests from their bytes to steered rows, by this library.
 *
 * As a host would: each request interns its vector and puts its chain into a slot, another one than
 * last time; then one step and one apply. A vector is released as soon as its slot is set.
 */
#include <string.h>

#include "engine/hostmem.h"
#include "runtime/clock.h"
#include "tools/bench/rpc.h"
#include "tools/report.h"

/* Room for vectors of steps that are still in flight. */
#define MAX_VECTORS 1024

static const char *const ops_in_use[] = {"ablation", "add", "projection_cap"};

static stg_status open_table(struct stg_rpc_case *rpc, stg_error *reterr) {
  const stg_steer_desc desc = {
      .struct_size = sizeof desc,
      .hidden_size = rpc->mix.hidden_size,
      .dtype = STG_BF16,
      .max_rows = rpc->batch.rows,
      .max_slots = STG_BENCH_REQUESTS,
      .max_vectors = MAX_VECTORS,
      .ops = ops_in_use,
      .n_ops = sizeof ops_in_use / sizeof ops_in_use[0],
  };
  stg_status status = stg_steer_create(rpc->suite->engine, &desc, &rpc->steer, reterr);
  return status == STG_OK ? stg_frame_create(rpc->steer, &rpc->frame, reterr) : status;
}

static stg_status open_rivals(struct stg_rpc_case *rpc, stg_error *reterr) {
  void *pinned = NULL;
  stg_status status = stg_bench_rival_init(&rpc->suite->kernels, &rpc->batch, &rpc->rival, reterr);
  if (status == STG_OK) {
    status = stg_digest_cache_create(MAX_VECTORS, &rpc->cache, reterr);
  }
  if (status == STG_OK) {
    status = stg_pinned_alloc(stg_mem_device(rpc->suite->engine),
                              STG_BENCH_REQUESTS * stg_rpc_message_bytes(&rpc->messages), &pinned,
                              reterr);
    rpc->pinned = status == STG_OK ? pinned : NULL;
  }
  return status;
}

stg_status stg_rpc_case_init(const struct stg_rpc_suite *suite, uint32_t n_distinct,
                             struct stg_rpc_case *rpc, stg_error *reterr) {
  *rpc = (struct stg_rpc_case){.suite = suite,
                               .mix = {.name = "rpc",
                                       .hidden_size = STG_BENCH_HIDDEN,
                                       .n_requests = STG_BENCH_REQUESTS,
                                       .rows_each = STG_BENCH_ROWS_PER_REQUEST,
                                       .n_ops = 1,
                                       .n_distinct = n_distinct,
                                       .kind = STG_BENCH_MIXED}};
  stg_status status = stg_bench_batch_init(&rpc->mix, &rpc->batch, reterr);
  if (status == STG_OK) {
    status = stg_rpc_messages_init(rpc->batch.vectors, n_distinct, rpc->mix.hidden_size,
                                   STG_BENCH_REQUESTS, &rpc->messages, reterr);
  }
  if (status == STG_OK) {
    status = open_table(rpc, reterr);
  }
  return status == STG_OK && suite->on_cuda ? open_rivals(rpc, reterr) : status;
}

void stg_rpc_case_finish(struct stg_rpc_case *rpc) {
  stg_error err = STG_ERROR_INIT;
  if (rpc->pinned != NULL) {
    stg_pinned_free(stg_mem_device(rpc->suite->engine), rpc->pinned);
  }
  if (rpc->rival.kernels != NULL) {
    stg_bench_rival_finish(&rpc->rival);
  }
  stg_digest_cache_destroy(rpc->cache);
  stg_frame_destroy(rpc->frame);
  if (rpc->steer != NULL && stg_steer_destroy(rpc->steer, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message);
  }
  stg_rpc_messages_finish(&rpc->messages);
  stg_bench_batch_finish(&rpc->batch);
}

stg_op_call stg_rpc_call_of(const struct stg_bench_op *op) {
  stg_op_call call = {.op = "add", .params = {op->a, op->b}, .params_given = 1};
  if (op->kind == STG_BENCH_CAP) {
    call.op = "projection_cap";
    call.params_given = 3;
  } else if (op->kind == STG_BENCH_ABLATION) {
    call.op = "ablation";
  }
  return call;
}

/* Every request's call with its vector. On failure nothing stays interned. */
static stg_status intern_all(const struct stg_rpc_case *rpc, stg_op_call *ret_calls,
                             stg_error *reterr) {
  stg_status status = STG_OK;
  uint32_t n = 0;
  for (; status == STG_OK && n < STG_BENCH_REQUESTS; n += status == STG_OK) {
    ret_calls[n] = stg_rpc_call_of(stg_bench_batch_chain(&rpc->batch, n));
    status = stg_vector_intern(rpc->suite->engine, STG_BF16, stg_rpc_message(&rpc->messages, n),
                               rpc->messages.length, &ret_calls[n].vectors[0], reterr);
  }
  for (uint32_t r = 0; status != STG_OK && r < n; r++) {
    const stg_status released =
        stg_vector_release(rpc->suite->engine, ret_calls[r].vectors[0], NULL);
    (void)released; /* it was interned here */
  }
  return status;
}

static stg_status release_all(const struct stg_rpc_case *rpc, const stg_op_call *calls,
                              stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t r = 0; r < STG_BENCH_REQUESTS; r++) {
    stg_status released = stg_vector_release(rpc->suite->engine, calls[r].vectors[0],
                                             status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? released : status;
  }
  return status;
}

static uint32_t slot_of(const struct stg_rpc_case *rpc, uint32_t request) {
  return (request + rpc->turn) % STG_BENCH_REQUESTS;
}

static stg_status set_slots(const struct stg_rpc_case *rpc, const stg_op_call *calls,
                            stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t r = 0; status == STG_OK && r < STG_BENCH_REQUESTS; r++) {
    const stg_chain chain = {.ops = &calls[r], .n_ops = 1};
    status = stg_steer_slot_set(rpc->steer, slot_of(rpc, r), &chain, 1, reterr);
  }
  return status;
}

static stg_status step_and_apply(struct stg_rpc_case *rpc, size_t index, stg_error *reterr) {
  stg_stream stream = stg_mem_stream(rpc->suite->engine);
  for (uint32_t row = 0; row < rpc->batch.rows; row++) {
    rpc->row_map[row] = (int32_t)slot_of(rpc, row / STG_BENCH_ROWS_PER_REQUEST);
  }
  const stg_step step = {.struct_size = sizeof step,
                         .rows = rpc->batch.rows,
                         .row_map = rpc->row_map,
                         .requests = STG_BENCH_REQUESTS,
                         .longest = STG_BENCH_ROWS_PER_REQUEST};
  const stg_apply apply = {.struct_size = sizeof apply,
                           .hidden = rpc->suite->buffers.memory[index]};
  stg_status status = stg_steer_step(rpc->frame, &step, stream, reterr);
  return status == STG_OK ? stg_steer_apply(rpc->frame, &apply, stream, reterr) : status;
}

static double us_since(uint64_t *from) {
  const uint64_t now = stg_clock_ns();
  const double us = (double)(now - *from) * 1e-3;
  *from = now;
  return us;
}

stg_status stg_rpc_run_slots(struct stg_rpc_case *rpc, size_t index, stg_error *reterr) {
  stg_op_call calls[STG_BENCH_REQUESTS];
  uint64_t from = stg_clock_ns();
  rpc->turn++;
  stg_status status = intern_all(rpc, calls, reterr);
  if (status != STG_OK) {
    return status;
  }
  rpc->parts.intern_us += us_since(&from);
  status = set_slots(rpc, calls, reterr);
  stg_status released = release_all(rpc, calls, status == STG_OK ? reterr : NULL);
  status = status == STG_OK ? released : status;
  rpc->parts.set_us += us_since(&from);
  if (status == STG_OK) {
    status = step_and_apply(rpc, index, reterr);
  }
  rpc->parts.step_us += us_since(&from);
  rpc->parts.calls++;
  return status;
}

stg_status stg_rpc_run_once(struct stg_rpc_case *rpc, size_t index, stg_error *reterr) {
  stg_op_call calls[STG_BENCH_REQUESTS];
  stg_chain chains[STG_BENCH_REQUESTS];
  int64_t lengths[STG_BENCH_REQUESTS];
  uint64_t from = stg_clock_ns();
  stg_status status = intern_all(rpc, calls, reterr);
  if (status != STG_OK) {
    return status;
  }
  rpc->parts.intern_us += us_since(&from);
  for (uint32_t r = 0; r < STG_BENCH_REQUESTS; r++) {
    chains[r] = (stg_chain){.ops = &calls[r], .n_ops = 1};
    lengths[r] = STG_BENCH_ROWS_PER_REQUEST;
  }
  const stg_once once = {
      .struct_size = sizeof once,
      .apply = {.struct_size = sizeof once.apply, .hidden = rpc->suite->buffers.memory[index]},
      .rows = rpc->batch.rows,
      .n_requests = STG_BENCH_REQUESTS,
      .lengths = lengths,
      .chains = chains};
  status = stg_steer_once(rpc->steer, &once, stg_mem_stream(rpc->suite->engine), reterr);
  stg_status released = release_all(rpc, calls, status == STG_OK ? reterr : NULL);
  rpc->parts.step_us += us_since(&from);
  rpc->parts.calls++;
  return status == STG_OK ? released : status;
}

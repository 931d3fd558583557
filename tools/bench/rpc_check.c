/*
 * bench/rpc_check.c: whether a way from bytes to rows arrived at the right rows.
 */
#include <string.h>

#include "engine/hostmem.h"
#include "engine/offline.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "tools/bench/rpc.h"

/* What the oracle is asked. */
struct question {
  double *wide; /* [requests, hidden_size] */
  uint16_t *after;
  int32_t request[STG_BENCH_REQUESTS];
  struct stg_oracle_op ops[STG_BENCH_REQUESTS];
  struct stg_oracle_chain chains[STG_BENCH_REQUESTS];
};

static void question_finish(struct question *question) {
  stg_free(question->wide);
  stg_free(question->after);
}

static stg_status add_request(const struct stg_rpc_case *rpc, uint32_t r, struct question *question,
                              stg_error *reterr) {
  const size_t n = rpc->messages.length;
  const stg_op_call call = stg_rpc_call_of(stg_bench_batch_chain(&rpc->batch, r));
  struct stg_oracle_op *op = &question->ops[r];
  double *wide = question->wide + r * n;
  for (size_t j = 0; j < n; j++) {
    wide[j] = (double)stg_load_f32(STG_BF16, stg_rpc_message(&rpc->messages, r), j);
  }
  stg_status status = stg_engine_op_compiled(rpc->suite->engine, call.op, &op->op, reterr);
  if (status != STG_OK) {
    return status;
  }
  op->vectors[0] = wide;
  for (size_t k = 0; k < op->op->n_params; k++) {
    const bool given = (call.params_given >> k & 1U) != 0;
    op->params[k] = given ? call.params[k] : op->op->params[k].default_value;
  }
  question->chains[r] = (struct stg_oracle_chain){.ops = op, .n_ops = 1};
  question->request[r] = (int32_t)r;
  return STG_OK;
}

static stg_status question_init(const struct stg_rpc_case *rpc, size_t index,
                                struct question *question, stg_error *reterr) {
  const size_t bytes = stg_bench_batch_bytes(&rpc->batch);
  question->wide = stg_calloc(STG_BENCH_REQUESTS * rpc->messages.length, sizeof *question->wide);
  question->after = stg_malloc(bytes);
  if (question->wide == NULL || question->after == NULL) {
    return stg_error_memory(reterr, "rows for the oracle", bytes);
  }
  stg_status status = STG_OK;
  for (uint32_t r = 0; status == STG_OK && r < STG_BENCH_REQUESTS; r++) {
    status = add_request(rpc, r, question, reterr);
  }
  return status == STG_OK ? stg_mem_download(rpc->suite->engine, question->after,
                                             rpc->suite->buffers.memory[index], bytes, reterr)
                          : status;
}

/* Row `row` of every request: a batch of one row each, as far apart as requests are. */
static stg_status check_row(const struct stg_rpc_case *rpc, const struct question *question,
                            size_t row, const char *series, stg_error *reterr) {
  const size_t offset = row * rpc->mix.hidden_size;
  const struct stg_oracle_batch batch = {.hidden_size = rpc->mix.hidden_size,
                                         .dtype = STG_BF16,
                                         .rows = STG_BENCH_REQUESTS,
                                         .row_stride = (int64_t)STG_BENCH_ROWS_PER_REQUEST *
                                                       rpc->mix.hidden_size,
                                         .before = rpc->batch.hidden + offset,
                                         .after = question->after + offset,
                                         .row_chain = question->request,
                                         .chains = question->chains};
  struct stg_oracle_report report;
  stg_status status = stg_oracle_check(&batch, &report, reterr);
  if (status == STG_OK && !report.ok) {
    status = stg_error_set(reterr, STG_E_CORRUPT,
                           "bench rpc: %s: %llu elements of row %zu of the requests are beyond "
                           "their bounds, first in request %lld; the worst ratio is %g",
                           series, (unsigned long long)report.violations, row,
                           (long long)report.first_row, report.worst_ratio);
  }
  return status;
}

stg_status stg_rpc_check(const struct stg_rpc_case *rpc, size_t index, const char *series,
                         stg_error *reterr) {
  struct question question = {0};
  stg_status status = question_init(rpc, index, &question, reterr);
  if (status == STG_OK) {
    status = check_row(rpc, &question, 0, series, reterr);
  }
  if (status == STG_OK) {
    status = check_row(rpc, &question, STG_BENCH_ROWS_PER_REQUEST - 1, series, reterr);
  }
  question_finish(&question);
  return status;
}

/*
 * bench/slots.c: see slots.h. Uses the public API alone, as a host does.
 */
#include "tools/bench/slots.h"

#include <assert.h>

static stg_op_call call_of(const struct stg_bench_op *op, stg_vector id) {
  stg_op_call call = {.op = "add", .vectors = {id}, .params = {op->a, op->b}};
  call.params_given = 1;
  if (op->kind == STG_BENCH_CAP) {
    call.op = "projection_cap";
    call.params_given = 3;
  } else if (op->kind == STG_BENCH_ABLATION) {
    call.op = "ablation";
  }
  return call;
}

stg_status stg_bench_slot_set(stg_engine *engine, stg_steer *steer, uint32_t slot,
                              const struct stg_bench_chain *chain, stg_error *reterr) {
  stg_op_call calls[STG_BENCH_MAX_OPS + 1];
  stg_status status = STG_OK;
  uint32_t interned = 0;
  assert(chain->n_ops >= 1 && chain->n_ops <= STG_BENCH_MAX_OPS);
  for (; status == STG_OK && interned < chain->n_ops; interned += status == STG_OK) {
    const struct stg_bench_op *op = &chain->ops[interned];
    stg_vector id = 0;
    status = stg_vector_intern(engine, STG_BF16, chain->vectors + op->vector * chain->length,
                               chain->length, &id, reterr);
    calls[interned] = call_of(op, id);
  }
  if (status == STG_OK) {
    calls[chain->n_ops] =
        (stg_op_call){.op = "probe", .vectors = {calls[0].vectors[0]}, .params_given = 1};
    const stg_chain of_layer = {.ops = calls, .n_ops = chain->n_ops + (chain->probed ? 1 : 0)};
    status = chain->window != NULL
                 ? stg_steer_slot_set_windowed(steer, slot, &of_layer, 1, chain->window, reterr)
                 : stg_steer_slot_set(steer, slot, &of_layer, 1, reterr);
  }
  for (uint32_t i = 0; i < interned; i++) {
    stg_status released =
        stg_vector_release(engine, calls[i].vectors[0], status == STG_OK ? reterr : NULL);
    status = status == STG_OK ? released : status;
  }
  return status;
}

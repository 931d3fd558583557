/*
 * bed.c: see bed.h. Uses the public API alone, as a host does.
 */
#include "tools/bench/bed.h"

#include "engine/hostmem.h"
#include "runtime/base/error.h"
#include "tools/report.h"

/* The chain length that hosts declare by default; longer chains declare more. */
#define USUAL_CHAIN 4

static const char *const ops_in_use[] = {"ablation", "add", "projection_cap"};

static stg_op_call call_of(const struct stg_bench_op *op, const stg_vector *ids) {
  stg_op_call call = {.op = "add", .vectors = {ids[op->vector]}, .params = {op->a, op->b}};
  call.params_given = 1;
  if (op->kind == STG_BENCH_CAP) {
    call.op = "projection_cap";
    call.params_given = 3;
  } else if (op->kind == STG_BENCH_ABLATION) {
    call.op = "ablation";
  }
  return call;
}

static stg_status set_slots(const struct stg_bench_batch *batch, const stg_vector *ids,
                            stg_steer *steer, stg_error *reterr) {
  stg_status status = STG_OK;
  for (uint32_t r = 0; status == STG_OK && r < batch->mix->n_requests; r++) {
    const struct stg_bench_op *ops = stg_bench_batch_chain(batch, r);
    stg_op_call calls[STG_BENCH_MAX_OPS];
    for (uint32_t k = 0; k < batch->mix->n_ops; k++) {
      calls[k] = call_of(&ops[k], ids);
    }
    const stg_chain chain = {.ops = calls, .n_ops = batch->mix->n_ops};
    status = stg_steer_slot_set(steer, r, &chain, 1, reterr);
  }
  return status;
}

/* Slots keep their own references, so the vectors are released right away. */
static stg_status set_slots_with_vectors(struct stg_bench_bed *bed,
                                         const struct stg_bench_batch *batch, stg_vector *ids,
                                         stg_error *reterr) {
  stg_status status = STG_OK;
  uint32_t interned = 0;
  for (; status == STG_OK && interned < batch->n_vectors; interned += status == STG_OK) {
    const uint16_t *data = batch->vectors + (size_t)interned * batch->mix->hidden_size;
    status = stg_vector_intern(bed->engine, STG_BF16, data, batch->mix->hidden_size, &ids[interned],
                               reterr);
  }
  if (status == STG_OK) {
    status = set_slots(batch, ids, bed->steer, reterr);
  }
  for (uint32_t i = 0; i < interned; i++) {
    stg_error err = STG_ERROR_INIT;
    if (stg_vector_release(bed->engine, ids[i], &err) != STG_OK) {
      stg_report_log(NULL, STG_LOG_ERROR, err.message);
    }
  }
  return status;
}

static stg_status fill_and_step(struct stg_bench_bed *bed, const struct stg_bench_batch *batch,
                                stg_error *reterr) {
  struct stg_arena arena = {0};
  stg_vector *ids = stg_arena_alloc(&arena, batch->n_vectors, sizeof *ids);
  stg_status status = stg_arena_status(&arena, reterr);
  if (status == STG_OK) {
    status = set_slots_with_vectors(bed, batch, ids, reterr);
  }
  stg_arena_finish(&arena);
  if (status == STG_OK) {
    status = stg_frame_create(bed->steer, &bed->frame, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  const stg_step step = {.struct_size = sizeof step,
                         .rows = batch->rows,
                         .row_map = batch->row_map,
                         .requests = batch->mix->n_requests,
                         .longest = batch->longest};
  return stg_steer_step(bed->frame, &step, stg_mem_stream(bed->engine), reterr);
}

stg_status stg_bench_bed_init(stg_engine *engine, const struct stg_bench_batch *batch,
                              bool every_op, struct stg_bench_bed *ret, stg_error *reterr) {
  const struct stg_bench_mix *mix = batch->mix;
  struct stg_bench_bed bed = {.engine = engine};
  const stg_steer_desc desc = {
      .struct_size = sizeof desc,
      .hidden_size = mix->hidden_size,
      .dtype = STG_BF16,
      .state = mix->pair ? STG_STATE_HIDDEN_PLUS_RESIDUAL : STG_STATE_HIDDEN,
      .max_rows = batch->rows,
      .max_slots = mix->n_requests,
      .max_vectors = batch->n_vectors,
      .max_chain = mix->n_ops > USUAL_CHAIN ? STG_BENCH_MAX_OPS : USUAL_CHAIN,
      .ops = every_op ? NULL : ops_in_use,
      .n_ops = every_op ? 0 : sizeof ops_in_use / sizeof ops_in_use[0],
  };
  stg_status status = stg_steer_create(engine, &desc, &bed.steer, reterr);
  if (status == STG_OK) {
    status = fill_and_step(&bed, batch, reterr);
  }
  if (status != STG_OK) {
    stg_bench_bed_finish(&bed);
    return status;
  }
  *ret = bed;
  return STG_OK;
}

void stg_bench_bed_finish(struct stg_bench_bed *bed) {
  stg_error err = STG_ERROR_INIT;
  stg_frame_destroy(bed->frame);
  if (bed->steer != NULL && stg_steer_destroy(bed->steer, &err) != STG_OK) {
    stg_report_log(NULL, STG_LOG_ERROR, err.message);
  }
  *bed = (struct stg_bench_bed){0};
}

stg_status stg_bench_bed_launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                                stg_stream stream, stg_error *reterr) {
  const struct stg_bench_bed *bed = user;
  const stg_apply apply = {.struct_size = sizeof apply,
                           .hidden = buffers->memory[index],
                           .residual = buffers->read_only[index]};
  return stg_steer_apply(bed->frame, &apply, stream, reterr);
}

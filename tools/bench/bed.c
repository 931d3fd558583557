/*
 * bed.c: see bed.h. Uses the public API alone, as a host does.
 */
#include "tools/bench/bed.h"

#include "engine/hostmem.h"
#include "tools/bench/slots.h"
#include "tools/report.h"

/* The chain length that hosts declare by default; longer chains declare more. */
#define USUAL_CHAIN 4

/* The last only where the table has a column for it. */
static const char *const ops_in_use[] = {"ablation", "add", "projection_cap", "probe"};
#define N_OPS_IN_USE (sizeof ops_in_use / sizeof ops_in_use[0])

static stg_status set_slots(const struct stg_bench_bed *bed, const struct stg_bench_batch *batch,
                            stg_error *reterr) {
  const stg_window window = {.struct_size = sizeof window, .has_from = true};
  const enum stg_bench_declared extra = batch->mix->extra;
  struct stg_bench_chain chain = {.n_ops = batch->mix->n_ops,
                                  .vectors = batch->vectors,
                                  .length = batch->mix->hidden_size,
                                  .probed = extra == STG_BENCH_PROBE,
                                  .window = extra == STG_BENCH_WINDOWS ? &window : NULL};
  stg_status status = STG_OK;
  for (uint32_t r = 0; status == STG_OK && r < batch->mix->n_requests; r++) {
    chain.ops = stg_bench_batch_chain(batch, r);
    status = stg_bench_slot_set(bed->engine, bed->steer, r, &chain, reterr);
  }
  return status;
}

static stg_status upload_weight(struct stg_bench_bed *bed, const struct stg_bench_batch *batch,
                                stg_error *reterr) {
  const size_t bytes = batch->mix->hidden_size * sizeof *batch->weight;
  stg_status status = stg_mem_alloc(bed->engine, bytes, &bed->weight, reterr);
  return status == STG_OK ? stg_mem_upload(bed->engine, bed->weight, batch->weight, bytes, reterr)
                          : status;
}

/* Each request is a whole prompt. Both [rows]. */
static void fill_places(const struct stg_bench_batch *batch, int32_t *positions,
                        int32_t *prompt_lens) {
  uint32_t row = 0;
  for (uint32_t r = 0; r < batch->mix->n_requests; r++) {
    for (uint32_t i = 0; i < batch->lengths[r]; i++, row++) {
      positions[row] = (int32_t)i;
      prompt_lens[row] = (int32_t)batch->lengths[r];
    }
  }
}

static stg_status step_batch(const struct stg_bench_bed *bed, const struct stg_bench_batch *batch,
                             stg_error *reterr) {
  struct stg_arena arena = {0};
  stg_step step = {.struct_size = sizeof step,
                   .rows = batch->rows,
                   .row_map = batch->row_map,
                   .requests = batch->mix->n_requests,
                   .longest = batch->longest};
  stg_status status = STG_OK;
  if (batch->mix->extra == STG_BENCH_WINDOWS) {
    int32_t *positions = stg_arena_alloc(&arena, batch->rows, sizeof *positions);
    int32_t *prompt_lens = stg_arena_alloc(&arena, batch->rows, sizeof *prompt_lens);
    status = stg_arena_status(&arena, reterr);
    if (status == STG_OK) {
      fill_places(batch, positions, prompt_lens);
    }
    step.positions = positions;
    step.prompt_lens = prompt_lens;
  }
  if (status == STG_OK) {
    status = stg_steer_step(bed->frame, &step, stg_mem_stream(bed->engine), reterr);
  }
  stg_arena_finish(&arena);
  return status;
}

static stg_status fill_and_step(struct stg_bench_bed *bed, const struct stg_bench_batch *batch,
                                stg_error *reterr) {
  stg_status status = set_slots(bed, batch, reterr);
  if (status == STG_OK && batch->weight != NULL) {
    status = upload_weight(bed, batch, reterr);
  }
  if (status == STG_OK && batch->mix->extra == STG_BENCH_PROBE) {
    status = stg_mem_alloc(bed->engine, batch->rows * sizeof(float), &bed->probes, reterr);
  }
  if (status == STG_OK) {
    status = stg_frame_create(bed->steer, &bed->frame, reterr);
  }
  return status == STG_OK ? step_batch(bed, batch, reterr) : status;
}

stg_status stg_bench_bed_init(stg_engine *engine, const struct stg_bench_batch *batch,
                              bool every_op, struct stg_bench_bed *ret, stg_error *reterr) {
  const struct stg_bench_mix *mix = batch->mix;
  const bool norm = mix->state == STG_BENCH_NORM, probed = mix->extra == STG_BENCH_PROBE;
  struct stg_bench_bed bed = {.engine = engine};
  const stg_steer_desc desc = {
      .struct_size = sizeof desc,
      .hidden_size = mix->hidden_size,
      .dtype = STG_BF16,
      .state = mix->state == STG_BENCH_ALONE ? STG_STATE_HIDDEN : STG_STATE_HIDDEN_PLUS_RESIDUAL,
      .epilogue = norm ? STG_EPILOGUE_ADD_RMSNORM : STG_EPILOGUE_NONE,
      .epsilon = norm ? STG_BENCH_EPSILON : 0,
      .max_rows = batch->rows,
      .max_slots = mix->n_requests,
      .max_vectors = batch->n_vectors,
      .max_chain = mix->n_ops > USUAL_CHAIN ? STG_BENCH_MAX_OPS : USUAL_CHAIN,
      .ops = every_op ? NULL : ops_in_use,
      .n_ops = every_op ? 0 : N_OPS_IN_USE - (probed ? 0 : 1),
      .windows = mix->extra == STG_BENCH_WINDOWS,
      .counters = mix->extra == STG_BENCH_COUNTERS,
      .probes = probed ? 1 : 0,
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
  if (bed->engine != NULL) {
    stg_mem_free(bed->engine, bed->weight);
    stg_mem_free(bed->engine, bed->probes);
  }
  *bed = (struct stg_bench_bed){0};
}

stg_status stg_bench_bed_buffers(stg_engine *engine, const struct stg_bench_batch *batch,
                                 struct stg_bench_buffers *ret, stg_error *reterr) {
  const struct stg_bench_content content = {.bytes = stg_bench_batch_bytes(batch),
                                            .hidden = batch->hidden,
                                            .residual = batch->residual,
                                            .writes_residual = batch->mix->state == STG_BENCH_NORM};
  return stg_bench_buffers_init(engine, &content, ret, reterr);
}

stg_status stg_bench_bed_plan(const stg_frame *frame, struct stg_bench_row *row,
                              stg_error *reterr) {
  stg_plan_info plan = {.struct_size = sizeof plan};
  stg_status status = stg_frame_plan(frame, &plan, reterr);
  if (status == STG_OK) {
    stg_bench_row_extra(row, "tile_rows", plan.tile_rows);
    stg_bench_row_extra(row, "registers", plan.registers);
    stg_bench_row_extra(row, "local_bytes", plan.local_bytes);
    stg_bench_row_extra(row, "compile_ms", plan.compile_ms);
  }
  return status;
}

stg_status stg_bench_bed_launch(void *user, const struct stg_bench_buffers *buffers, size_t index,
                                stg_stream stream, stg_error *reterr) {
  const struct stg_bench_bed *bed = user;
  const stg_apply apply = {.struct_size = sizeof apply,
                           .hidden = buffers->memory[index],
                           .residual = buffers->residual[index],
                           .weight = bed->weight,
                           .probes = bed->probes};
  return stg_steer_apply(bed->frame, &apply, stream, reterr);
}

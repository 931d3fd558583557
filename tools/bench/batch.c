/*
 * batch.c: see batch.h.
 */
#include "tools/bench/batch.h"

#include <math.h>

#include <steergraph/steer.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "specs/random.h"

#define SEED 20
/* Random numbers are repeated after this many: a prime, so that no two rows are equal. */
#define PERIOD 1048573
#define WEIGHT_DEVIATION 0.25

enum stream { STREAM_HIDDEN, STREAM_RESIDUAL, STREAM_VECTORS, STREAM_WEIGHT };

static stg_status fill_rows(uint64_t stream, uint16_t *rows, size_t count, stg_error *reterr) {
  const size_t period = count < PERIOD ? count : PERIOD;
  float *noise = stg_calloc(period, sizeof *noise);
  if (noise == NULL) {
    return stg_error_memory(reterr, "random rows", period * sizeof *noise);
  }
  stg_random_normal(SEED, stream, 0, STG_BENCH_ROW_DEVIATION, noise, period);
  for (size_t i = 0; i < count; i++) {
    rows[i] = i < period ? stg_bf16_from_f32(noise[i]) : rows[i - period];
  }
  stg_free(noise);
  return STG_OK;
}

void stg_bench_round_to_unit(const float *values, size_t count, uint16_t *ret_vector) {
  double squares = 0;
  for (size_t i = 0; i < count; i++) {
    squares += (double)values[i] * (double)values[i];
  }
  const float factor = (float)(1.0 / sqrt(squares));
  for (size_t i = 0; i < count; i++) {
    ret_vector[i] = stg_bf16_from_f32(values[i] * factor);
  }
}

static stg_status fill_vectors(struct stg_bench_batch *batch, stg_error *reterr) {
  const size_t width = batch->mix->hidden_size;
  float *scratch = stg_calloc(width, sizeof *scratch);
  if (scratch == NULL) {
    return stg_error_memory(reterr, "a vector", width * sizeof *scratch);
  }
  for (uint32_t v = 0; v < batch->n_vectors; v++) {
    stg_random_normal(SEED, STREAM_VECTORS, v * width, 1.0f, scratch, width);
    stg_bench_round_to_unit(scratch, width, batch->vectors + v * width);
  }
  stg_free(scratch);
  return STG_OK;
}

static stg_status fill_weight(struct stg_bench_batch *batch, stg_error *reterr) {
  const size_t width = batch->mix->hidden_size;
  float *scratch = stg_calloc(width, sizeof *scratch);
  if (scratch == NULL) {
    return stg_error_memory(reterr, "a weight", width * sizeof *scratch);
  }
  stg_random_normal(SEED, STREAM_WEIGHT, 0, WEIGHT_DEVIATION, scratch, width);
  for (size_t i = 0; i < width; i++) {
    batch->weight[i] = stg_bf16_from_f32(1.0f + scratch[i]);
  }
  stg_free(scratch);
  return STG_OK;
}

/* Op k of chain c. Kinds shift from chain to chain, so that one-op chains are mixed too. */
static struct stg_bench_op make_op(const struct stg_bench_mix *mix, uint32_t c, uint32_t k) {
  struct stg_bench_op op = {.kind = mix->kind, .vector = c * mix->n_ops + k};
  if (mix->kind == STG_BENCH_MIXED) {
    op.kind = (enum stg_bench_kind)((c + k) % STG_BENCH_MIXED);
  }
  if (op.kind == STG_BENCH_CAP) {
    op.a = -0.5f;
    op.b = 0.5f;
  } else if (op.kind == STG_BENCH_ADD) {
    op.a = 4.0f;
  }
  return op;
}

static void fill_requests(struct stg_bench_batch *batch) {
  const struct stg_bench_mix *mix = batch->mix;
  uint32_t row = 0;
  for (uint32_t r = 0; r < mix->n_requests; r++) {
    batch->lengths[r] = mix->lengths != NULL ? mix->lengths[r] : mix->rows_each;
    batch->longest = batch->lengths[r] > batch->longest ? batch->lengths[r] : batch->longest;
    for (uint32_t i = 0; i < batch->lengths[r]; i++) {
      batch->row_map[row++] = mix->unsteered ? STG_ROW_UNSTEERED : (int32_t)r;
    }
  }
  for (uint32_t i = 0; i < mix->n_distinct * mix->n_ops; i++) {
    batch->ops[i] = make_op(mix, i / mix->n_ops, i % mix->n_ops);
  }
}

static uint32_t count_rows(const struct stg_bench_mix *mix) {
  uint32_t rows = 0;
  for (uint32_t r = 0; r < mix->n_requests; r++) {
    rows += mix->lengths != NULL ? mix->lengths[r] : mix->rows_each;
  }
  return rows;
}

stg_status stg_bench_batch_init(const struct stg_bench_mix *mix, struct stg_bench_batch *ret,
                                stg_error *reterr) {
  struct stg_bench_batch batch = {
      .mix = mix, .rows = count_rows(mix), .n_vectors = mix->n_distinct * mix->n_ops};
  struct stg_arena *arena = &batch.arena;
  const size_t elements = (size_t)batch.rows * mix->hidden_size;
  batch.lengths = stg_arena_alloc(arena, mix->n_requests, sizeof *batch.lengths);
  batch.row_map = stg_arena_alloc(arena, batch.rows, sizeof *batch.row_map);
  batch.ops = stg_arena_alloc(arena, batch.n_vectors, sizeof *batch.ops);
  batch.vectors = stg_arena_alloc(arena, (size_t)batch.n_vectors * mix->hidden_size, 2);
  batch.hidden = stg_arena_alloc(arena, elements, 2);
  batch.residual = mix->state != STG_BENCH_ALONE ? stg_arena_alloc(arena, elements, 2) : NULL;
  batch.weight = mix->state == STG_BENCH_NORM ? stg_arena_alloc(arena, mix->hidden_size, 2) : NULL;
  stg_status status = stg_arena_status(arena, reterr);
  if (status == STG_OK) {
    fill_requests(&batch);
    status = fill_vectors(&batch, reterr);
  }
  if (status == STG_OK) {
    status = fill_rows(STREAM_HIDDEN, batch.hidden, elements, reterr);
  }
  if (status == STG_OK && mix->state != STG_BENCH_ALONE) {
    status = fill_rows(STREAM_RESIDUAL, batch.residual, elements, reterr);
  }
  if (status == STG_OK && mix->state == STG_BENCH_NORM) {
    status = fill_weight(&batch, reterr);
  }
  if (status != STG_OK) {
    stg_bench_batch_finish(&batch);
    return status;
  }
  *ret = batch;
  return STG_OK;
}

void stg_bench_batch_finish(struct stg_bench_batch *batch) {
  stg_arena_finish(&batch->arena);
  *batch = (struct stg_bench_batch){0};
}

const struct stg_bench_op *stg_bench_batch_chain(const struct stg_bench_batch *batch,
                                                 uint32_t request) {
  return batch->ops + (size_t)(request % batch->mix->n_distinct) * batch->mix->n_ops;
}

size_t stg_bench_batch_bytes(const struct stg_bench_batch *batch) {
  return (size_t)batch->rows * batch->mix->hidden_size * sizeof *batch->hidden;
}

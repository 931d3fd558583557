/*
 * bench/mixture.c: see mixture.h.
 */
#include "tools/bench/mixture.h"

#include "engine/hostmem.h"
#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "specs/random.h"
#include "tools/bench/slots.h"

#define SEED 2024
#define ROWS_STREAM UINT32_MAX

stg_status stg_bench_vectors_init(size_t count, size_t length, struct stg_bench_vectors *ret,
                                  stg_error *reterr) {
  struct stg_bench_vectors vectors = {
      .count = count, .length = length, .data = stg_calloc(count * length, sizeof *vectors.data)};
  float *scratch = stg_calloc(length, sizeof *scratch);
  const bool had = vectors.data != NULL && scratch != NULL;
  for (size_t i = 0; had && i < count; i++) {
    stg_random_normal(SEED, i, 0, 1, scratch, length);
    stg_bench_round_to_unit(scratch, length, vectors.data + i * length);
  }
  stg_free(scratch);
  if (!had) {
    stg_free(vectors.data);
    return stg_error_memory(reterr, "the vectors of a mixture", count * length * sizeof(uint16_t));
  }
  *ret = vectors;
  return STG_OK;
}

void stg_bench_vectors_finish(struct stg_bench_vectors *vectors) {
  stg_free(vectors->data);
  *vectors = (struct stg_bench_vectors){0};
}

static struct stg_bench_op op_of(size_t slot) {
  static const struct stg_bench_op kinds[] = {
      {.kind = STG_BENCH_ADD, .a = 4},
      {.kind = STG_BENCH_CAP, .a = -0.5F, .b = 0.5F},
      {.kind = STG_BENCH_ABLATION},
  };
  struct stg_bench_op op = kinds[slot % (sizeof kinds / sizeof kinds[0])];
  op.vector = (uint32_t)slot;
  return op;
}

stg_status stg_bench_mixture_set(stg_engine *engine, stg_steer *steer,
                                 const struct stg_bench_vectors *vectors, stg_error *reterr) {
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < vectors->count; i++) {
    const struct stg_bench_op op = op_of(i);
    const struct stg_bench_chain chain = {
        .ops = &op, .n_ops = 1, .vectors = vectors->data, .length = vectors->length};
    status = stg_bench_slot_set(engine, steer, (uint32_t)i, &chain, reterr);
  }
  return status;
}

stg_status stg_bench_rows_fill(size_t count, uint16_t *ret_rows, stg_error *reterr) {
  float *values = stg_calloc(count, sizeof *values);
  if (values == NULL) {
    return stg_error_memory(reterr, "random rows", count * sizeof *values);
  }
  stg_random_normal(SEED, ROWS_STREAM, 0, 1, values, count);
  for (size_t i = 0; i < count; i++) {
    ret_rows[i] = stg_bf16_from_f32(values[i] * STG_BENCH_ROW_DEVIATION);
  }
  stg_free(values);
  return STG_OK;
}

stg_status stg_bench_rows_alloc(stg_engine *engine, size_t rows, size_t hidden, void **ret_rows,
                                stg_error *reterr) {
  const size_t count = rows * hidden;
  const size_t bytes = count * sizeof(uint16_t);
  uint16_t *host = stg_calloc(count, sizeof *host);
  void *memory = NULL;
  stg_status status = host != NULL ? stg_bench_rows_fill(count, host, reterr)
                                   : stg_error_memory(reterr, "the rows of a batch", bytes);
  if (status == STG_OK) {
    status = stg_mem_alloc(engine, bytes, &memory, reterr);
  }
  if (status == STG_OK) {
    status = stg_mem_upload(engine, memory, host, bytes, reterr);
  }
  stg_free(host);
  if (status != STG_OK) {
    stg_mem_free(engine, memory);
    return status;
  }
  *ret_rows = memory;
  return STG_OK;
}

/*
 * baseline.c: a batch's inputs for the baselines, on the device, and the list of baselines.
 *
 * How each is launched is in baseline_launch.c.
 */
#include "tools/bench/baseline.h"

#include "engine/hostmem.h"
#include "tools/bench/baseline_launch.h"
#include "tools/bench/kernels.h"

#define MAX_HIDDEN 8192

const struct stg_bench_baseline stg_bench_baselines[STG_BENCH_N_BASELINES] = {
    {"eager launches", stg_bench_launch_eager, false, false},
    {"slice loop", stg_bench_launch_slices, false, false},
    {"slice loop in a graph", stg_bench_launch_slices, true, false},
    {"gather/scatter", stg_bench_launch_gather, false, false},
    {"adaptive", stg_bench_launch_adaptive, false, false},
    {"fused", stg_bench_launch_fused, true, true},
};

stg_status stg_bench_rival_kernels_init(stg_engine *engine, struct stg_bench_rival_kernels *ret,
                                        stg_error *reterr) {
  static const char *const names[STG_RIVAL_KERNEL_COUNT] = {
#define KERNEL_NAME(name, symbol) symbol,
      STG_BENCH_RIVAL_KERNELS(KERNEL_NAME)
#undef KERNEL_NAME
  };
  struct stg_bench_rival_kernels kernels = {.engine = engine};
  stg_status status = stg_bench_kernels_load(engine, "baselines", names, STG_RIVAL_KERNEL_COUNT,
                                             kernels.modules, reterr);
  if (status == STG_OK) {
    *ret = kernels;
  }
  return status;
}

void stg_bench_rival_kernels_finish(struct stg_bench_rival_kernels *kernels) {
  if (kernels->engine != NULL) {
    stg_bench_kernels_unload(kernels->engine, kernels->modules, STG_RIVAL_KERNEL_COUNT);
  }
  *kernels = (struct stg_bench_rival_kernels){0};
}

bool stg_bench_rival_can(const struct stg_bench_mix *mix) {
  return mix->n_ops == 1 && mix->state == STG_BENCH_ALONE && !mix->unsteered &&
         mix->hidden_size % 8 == 0 && mix->hidden_size <= MAX_HIDDEN;
}

/* The host's side of what is uploaded. */
struct tables {
  int32_t *index, *vector_of;
  float *params;
};

static void fill_tables(struct stg_bench_rival *rival, const struct tables *tables) {
  const struct stg_bench_batch *batch = rival->batch;
  const uint32_t n_distinct = batch->mix->n_distinct;
  uint32_t place = 0;
  for (uint32_t c = 0; c < n_distinct; c++) {
    for (uint32_t row = 0; row < batch->rows; row++) {
      if ((uint32_t)batch->row_map[row] % n_distinct == c) {
        tables->index[place++] = (int32_t)row;
        rival->group_rows[c]++;
      }
    }
  }
  for (uint32_t row = 0; row < batch->rows; row++) {
    const struct stg_bench_op *op = stg_bench_batch_chain(batch, (uint32_t)batch->row_map[row]);
    tables->vector_of[row] = (int32_t)op->vector;
    tables->params[2 * (size_t)row] = op->a;
    tables->params[2 * (size_t)row + 1] = op->b;
  }
}

static stg_status send(struct stg_bench_rival *rival, const void *data, size_t bytes,
                       void **ret_memory, stg_error *reterr) {
  stg_engine *engine = rival->kernels->engine;
  stg_status status = stg_mem_alloc(engine, bytes, ret_memory, reterr);
  return status == STG_OK && data != NULL ? stg_mem_upload(engine, *ret_memory, data, bytes, reterr)
                                          : status;
}

static stg_status send_all(struct stg_bench_rival *rival, const struct tables *tables,
                           stg_error *reterr) {
  const struct stg_bench_batch *batch = rival->batch;
  const size_t rows = batch->rows;
  const size_t width = batch->mix->hidden_size;
  const struct {
    const void *data;
    size_t bytes;
    void **memory;
  } parts[] = {
      {batch->vectors, batch->n_vectors * width * sizeof *batch->vectors, &rival->vectors},
      {tables->index, rows * sizeof *tables->index, &rival->index},
      {tables->vector_of, rows * sizeof *tables->vector_of, &rival->vector_of},
      {tables->params, 2 * rows * sizeof *tables->params, &rival->params},
      {NULL, rows * width * sizeof(float), &rival->wide},
      {NULL, rows * sizeof(float), &rival->narrow[0]},
      {NULL, rows * sizeof(float), &rival->narrow[1]},
      {NULL, rows * sizeof(float), &rival->narrow[2]},
  };
  stg_status status = STG_OK;
  for (size_t i = 0; status == STG_OK && i < sizeof parts / sizeof parts[0]; i++) {
    status = send(rival, parts[i].data, parts[i].bytes, parts[i].memory, reterr);
  }
  return status;
}

stg_status stg_bench_rival_init(const struct stg_bench_rival_kernels *kernels,
                                const struct stg_bench_batch *batch, struct stg_bench_rival *ret,
                                stg_error *reterr) {
  struct stg_bench_rival rival = {.kernels = kernels, .batch = batch};
  struct stg_arena scratch = {0};
  const struct tables tables = {
      .index = stg_arena_alloc(&scratch, batch->rows, sizeof *tables.index),
      .vector_of = stg_arena_alloc(&scratch, batch->rows, sizeof *tables.vector_of),
      .params = stg_arena_alloc(&scratch, batch->rows, 2 * sizeof *tables.params),
  };
  rival.group_rows =
      stg_arena_alloc(&rival.arena, batch->mix->n_distinct, sizeof *rival.group_rows);
  stg_status status = stg_arena_status(&scratch, reterr);
  if (status == STG_OK) {
    status = stg_arena_status(&rival.arena, reterr);
  }
  if (status == STG_OK) {
    fill_tables(&rival, &tables);
    status = send_all(&rival, &tables, reterr);
  }
  stg_arena_finish(&scratch);
  if (status != STG_OK) {
    stg_bench_rival_finish(&rival);
    return status;
  }
  *ret = rival;
  return STG_OK;
}

void stg_bench_rival_finish(struct stg_bench_rival *rival) {
  if (rival->kernels != NULL) {
    void *const parts[] = {rival->vectors, rival->index,     rival->vector_of, rival->params,
                           rival->wide,    rival->narrow[0], rival->narrow[1], rival->narrow[2]};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
      stg_mem_free(rival->kernels->engine, parts[i]);
    }
  }
  stg_arena_finish(&rival->arena);
  *rival = (struct stg_bench_rival){0};
}

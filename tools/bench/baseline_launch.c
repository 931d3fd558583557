/*
 * baseline_launch.c: see baseline_launch.h.
 */
#include "tools/bench/baseline_launch.h"

#include "engine/hostmem.h"

#define THREADS 256
#define ELEMENT_BYTES 2
/* Elements that a thread of an elementwise kernel takes, and that a 16-byte word holds. */
#define QUAD 4
#define CHUNK 8

/* Where the launches of one call go. */
struct call {
  const struct stg_bench_rival *rival;
  char *rows; /* of the buffer */
  stg_stream stream;
  stg_error *reterr;
  int32_t width;
};

static struct call call_of(void *user, const struct stg_bench_buffers *buffers, size_t index,
                           stg_stream stream, stg_error *reterr) {
  const struct stg_bench_rival *rival = user;
  return (struct call){.rival = rival,
                       .rows = buffers->memory[index],
                       .stream = stream,
                       .reterr = reterr,
                       .width = (int32_t)rival->batch->mix->hidden_size};
}

static stg_status launch(const struct call *call, enum stg_bench_rival_kernel kernel,
                         uint32_t blocks, void **args) {
  const struct stg_bench_rival_kernels *kernels = call->rival->kernels;
  const struct stg_launch_dims dims = {.grid_x = blocks, .block_x = THREADS};
  return stg_launch(stg_mem_device(kernels->engine), kernels->modules[kernel], &dims, args,
                    call->stream, call->reterr);
}

static char *row_at(const struct call *call, uint32_t row) {
  return call->rows + (size_t)row * (size_t)call->width * ELEMENT_BYTES;
}

static void *vector_at(const struct call *call, uint32_t vector) {
  return (char *)call->rival->vectors + (size_t)vector * (size_t)call->width * ELEMENT_BYTES;
}

static uint32_t blocks_for(int64_t items) {
  return (uint32_t)((items + THREADS - 1) / THREADS);
}

/* h += scale * v: scale the vector, add it to every row. */
static stg_status eager_add(const struct call *call, char *h, int32_t rows,
                            const struct stg_bench_op *op) {
  void *v = vector_at(call, op->vector);
  void *t = call->rival->wide;
  int32_t width_quads = call->width / QUAD;
  int64_t quads = (int64_t)rows * width_quads;
  float scale = op->a;
  void *scale_args[] = {&v, &t, &width_quads, &scale};
  stg_status status =
      launch(call, STG_RIVAL_EAGER_SCALE_VECTOR, blocks_for(width_quads), scale_args);
  void *add_args[] = {&h, &t, &quads, &width_quads};
  return status == STG_OK ? launch(call, STG_RIVAL_EAGER_ADD_VECTOR, blocks_for(quads), add_args)
                          : status;
}

/* From p to the coefficient of v: clamp and subtract, or scale. Gives where it is. */
static stg_status eager_coefficient(const struct call *call, int32_t rows,
                                    const struct stg_bench_op *op, void **ret_coefficient) {
  void *p = call->rival->narrow[0];
  void *q = call->rival->narrow[1];
  void *d = call->rival->narrow[2];
  float lo = op->a;
  float hi = op->b;
  float factor = op->a - 1.0f;
  *ret_coefficient = d;
  if (op->kind == STG_BENCH_ABLATION) {
    void *scale_args[] = {&p, &d, &rows, &factor};
    return launch(call, STG_RIVAL_EAGER_SCALE, blocks_for(rows), scale_args);
  }
  void *clamp_args[] = {&p, &q, &rows, &lo, &hi};
  stg_status status = launch(call, STG_RIVAL_EAGER_CLAMP, blocks_for(rows), clamp_args);
  void *sub_args[] = {&q, &p, &d, &rows};
  return status == STG_OK ? launch(call, STG_RIVAL_EAGER_SUB, blocks_for(rows), sub_args) : status;
}

/* Multiply, sum, coefficient, multiply and add. */
static stg_status eager_projection(const struct call *call, char *h, int32_t rows,
                                   const struct stg_bench_op *op) {
  void *v = vector_at(call, op->vector);
  void *t = call->rival->wide;
  void *p = call->rival->narrow[0];
  int32_t width_quads = call->width / QUAD;
  int64_t quads = (int64_t)rows * width_quads;
  void *mul_args[] = {&h, &v, &t, &quads, &width_quads};
  stg_status status = launch(call, STG_RIVAL_EAGER_MUL, blocks_for(quads), mul_args);
  if (status == STG_OK) {
    void *sum_args[] = {&t, &p, &width_quads};
    status = launch(call, STG_RIVAL_EAGER_SUM, (uint32_t)rows, sum_args);
  }
  void *coefficient = NULL;
  if (status == STG_OK) {
    status = eager_coefficient(call, rows, op, &coefficient);
  }
  if (status == STG_OK) {
    void *muladd_args[] = {&h, &coefficient, &v, &quads, &width_quads};
    status = launch(call, STG_RIVAL_EAGER_MULADD, blocks_for(quads), muladd_args);
  }
  return status;
}

static stg_status eager_slice(const struct call *call, char *h, uint32_t rows,
                              const struct stg_bench_op *op) {
  return op->kind == STG_BENCH_ADD ? eager_add(call, h, (int32_t)rows, op)
                                   : eager_projection(call, h, (int32_t)rows, op);
}

/* The fused kernel of one op on consecutive rows. */
static stg_status fused_slice(const struct call *call, char *h, uint32_t rows,
                              const struct stg_bench_op *op) {
  static const enum stg_bench_rival_kernel kernels[] = {
      [STG_BENCH_CAP] = STG_RIVAL_SLICE_CAP,
      [STG_BENCH_ADD] = STG_RIVAL_SLICE_ADD,
      [STG_BENCH_ABLATION] = STG_RIVAL_SLICE_ABLATION,
  };
  void *v = vector_at(call, op->vector);
  float a = op->a;
  float b = op->b;
  int32_t width_chunks = call->width / CHUNK;
  void *args[] = {&h, &v, &a, &b, &width_chunks};
  return launch(call, kernels[op->kind], rows, args);
}

typedef stg_status slice_fn(const struct call *call, char *h, uint32_t rows,
                            const struct stg_bench_op *op);

static stg_status for_each_request(const struct call *call, slice_fn *slice) {
  const struct stg_bench_batch *batch = call->rival->batch;
  stg_status status = STG_OK;
  uint32_t row = 0;
  for (uint32_t r = 0; status == STG_OK && r < batch->mix->n_requests; r++) {
    status = slice(call, row_at(call, row), batch->lengths[r], stg_bench_batch_chain(batch, r));
    row += batch->lengths[r];
  }
  return status;
}

stg_status stg_bench_launch_eager(void *user, const struct stg_bench_buffers *buffers, size_t index,
                                  stg_stream stream, stg_error *reterr) {
  const struct call call = call_of(user, buffers, index, stream, reterr);
  return for_each_request(&call, eager_slice);
}

stg_status stg_bench_launch_slices(void *user, const struct stg_bench_buffers *buffers,
                                   size_t index, stg_stream stream, stg_error *reterr) {
  const struct call call = call_of(user, buffers, index, stream, reterr);
  return for_each_request(&call, fused_slice);
}

/* Rows [first, first + rows) of the index list: all of one chain. */
static stg_status gather_group(const struct call *call, uint32_t first, uint32_t rows,
                               const struct stg_bench_op *op) {
  void *h = call->rows;
  void *index = (int32_t *)call->rival->index + first;
  void *t = call->rival->wide;
  int32_t width_chunks = call->width / CHUNK;
  void *gather_args[] = {&h, &index, &t, &width_chunks};
  stg_status status = launch(call, STG_RIVAL_GATHER, rows, gather_args);
  if (status == STG_OK) {
    status = fused_slice(call, t, rows, op);
  }
  void *scatter_args[] = {&t, &index, &h, &width_chunks};
  return status == STG_OK ? launch(call, STG_RIVAL_SCATTER, rows, scatter_args) : status;
}

stg_status stg_bench_launch_gather(void *user, const struct stg_bench_buffers *buffers,
                                   size_t index, stg_stream stream, stg_error *reterr) {
  const struct call call = call_of(user, buffers, index, stream, reterr);
  const struct stg_bench_batch *batch = call.rival->batch;
  stg_status status = STG_OK;
  uint32_t first = 0;
  for (uint32_t c = 0; status == STG_OK && c < batch->mix->n_distinct; c++) {
    const uint32_t rows = call.rival->group_rows[c];
    status = gather_group(&call, first, rows, stg_bench_batch_chain(batch, c));
    first += rows;
  }
  return status;
}

stg_status stg_bench_launch_adaptive(void *user, const struct stg_bench_buffers *buffers,
                                     size_t index, stg_stream stream, stg_error *reterr) {
  const struct call call = call_of(user, buffers, index, stream, reterr);
  const struct stg_bench_batch *batch = call.rival->batch;
  if (batch->mix->n_distinct == 1) {
    return fused_slice(&call, call.rows, batch->rows, stg_bench_batch_chain(batch, 0));
  }
  return batch->mix->n_distinct < batch->mix->n_requests
             ? stg_bench_launch_gather(user, buffers, index, stream, reterr)
             : for_each_request(&call, fused_slice);
}

stg_status stg_bench_launch_fused(void *user, const struct stg_bench_buffers *buffers, size_t index,
                                  stg_stream stream, stg_error *reterr) {
  static const enum stg_bench_rival_kernel kernels[] = {
      [STG_BENCH_CAP] = STG_RIVAL_FUSED_CAP,
      [STG_BENCH_ADD] = STG_RIVAL_FUSED_ADD,
      [STG_BENCH_ABLATION] = STG_RIVAL_FUSED_ABLATION,
  };
  const struct call call = call_of(user, buffers, index, stream, reterr);
  const struct stg_bench_rival *rival = call.rival;
  void *h = call.rows;
  void *vectors = rival->vectors;
  void *vector_of = rival->vector_of;
  void *params = rival->params;
  int32_t width_chunks = call.width / CHUNK;
  void *args[] = {&h, &vectors, &vector_of, &params, &width_chunks};
  return launch(&call, kernels[stg_bench_batch_chain(rival->batch, 0)->kind], rival->batch->rows,
                args);
}

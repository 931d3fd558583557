/*
 * heads.c: heads from one order to the other, which is also the combine of an attention's output.
 */
#include "engine/attn.h"
#include "engine/attn_check.h"
#include "engine/cpu/rope.h"

static stg_status check_transpose(const stg_rope *rope, stg_heads_tensors *tensors,
                                  stg_error *reterr) {
  const struct stg_rope_geometry *g = &rope->geometry;
  if (rope->transpose == NULL) {
    return stg_error_set(reterr, STG_E_NOT_DECLARED,
                         "stg_heads_transpose: the rope does not declare transpose");
  }
  if (tensors->heads < 1 || tensors->heads > STG_ROPE_MAX_HEADS || tensors->rows < 0 ||
      tensors->rows > INT32_MAX || (unsigned)tensors->from_order > STG_ORDER_HEADS_FIRST) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_heads_transpose: %u heads of %lld rows in order %d", tensors->heads,
                         (long long)tensors->rows, (int)tensors->from_order);
  }
  const enum stg_heads_order from_order = (enum stg_heads_order)tensors->from_order;
  const enum stg_heads_order to_order =
      from_order == STG_HEADS_ROWS_FIRST ? STG_HEADS_HEADS_FIRST : STG_HEADS_ROWS_FIRST;
  const struct stg_attn_heads from = {"from", tensors->from, &tensors->from_stride, tensors->heads};
  const struct stg_attn_heads to = {"to", tensors->to, &tensors->to_stride, tensors->heads};
  stg_status status =
      stg_attn_check_heads_of(g->dtype, from_order, g->dim, &from, tensors->rows, reterr);
  return status == STG_OK
             ? stg_attn_check_heads_of(g->dtype, to_order, g->dim, &to, tensors->rows, reterr)
             : status;
}

static stg_status transpose_cuda(stg_rope *rope, const stg_heads_tensors *tensors,
                                 stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = rope->object.engine;
  const struct stg_rope_geometry *g = &rope->geometry;
  const struct stg_kernel *kernel = stg_attn_kernel(rope->transpose);
  struct stg_attn_launch launch;
  stg_status status = stg_attn_launch_init(engine, NULL, tensors->rows, stream, &launch, reterr);
  if (status == STG_OK) {
    status = stg_rope_hold(rope, NULL, &launch, reterr);
  }
  if (status != STG_OK || launch.rows == 0) {
    return status;
  }
  const bool aligned = g->dim % 8 == 0 &&
                       stg_attn_is_aligned(g->dtype, tensors->from, tensors->from_stride) &&
                       stg_attn_is_aligned(g->dtype, tensors->to, tensors->to_stride);
  struct stg_transpose_args args = {
      .from = stg_attn_address(tensors->from),
      .to = stg_attn_address(tensors->to),
      .from_stride = tensors->from_stride,
      .to_stride = tensors->to_stride,
      .rows = (int32_t)tensors->rows,
      .heads = tensors->heads,
      .flags = (aligned ? STG_ROPE_ALIGNED : 0) |
               (tensors->from_order == STG_ORDER_HEADS_FIRST ? STG_TRANSPOSE_FROM_HEADS : 0),
  };
  const struct stg_node_launch node = {
      .kernel = kernel,
      .dims = {.grid_x = (uint32_t)launch.rows, .block_x = kernel->rule.threads},
      .args = &args,
  };
  return stg_attn_launch_one(engine, &launch, &node, reterr);
}

stg_status stg_heads_transpose(stg_rope *rope, const stg_heads_tensors *tensors, stg_stream stream,
                               stg_error *reterr) {
  if (rope == NULL || tensors == NULL || tensors->struct_size != sizeof *tensors) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_heads_transpose: rope is NULL, or struct_size is not %zu",
                         sizeof *tensors);
  }
  stg_heads_tensors whole = *tensors;
  stg_status status = stg_engine_check_process(rope->object.engine, reterr);
  if (status == STG_OK) {
    status = check_transpose(rope, &whole, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  if (stg_engine_is_cuda(rope->object.engine)) {
    return transpose_cuda(rope, &whole, stream, reterr);
  }
  const struct stg_cpu_transpose transpose = {
      .dtype = rope->geometry.dtype,
      .rows = whole.rows,
      .heads = whole.heads,
      .dim = rope->geometry.dim,
      .from_order = (enum stg_heads_order)whole.from_order,
      .from = whole.from,
      .from_stride = whole.from_stride,
      .to = whole.to,
      .to_stride = whole.to_stride,
  };
  stg_cpu_transpose_heads(&transpose);
  return STG_OK;
}

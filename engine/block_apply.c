/*
 * block_apply.c: one layer of a block: one launch of a graph, or its nodes in a host's capture.
 * Allocates nothing. All parts are checked before any goes out.
 */
#include "engine/apply.h"
#include "engine/apply_check.h"
#include "engine/block.h"
#include "runtime/nvtx.h"

/* A layer's tensors, checked, with strides filled in. */
struct layer {
  uint32_t layer;
  stg_rope_tensors rope;
  stg_attend_tensors attend;
  stg_apply steer;
  int64_t steer_stride;
  bool advance;
};

/* Arguments of all parts. */
struct args {
  struct stg_rope_args rope;
  struct stg_decode_args attend;
  struct stg_steer_args steer;
  struct stg_advance_args advance;
};

static stg_status check_call(const stg_block *block, const stg_block_tensors *tensors,
                             stg_error *reterr) {
  if (block == NULL || tensors == NULL || tensors->struct_size != sizeof *tensors) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_apply: block is NULL, or struct_size is not %zu",
                         sizeof *tensors);
  }
  stg_status status = stg_engine_check_process(block->engine, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (block->rows == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_block_apply: the block has had no step");
  }
  if ((tensors->rope != NULL) != (block->rope != NULL) ||
      (tensors->attend != NULL) != (block->attend != NULL)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_apply: rope: %p, attend: %p; tensors are given of the parts "
                         "that there are",
                         (const void *)tensors->rope, (const void *)tensors->attend);
  }
  if ((tensors->rope != NULL && tensors->rope->struct_size != sizeof *tensors->rope) ||
      (tensors->attend != NULL && tensors->attend->struct_size != sizeof *tensors->attend)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_apply: struct_size of rope is not %zu, or of attend not %zu",
                         sizeof *tensors->rope, sizeof *tensors->attend);
  }
  return STG_OK;
}

/* The rows may have been set anew since the plan was resolved. */
static stg_status check_rows(const stg_block *block, stg_error *reterr) {
  const stg_rows *rows = block->rows;
  const struct stg_plan *plan = block->plans[0] != NULL ? block->plans[0] : block->plans[1];
  const struct stg_graph_shape *shape = &plan->shape;
  if (shape->rows != rows->shape.rows || shape->batch != rows->shape.batch ||
      shape->seq != rows->shape.seq) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_apply: the rows were set anew, in other buckets; step the "
                         "block behind them");
  }
  if (block->frame != NULL && block->frame->rows != rows->rows) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_block_apply: the frame has %lld rows now, rows have %lld",
                         (long long)block->frame->rows, (long long)rows->rows);
  }
  return STG_OK;
}

static stg_status check_steer(const stg_block *block, const stg_block_tensors *tensors,
                              struct layer *ret, stg_error *reterr) {
  ret->steer = (stg_apply){
      .struct_size = sizeof ret->steer,
      .layer = tensors->steer_layer,
      .hidden = ret->attend.out,
      .row_stride = ret->attend.out_stride,
  };
  return stg_apply_check(block->frame, &ret->steer, &ret->steer_stride, reterr);
}

static stg_status check(const stg_block *block, const stg_block_tensors *tensors, struct layer *ret,
                        stg_error *reterr) {
  struct layer layer = {.layer = tensors->layer,
                        .advance = block->advance && tensors->layer + 1 == block->kv->form.layers};
  stg_status status = check_rows(block, reterr);
  if (status == STG_OK && block->rope != NULL) {
    status = stg_rope_check(block->rope, block->rows, tensors->rope, tensors->layer, false,
                            &layer.rope, reterr);
  }
  if (status == STG_OK && block->attend != NULL) {
    status = stg_attend_check(block->attend, block->rows, tensors->attend, tensors->layer,
                              &layer.attend, reterr);
  }
  if (status == STG_OK && block->steer != NULL) {
    status = check_steer(block, tensors, &layer, reterr);
  }
  *ret = layer;
  return status;
}

static stg_status run_cpu(const stg_block *block, const struct layer *layer, stg_error *reterr) {
  stg_status status = STG_OK;
  if (block->rope != NULL) {
    status = stg_rope_run_cpu(block->rope, block->rows, &layer->rope, layer->layer, reterr);
  }
  if (status == STG_OK && block->attend != NULL) {
    status = stg_attend_run_cpu(block->attend, block->rows, &layer->attend, layer->layer, reterr);
  }
  if (status == STG_OK && block->steer != NULL) {
    status = stg_apply_cpu(block->frame, &layer->steer, layer->steer_stride, reterr);
  }
  if (status == STG_OK && layer->advance) {
    stg_advance_run_cpu(block->kv, block->rows);
  }
  return status;
}

/* The parts over `count` rows, in their order. */
static size_t fill_nodes(const stg_block *block, const struct layer *layer, int64_t count,
                         const struct stg_kernel *steer_kernel, struct args *args,
                         struct stg_node_launch nodes[STG_PLAN_MAX_PARTS]) {
  size_t n = 0;
  if (block->rope != NULL) {
    nodes[n++] = stg_rope_node(block->rope, block->rows, &layer->rope, layer->layer, false, count,
                               &args->rope);
  }
  if (block->attend != NULL) {
    nodes[n++] = stg_attend_node(block->attend, block->rows, &layer->attend, layer->layer, count,
                                 &args->attend);
  }
  if (block->steer != NULL) {
    nodes[n++] = stg_apply_node(block->frame, steer_kernel, &args->steer);
  }
  if (layer->advance) {
    nodes[n++] = stg_advance_node(block->kv, block->rows, count, &args->advance);
  }
  return n;
}

/* Everything that can be refused, before a node is added. */
static stg_status hold(const stg_block *block, const struct stg_attn_launch *launch,
                       const struct stg_kernel **ret_kernel, stg_error *reterr) {
  stg_status status = STG_OK;
  if (block->steer != NULL) {
    status = stg_apply_capture_kernel(block->frame, ret_kernel, reterr);
  }
  if (status == STG_OK && block->rope != NULL) {
    status = stg_rope_hold(block->rope, block->rows, launch, reterr);
  }
  if (status == STG_OK && block->attend != NULL) {
    status = stg_attend_hold(block->attend, block->rows, launch, reterr);
  }
  if (status == STG_OK && block->steer != NULL) {
    status = stg_apply_pin(block->frame, launch->stream, reterr);
  }
  return status;
}

static stg_status capture(const stg_block *block, const struct layer *layer,
                          const struct stg_attn_launch *launch, struct args *args,
                          stg_error *reterr) {
  const struct stg_kernel *kernel = NULL;
  struct stg_node_launch nodes[STG_PLAN_MAX_PARTS];
  stg_status status = hold(block, launch, &kernel, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (block->frame != NULL) {
    args->steer.rows = (int32_t)block->frame->plan->shape.rows;
  }
  const struct stg_plan_launch how = {.early = launch->early, .stream = launch->stream};
  const size_t count = fill_nodes(block, layer, launch->rows, kernel, args, nodes);
  return stg_plan_capture(block->engine, &how, nodes, count, reterr);
}

static void launched(stg_block *block, const struct layer *layer,
                     const struct stg_attn_launch *launch) {
  stg_attn_launched(launch, block->rows);
  if (block->steer != NULL) {
    stg_apply_launched(block->frame, block->kernel, layer->steer.layer);
  } else {
    stg_usage_launch(&block->engine->usage, stg_kernel_tier(block->kernel));
  }
}

static stg_status run_cuda(stg_block *block, const struct layer *layer, stg_stream stream,
                           stg_error *reterr) {
  struct args args;
  struct stg_attn_launch launch;
  struct stg_node_launch nodes[STG_PLAN_MAX_PARTS];
  stg_status status = stg_attn_launch_init(block->engine, block->rows, 0, stream, &launch, reterr);
  if (status != STG_OK || launch.rows == 0) {
    return status;
  }
  if (block->steer != NULL) {
    stg_apply_args(block->frame, &layer->steer, layer->steer_stride, &args.steer);
  }
  if (launch.capturing) {
    return capture(block, layer, &launch, &args, reterr);
  }
  const struct stg_plan_launch how = {
      .exec = block->execs[layer->advance ? 1 : 0],
      .early = launch.early && (block->frame == NULL || !block->frame->fresh),
      .stream = stream,
  };
  const size_t count = fill_nodes(block, layer, launch.rows, block->kernel, &args, nodes);
  status = stg_plan_launch(block->engine, &how, nodes, count, reterr);
  if (status == STG_OK) {
    launched(block, layer, &launch);
  }
  return status;
}

stg_status stg_block_apply(stg_block *block, const stg_block_tensors *tensors, stg_stream stream,
                           stg_error *reterr) {
  struct layer layer;
  stg_status status = check_call(block, tensors, reterr);
  if (status == STG_OK) {
    status = check(block, tensors, &layer, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  atomic_fetch_add_explicit(&block->engine->usage.attention_applies, 1, memory_order_relaxed);
  stg_nvtx_push_layer("block", layer.layer);
  status = stg_engine_is_cuda(block->engine) ? run_cuda(block, &layer, stream, reterr)
                                             : run_cpu(block, &layer, reterr);
  stg_nvtx_pop();
  return status;
}

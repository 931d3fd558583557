/*
 * attend_apply.c: attention of the rows of a step. One launch; what is allocated, once for rows, is
 * workspace.c's. What may be given is attend_check.c's.
 */
#include "engine/attn.h"
#include "engine/attn_check.h"
#include "engine/cpu/decode.h"
#include "runtime/nvtx.h"

/* What is read: a layer of the cache, or tensors. */
static struct stg_kv_view view_of(const stg_attend *attend, const stg_attend_tensors *tensors,
                                  uint32_t layer) {
  const struct stg_decode_geometry *g = &attend->geometry;
  if (attend->kv != NULL) {
    return stg_kv_view_of(attend->kv, layer);
  }
  return (struct stg_kv_view){
      .dtype = g->dtype,
      .batch = attend->batch,
      .kv_heads = g->kv_heads,
      .dim = g->dim,
      .capacity = attend->capacity,
      .k = (void *)(uintptr_t)tensors->k, /* a view is of what may be written too */
      .v = (void *)(uintptr_t)tensors->v,
      .seq_stride = tensors->seq_stride,
      .head_stride = tensors->head_stride,
      .pos_stride = tensors->pos_stride,
  };
}

struct stg_node_launch stg_attend_node(const stg_attend *attend, const stg_rows *rows,
                                       const stg_attend_tensors *tensors, uint32_t layer,
                                       int64_t count, struct stg_decode_args *args) {
  const struct stg_kernel *kernel = stg_attn_kernel(attend->kernels);
  const struct stg_kv_view view = view_of(attend, tensors, layer);
  const struct stg_decode_space space = stg_rows_space(rows, attend);
  const struct stg_decode_launch launch = stg_decode_launch_of(
      &attend->geometry, &space, (uint32_t)count,
      (uint32_t)stg_device_get_info(attend->object.engine->device)->multiprocessors);
  const struct stg_workspace *workspace = launch.owner ? NULL : rows->workspace;
  *args = (struct stg_decode_args){
      .q = stg_attn_address(tensors->q),
      .out = stg_attn_address(tensors->out),
      .q_stride = tensors->q_stride,
      .out_stride = tensors->out_stride,
      .rows = stg_rows_args_of(rows, count),
      .kv = stg_kv_args_of(&view),
      .key_mask = stg_attn_address(tensors->key_mask),
      .mask_stride = tensors->mask_stride,
      .valid = stg_attn_address(tensors->len),
      .partials = workspace != NULL ? workspace->partials : 0,
      .counters = workspace != NULL ? workspace->counters : 0,
      .window = attend->window > 0 ? (int32_t)attend->window : 1,
      .chunks = (int32_t)space.chunks,
      .scale = attend->scale,
      .flags = (launch.owner ? STG_DECODE_OWNER : 0) |
               (stg_attn_is_aligned(attend->geometry.dtype, tensors->out, tensors->out_stride)
                    ? STG_DECODE_ALIGNED
                    : 0),
  };
  return (struct stg_node_launch){
      .kernel = kernel,
      .dims = {.grid_x = launch.blocks,
               .block_x = kernel->rule.threads,
               .shared_bytes = kernel->rule.stage_bytes},
      .args = args,
  };
}

stg_status stg_attend_run_cpu(const stg_attend *attend, const stg_rows *rows,
                              const stg_attend_tensors *tensors, uint32_t layer,
                              stg_error *reterr) {
  const struct stg_kv_view view = view_of(attend, tensors, layer);
  const struct stg_cpu_attend_batch batch = {
      .geometry = &attend->geometry,
      .rows = stg_rows_host(rows),
      .kv = &view,
      .q = tensors->q,
      .q_stride = tensors->q_stride,
      .out = tensors->out,
      .out_stride = tensors->out_stride,
      .scale = attend->scale,
      .window = attend->window,
      .key_mask = tensors->key_mask,
      .mask_stride = tensors->mask_stride,
      .valid = tensors->len,
  };
  return stg_cpu_attend(&batch, reterr);
}

stg_status stg_attend_hold(stg_attend *attend, stg_rows *rows, const struct stg_attn_launch *launch,
                           stg_error *reterr) {
  if (!launch->capturing) {
    stg_attn_object_refill(&attend->object);
    return stg_rows_reserve(rows, attend, reterr);
  }
  if (stg_rows_workspace(rows, attend) == NULL) {
    return stg_error_set(reterr, STG_E_NOT_WARM,
                         "stg_attend_apply: there is no workspace yet for this attend and rows of "
                         "%u; apply it once before the capture",
                         rows->max_rows);
  }
  stg_status status = stg_attn_object_pin(&attend->object, launch->stream, reterr);
  return status == STG_OK ? stg_attn_object_pin(&rows->object, launch->stream, reterr) : status;
}

static stg_status run_cuda(stg_attend *attend, stg_rows *rows, const stg_attend_tensors *tensors,
                           stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = attend->object.engine;
  struct stg_attn_launch launch;
  stg_status status = stg_attn_launch_init(engine, rows, 0, stream, &launch, reterr);
  if (status == STG_OK) {
    status = stg_attend_hold(attend, rows, &launch, reterr);
  }
  if (status != STG_OK || launch.rows == 0) {
    return status;
  }
  struct stg_decode_args args;
  const struct stg_node_launch node =
      stg_attend_node(attend, rows, tensors, tensors->layer, launch.rows, &args);
  status = stg_attn_launch_one(engine, &launch, &node, reterr);
  if (status == STG_OK) {
    stg_attn_launched(&launch, rows);
  }
  return status;
}

stg_status stg_attend_apply(stg_attend *attend, stg_rows *rows, const stg_attend_tensors *tensors,
                            stg_stream stream, stg_error *reterr) {
  if (attend == NULL || tensors == NULL || tensors->struct_size != sizeof *tensors) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_attend_apply: attend is NULL, or struct_size is not %zu",
                         sizeof *tensors);
  }
  struct stg_engine *engine = attend->object.engine;
  stg_attend_tensors whole;
  stg_status status = stg_engine_check_process(engine, reterr);
  if (status == STG_OK) {
    status = stg_attend_check(attend, rows, tensors, tensors->layer, &whole, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  atomic_fetch_add_explicit(&engine->usage.attention_applies, 1, memory_order_relaxed);
  stg_nvtx_push_layer("attend", tensors->layer);
  status = stg_engine_is_cuda(engine)
               ? run_cuda(attend, rows, &whole, stream, reterr)
               : stg_attend_run_cpu(attend, rows, &whole, whole.layer, reterr);
  if (status == STG_OK) {
    stg_attn_count(engine, rows, 0, attend->kernels);
  }
  stg_nvtx_pop();
  return status;
}

/*
 * rope_apply.c: split, rotate and append; the way back. One launch each, nothing allocated. What
 * may be given is rope_check.c's.
 */
#include "codegen/rope_extents.h"
#include "engine/attn.h"
#include "engine/attn_check.h"
#include "engine/cpu/rope.h"
#include "runtime/base/intmath.h"
#include "runtime/nvtx.h"

static struct stg_rows_args rows_of(const stg_rows *rows, const stg_rope_tensors *tensors,
                                    int64_t count) {
  return rows != NULL ? stg_rows_args_of(rows, count)
                      : (struct stg_rows_args){.pos = stg_attn_address(tensors->pos),
                                               .rows = (int32_t)count,
                                               .batch = 1,
                                               .pos_is_64 = tensors->pos_is_64};
}

/* Where K and V go. */
static struct stg_kv_args sink_of(const stg_rope *rope, const stg_rope_tensors *tensors,
                                  uint32_t layer, bool backward) {
  if (rope->kv == NULL || backward) {
    return (struct stg_kv_args){.k = stg_attn_address(tensors->k),
                                .v = stg_attn_address(tensors->v)};
  }
  const struct stg_kv_view view = stg_kv_view_of(rope->kv, layer);
  return stg_kv_args_of(&view);
}

static bool are_aligned(const stg_rope *rope, const stg_rope_tensors *t,
                        const struct stg_kv_args *sink, bool cached) {
  const stg_dtype dtype = rope->geometry.dtype;
  const void *k = (const void *)(uintptr_t)sink->k, *v = (const void *)(uintptr_t)sink->v;
  return stg_attn_is_aligned(dtype, NULL, rope->geometry.dim) &&
         stg_attn_is_aligned(dtype, t->qkv, t->qkv_stride) &&
         stg_attn_is_aligned(dtype, t->q, t->q_stride) &&
         stg_attn_is_aligned(dtype, k, cached ? sink->pos_stride : t->k_stride) &&
         stg_attn_is_aligned(dtype, v, cached ? sink->pos_stride : t->v_stride);
}

struct stg_node_launch stg_rope_node(const stg_rope *rope, const stg_rows *rows,
                                     const stg_rope_tensors *tensors, uint32_t layer, bool backward,
                                     int64_t count, struct stg_rope_args *args) {
  const struct stg_kernel *kernel = stg_attn_kernel(backward ? rope->backward : rope->forward);
  const bool cached = rope->kv != NULL && !backward;
  const bool v_stays = !cached && tensors->v == NULL;
  const struct stg_rope_spans spans = stg_rope_spans_of(&rope->geometry, count, v_stays);
  *args = (struct stg_rope_args){
      .rows = rows_of(rows, tensors, count),
      .kv = sink_of(rope, tensors, layer, backward),
      .qkv = stg_attn_address(tensors->qkv),
      .q = stg_attn_address(tensors->q),
      .inv_freq = stg_attn_address(rope->angles.inv_freq),
      .log_scale = stg_attn_address(rope->angles.log_scale),
      .table = stg_attn_address(rope->angles.table),
      .words = cached ? stg_attn_address(rope->kv->words) : 0,
      .qkv_stride = tensors->qkv_stride,
      .q_stride = tensors->q_stride,
      .k_stride = tensors->k_stride,
      .v_stride = tensors->v_stride,
      .table_positions = (int32_t)rope->angles.table_positions,
      .xpos_base = rope->angles.xpos_base,
      .spans = spans.spans,
      .span_items = spans.span_items,
  };
  args->flags = are_aligned(rope, tensors, &args->kv, cached) ? STG_ROPE_ALIGNED : 0;
  return (struct stg_node_launch){
      .kernel = kernel,
      .dims = {.grid_x = (uint32_t)count * spans.spans, .block_x = kernel->rule.threads},
      .args = args,
  };
}

static struct stg_step_rows host_rows(const stg_rows *rows, const stg_rope_tensors *tensors) {
  return rows != NULL ? stg_rows_host(rows)
                      : (struct stg_step_rows){.rows = tensors->rows,
                                               .batch = 1,
                                               .pos = tensors->pos,
                                               .pos_is_64 = tensors->pos_is_64};
}

stg_status stg_rope_run_cpu(const stg_rope *rope, const stg_rows *rows,
                            const stg_rope_tensors *tensors, uint32_t layer, stg_error *reterr) {
  struct stg_kv_view view;
  if (rope->kv != NULL) {
    view = stg_kv_view_of(rope->kv, layer);
    pthread_mutex_lock(&rope->kv->lock); /* the words, which another thread may read */
  }
  const struct stg_cpu_rope_batch batch = {
      .geometry = &rope->geometry,
      .angles = &rope->angles,
      .rows = host_rows(rows, tensors),
      .qkv = tensors->qkv,
      .qkv_stride = tensors->qkv_stride,
      .q = {tensors->q, tensors->q_stride},
      .k = {tensors->k, tensors->k_stride},
      .v = {tensors->v, tensors->v_stride},
      .kv = rope->kv != NULL ? &view : NULL,
      .words = rope->kv != NULL ? rope->kv->words : NULL,
  };
  stg_status status = stg_cpu_rope(&batch, reterr);
  if (rope->kv != NULL) {
    pthread_mutex_unlock(&rope->kv->lock);
  }
  return status;
}

static stg_status run_back_cpu(const stg_rope *rope, const stg_rows *rows,
                               const stg_rope_tensors *tensors, stg_error *reterr) {
  const struct stg_cpu_rope_gradient gradient = {
      .geometry = &rope->geometry,
      .angles = &rope->angles,
      .rows = host_rows(rows, tensors),
      .q = {tensors->q, tensors->q_stride},
      .k = {tensors->k, tensors->k_stride},
      .v = {tensors->v, tensors->v_stride},
      .qkv = tensors->qkv,
      .qkv_stride = tensors->qkv_stride,
  };
  return stg_cpu_rope_back(&gradient, reterr);
}

stg_status stg_rope_hold(stg_rope *rope, stg_rows *rows, const struct stg_attn_launch *launch,
                         stg_error *reterr) {
  if (!launch->capturing) {
    stg_attn_object_refill(&rope->object);
    return STG_OK;
  }
  stg_status status = stg_attn_object_pin(&rope->object, launch->stream, reterr);
  return status == STG_OK && rows != NULL
             ? stg_attn_object_pin(&rows->object, launch->stream, reterr)
             : status;
}

static stg_status run_cuda(stg_rope *rope, stg_rows *rows, const stg_rope_tensors *tensors,
                           bool backward, stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = rope->object.engine;
  struct stg_attn_launch launch;
  stg_status status = stg_attn_launch_init(engine, rows, tensors->rows, stream, &launch, reterr);
  if (status == STG_OK) {
    status = stg_rope_hold(rope, rows, &launch, reterr);
  }
  if (status != STG_OK || launch.rows == 0) {
    return status;
  }
  struct stg_rope_args args;
  const struct stg_node_launch node =
      stg_rope_node(rope, rows, tensors, tensors->layer, backward, launch.rows, &args);
  status = stg_attn_launch_one(engine, &launch, &node, reterr);
  if (status == STG_OK) {
    stg_attn_launched(&launch, rows);
  }
  return status;
}

static stg_status run(stg_rope *rope, stg_rows *rows, const stg_rope_tensors *tensors,
                      bool backward, stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = rope->object.engine;
  stg_rope_tensors whole;
  stg_status status = stg_rope_check(rope, rows, tensors, tensors->layer, backward, &whole, reterr);
  if (status != STG_OK) {
    return status;
  }
  atomic_fetch_add_explicit(&engine->usage.attention_applies, 1, memory_order_relaxed);
  stg_nvtx_push_layer("rope", tensors->layer);
  if (stg_engine_is_cuda(engine)) {
    status = run_cuda(rope, rows, &whole, backward, stream, reterr);
  } else {
    status = backward ? run_back_cpu(rope, rows, &whole, reterr)
                      : stg_rope_run_cpu(rope, rows, &whole, whole.layer, reterr);
  }
  if (status == STG_OK) {
    stg_attn_count(engine, rows, whole.rows, backward ? rope->backward : rope->forward);
  }
  stg_nvtx_pop();
  return status;
}

static stg_status check_call(const stg_rope *rope, const stg_rope_tensors *tensors,
                             const char *call, stg_error *reterr) {
  if (rope == NULL || tensors == NULL || tensors->struct_size != sizeof *tensors) {
    return stg_error_set(reterr, STG_E_INVALID, "%s: rope is NULL, or struct_size is not %zu", call,
                         sizeof *tensors);
  }
  return stg_engine_check_process(rope->object.engine, reterr);
}

stg_status stg_rope_apply(stg_rope *rope, stg_rows *rows, const stg_rope_tensors *tensors,
                          stg_stream stream, stg_error *reterr) {
  stg_status status = check_call(rope, tensors, "stg_rope_apply", reterr);
  return status == STG_OK ? run(rope, rows, tensors, false, stream, reterr) : status;
}

stg_status stg_rope_backward(stg_rope *rope, stg_rows *rows, const stg_rope_tensors *tensors,
                             stg_stream stream, stg_error *reterr) {
  stg_status status = check_call(rope, tensors, "stg_rope_backward", reterr);
  if (status == STG_OK && rope->backward == NULL) {
    status = stg_error_set(reterr, STG_E_NOT_DECLARED,
                           "stg_rope_backward: the rope does not declare backward");
  }
  return status == STG_OK ? run(rope, rows, tensors, true, stream, reterr) : status;
}

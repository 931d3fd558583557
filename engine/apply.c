/*
 * apply.c: one layer: fill the arguments, launch. Allocates nothing, hashes nothing. What may be
 * given is apply_check.c's.
 */
#include "engine/apply.h"

#include "engine/apply_check.h"
#include "engine/cpu/steer.h"
#include "engine/exec.h"
#include "engine/steer.h"
#include "engine/steer_launch.h"
#include "runtime/base/dtype.h"
#include "runtime/nvtx.h"

static bool is_aligned(const void *pointer) {
  return ((uintptr_t)pointer & 15u) == 0;
}

void stg_apply_args(const stg_frame *frame, const stg_apply *apply, int64_t stride,
                    struct stg_steer_args *args) {
  const stg_steer *steer = frame->steer;
  const struct stg_steer_decl *decl = &steer->decl;
  const void *out = apply->out != NULL ? apply->out : apply->hidden;
  const bool aligned = is_aligned(apply->hidden) && is_aligned(out) &&
                       is_aligned(apply->residual) && is_aligned(apply->weight) &&
                       decl->hidden_size % 8 == 0 &&
                       ((size_t)stride * stg_dtype_bytes(decl->dtype)) % 16 == 0;
  *args = (struct stg_steer_args){
      .hidden = (uint64_t)(uintptr_t)apply->hidden,
      .out = (uint64_t)(uintptr_t)out,
      .residual = (uint64_t)(uintptr_t)apply->residual,
      .row_map = frame->row_map,
      .table = frame->table,
      .records = steer->records,
      .bank = steer->bank.memory,
      .report = (uint64_t)(uintptr_t)steer->words,
      .weight = (uint64_t)(uintptr_t)apply->weight,
      .row_stride = stride,
      .rows = (int32_t)frame->rows,
      .slots = decl->max_slots,
      .layer = apply->layer,
      .chain_words = steer->chain_words,
      .flags = (out == apply->hidden ? STG_STEER_IN_PLACE : 0) | (aligned ? STG_STEER_ALIGNED : 0),
      .epsilon = decl->epsilon,
      .probes = (uint64_t)(uintptr_t)apply->probes,
      .probe_stride = stg_apply_probe_stride(decl, apply),
      .counts = steer->counters.device_counts,
      .layers = decl->layers,
  };
}

/* Replays of any mixture use one kernel, which runs all that was declared. No other tile stands in:
 * the graph would keep it. */
stg_status stg_apply_capture_kernel(const stg_frame *frame, const struct stg_kernel **ret_kernel,
                                    stg_error *reterr) {
  const struct stg_kernel_set *set = frame->steer->kernels;
  const enum stg_tile tile = stg_steer_capture_tile(frame->plan->shape.rows);
  const struct stg_kernel *awaited = stg_kernels_awaited(set, tile);
  const bool failed = stg_kernel_state(awaited) == STG_KERNEL_FAILED;
  *ret_kernel = stg_kernels_for_capture(set, tile);
  if (*ret_kernel != NULL) {
    return STG_OK;
  }
  if (failed) {
    return stg_error_set(reterr, STG_E_COMPILE,
                         "kernel '%s' could not be made, as %s: without it nothing can be "
                         "captured in a bucket of %lld rows",
                         awaited->signature,
                         set->beyond_general ? "slot_set and the log say" : "the log says",
                         (long long)frame->plan->shape.rows);
  }
  return stg_error_set(
      reterr, STG_E_NOT_WARM, "kernel '%s' is not there yet: %s", awaited->signature,
      set->beyond_general
          ? "capture when no slot_set is pending"
          : "capture when stg_engine_stats counts no compile as queued or running, or "
            "create the engine with compile=block");
}

/* One pin for all layers. */
stg_status stg_apply_pin(stg_frame *frame, stg_stream stream, stg_error *reterr) {
  stg_steer *steer = frame->steer;
  struct stg_capture capture;
  stg_status status = stg_capture_info(steer->engine->device, stream, &capture, reterr);
  if (status != STG_OK || capture.graph == NULL || capture.id == frame->captured) {
    return status; /* without a graph the launch says what is wrong with the capture */
  }
  status = stg_pins_take(&steer->pins, frame, &capture, reterr);
  if (status == STG_OK) {
    frame->captured = capture.id;
  }
  return status;
}

struct stg_node_launch stg_apply_node(const stg_frame *frame, const struct stg_kernel *kernel,
                                      struct stg_steer_args *args) {
  const stg_steer *steer = frame->steer;
  return (struct stg_node_launch){
      .kernel = kernel,
      .dims = stg_steer_dims(steer->engine, kernel, stg_steer_chain_bytes(steer), args),
      .args = args,
  };
}

/* Adds one kernel node to the host's graph and nothing else; refused, it adds none. The node is for
 * the whole row bucket: a replay steers as many rows as the frame's map then says. */
static stg_status apply_captured(stg_frame *frame, const struct stg_plan_launch *launch,
                                 struct stg_steer_args *args, stg_error *reterr) {
  const struct stg_kernel *kernel = NULL;
  stg_status status = stg_apply_capture_kernel(frame, &kernel, reterr);
  if (status == STG_OK) {
    status = stg_apply_pin(frame, launch->stream, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  args->rows = (int32_t)frame->plan->shape.rows;
  const struct stg_node_launch node = stg_apply_node(frame, kernel, args);
  return stg_plan_capture(frame->steer->engine, launch, &node, 1, reterr);
}

static stg_status apply_cuda(stg_frame *frame, const stg_apply *apply, int64_t stride,
                             stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = frame->steer->engine;
  struct stg_steer_args args;
  stg_apply_args(frame, apply, stride, &args);
  bool capturing = false;
  stg_status status = stg_stream_is_capturing(engine->device, stream, &capturing, reterr);
  if (status != STG_OK) {
    return status;
  }
  /* what the step put on the stream must have ended before the kernel reads the map: the first
   * launch waits for it, and whatever comes later waits for that */
  const struct stg_plan_launch launch = {
      .exec = frame->exec,
      .early = !frame->fresh,
      .stream = stream,
  };
  if (capturing) {
    return apply_captured(frame, &launch, &args, reterr);
  }
  if (frame->rows == 0) {
    return STG_OK;
  }
  const struct stg_node_launch node = stg_apply_node(frame, frame->kernel, &args);
  status = stg_plan_launch(engine, &launch, &node, 1, reterr);
  if (status == STG_OK) {
    stg_apply_launched(frame, frame->kernel, apply->layer);
  }
  return status;
}

void stg_apply_launched(stg_frame *frame, const struct stg_kernel *kernel, uint32_t layer) {
  struct stg_usage *usage = &frame->steer->engine->usage;
  frame->fresh = false;
  stg_usage_launch(usage, stg_kernel_tier(kernel));
  stg_usage_apply(usage, &frame->tally, layer);
}

/* Whether the slot of row r steers it: it has a chain at the layer, and the row is in its window.
 */
static bool is_steered(const stg_frame *frame, int64_t r) {
  const int32_t slot = frame->host_map[r];
  if (slot < 0 || frame->cpu_chains[slot].program == NULL) {
    return false;
  }
  return frame->positions == NULL || stg_window_holds(&frame->snapshot[slot]->window,
                                                      frame->positions[r], frame->prompt_lens[r]);
}

/* Add what an apply counted to the table's, which other frames add to as well. */
static void keep_counts(stg_frame *frame, uint32_t layer) {
  stg_steer *steer = frame->steer;
  pthread_mutex_lock(&steer->lock);
  for (uint32_t s = 0; s < steer->decl.max_slots; s++) {
    const struct stg_record *record = frame->snapshot[s];
    if (frame->cpu_counts[s].touched > 0 && record != NULL && record->slot == s) {
      stg_counters_add(&steer->counters, s, layer, &frame->cpu_counts[s]);
    }
  }
  pthread_mutex_unlock(&steer->lock);
}

/* Rows name slots; the CPU backend wants chains. */
stg_status stg_apply_cpu(stg_frame *frame, const stg_apply *apply, int64_t stride,
                         stg_error *reterr) {
  const struct stg_steer_decl *decl = &frame->steer->decl;
  for (uint32_t s = 0; s < decl->max_slots; s++) {
    const struct stg_record *record = frame->snapshot[s];
    const struct stg_record_chain *chain =
        record != NULL ? stg_record_find(record, apply->layer) : NULL;
    frame->cpu_chains[s] = chain != NULL ? chain->cpu : (struct stg_cpu_chain){0};
    if (frame->cpu_counts != NULL) {
      frame->cpu_counts[s] = (struct stg_steer_counts){0};
    }
  }
  for (int64_t r = 0; r < frame->rows; r++) {
    const int32_t slot = frame->host_map[r];
    frame->cpu_rows[r] = slot == STG_ROW_PADDING ? STG_ROW_PADDING
                         : is_steered(frame, r)  ? slot
                                                 : STG_ROW_UNSTEERED;
  }
  const struct stg_cpu_batch batch = {
      .hidden_size = decl->hidden_size,
      .dtype = decl->dtype,
      .bank_dtype = decl->bank_dtype,
      .rows = frame->rows,
      .row_stride = stride,
      .hidden = apply->hidden,
      .out = apply->out != NULL ? apply->out : (void *)(uintptr_t)apply->hidden,
      .residual = apply->residual,
      .row_chain = frame->cpu_rows,
      .chains = frame->cpu_chains,
      .weight = apply->weight,
      .epsilon = decl->epsilon,
      .probes = apply->probes,
      .probe_stride = stg_apply_probe_stride(decl, apply),
      .counts = frame->cpu_counts,
  };
  const stg_status status = stg_cpu_steer(&batch, reterr);
  if (status == STG_OK) {
    stg_usage_apply(&frame->steer->engine->usage, &frame->tally, apply->layer);
  }
  if (status == STG_OK && frame->cpu_counts != NULL) {
    keep_counts(frame, apply->layer);
  }
  return status;
}

stg_status stg_steer_apply(stg_frame *frame, const stg_apply *apply, stg_stream stream,
                           stg_error *reterr) {
  int64_t stride = 0;
  stg_status status = stg_apply_check(frame, apply, &stride, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_engine *engine = frame->steer->engine;
  atomic_fetch_add_explicit(&engine->counters.applies, 1, memory_order_relaxed);
  stg_nvtx_push_layer("apply", apply->layer);
  status = stg_engine_is_cuda(engine) ? apply_cuda(frame, apply, stride, stream, reterr)
                                      : stg_apply_cpu(frame, apply, stride, reterr);
  stg_nvtx_pop();
  return status;
}

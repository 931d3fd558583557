/*
 * apply.c: one layer: check the tensors, fill the arguments, launch. Allocates nothing, hashes
 * nothing.
 */
#include "engine/cpu/steer.h"
#include "engine/exec.h"
#include "engine/steer.h"
#include "runtime/base/dtype.h"
#include "runtime/nvtx.h"

/* Whether the bytes [a, a+a_bytes) and [b, b+b_bytes) have some in common. */
static bool meets(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  const uintptr_t from_a = (uintptr_t)a, from_b = (uintptr_t)b;
  return from_a < from_b ? from_b - from_a < a_bytes && b_bytes > 0
                         : from_a - from_b < b_bytes && a_bytes > 0;
}

/* Ranges of bytes [a, a+size) and [b, b+size) that meet without being the same. */
static bool partly_overlaps(const void *a, const void *b, size_t size_bytes) {
  return a != b && meets(a, size_bytes, b, size_bytes);
}

/* Bytes from the first row's first element to the last row's last one. */
static size_t tensor_bytes(const stg_frame *frame, int64_t stride) {
  const struct stg_steer_decl *decl = &frame->steer->decl;
  int64_t elems = frame->rows == 0 ? 0 : (frame->rows - 1) * stride + decl->hidden_size;
  return (size_t)elems * stg_dtype_bytes(decl->dtype);
}

static int64_t probe_stride_of(const struct stg_steer_decl *decl, const stg_apply *apply) {
  return apply->probe_stride != 0 ? apply->probe_stride : (int64_t)decl->probes;
}

static stg_status check_apply(const stg_frame *frame, const stg_apply *apply, int64_t *ret_stride,
                              stg_error *reterr) {
  if (frame == NULL || apply == NULL || apply->struct_size != sizeof *apply) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: frame is NULL, or struct_size is not %zu",
                         sizeof *apply);
  }
  const struct stg_steer_decl *decl = &frame->steer->decl;
  const int64_t stride = apply->row_stride != 0 ? apply->row_stride : decl->hidden_size;
  if (!frame->stepped) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: the frame has had no step; call stg_steer_step first");
  }
  if (apply->layer >= decl->layers) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: layer %u is not below the declared %u", apply->layer,
                         decl->layers);
  }
  if (stride < decl->hidden_size || stride > INT64_MAX / (8 * (int64_t)(decl->max_rows + 1))) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: row_stride %lld is below hidden_size %lld, or huge",
                         (long long)stride, (long long)decl->hidden_size);
  }
  if (decl->pair != (apply->residual != NULL)) {
    return stg_error_set(
        reterr, STG_E_INVALID, "stg_steer_apply: residual is %s, but the table's state is %s",
        apply->residual != NULL ? "given" : "NULL", decl->pair ? "hidden+residual" : "hidden");
  }
  if ((decl->probes > 0) != (apply->probes != NULL)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: probes is %s, but the table declares %u",
                         apply->probes != NULL ? "given" : "NULL", decl->probes);
  }
  const int64_t probe_stride = probe_stride_of(decl, apply);
  if (probe_stride < (int64_t)decl->probes || probe_stride > INT32_MAX) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: probe_stride %lld is below the declared %u, or huge",
                         (long long)probe_stride, decl->probes);
  }
  const bool norm = decl->epilogue != STG_EPILOGUE_NONE;
  if (norm != (apply->weight != NULL)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: weight is %s, but the table's epilogue is %s",
                         apply->weight != NULL ? "given" : "NULL", norm ? "add_rmsnorm" : "none");
  }
  *ret_stride = stride;
  return STG_OK;
}

/* A device reads whole elements; the CPU backend reads bytes. */
static stg_status check_elements(const stg_frame *frame, const stg_apply *apply,
                                 stg_error *reterr) {
  if (frame->rows > 0 && apply->hidden == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "stg_steer_apply: hidden is NULL for %lld rows",
                         (long long)frame->rows);
  }
  const struct {
    const char *name;
    const void *at;
  } tensors[] = {{"hidden", apply->hidden},
                 {"out", apply->out},
                 {"residual", apply->residual},
                 {"weight", apply->weight}};
  const size_t element = stg_dtype_bytes(frame->steer->decl.dtype);
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    if (stg_engine_is_cuda(frame->steer->engine) && (uintptr_t)tensors[i].at % element != 0) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_steer_apply: %s at %p lies between elements of %zu bytes",
                           tensors[i].name, tensors[i].at, element);
    }
  }
  return STG_OK;
}

static stg_status check_overlap(const stg_frame *frame, const stg_apply *apply, int64_t stride,
                                stg_error *reterr) {
  const size_t bytes = tensor_bytes(frame, stride);
  if (apply->out != NULL && partly_overlaps(apply->hidden, apply->out, bytes)) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: hidden at %p and out at %p overlap in part; give the "
                         "same or disjoint memory",
                         apply->hidden, apply->out);
  }
  const bool norm = frame->steer->decl.epilogue != STG_EPILOGUE_NONE;
  const void *out = apply->out != NULL ? apply->out : apply->hidden;
  if (apply->residual != NULL &&
      (apply->residual == out || partly_overlaps(apply->residual, out, bytes))) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: residual at %p and out at %p overlap; the residual is "
                         "%s",
                         apply->residual, out, norm ? "written on its own" : "never written");
  }
  if (norm && (apply->residual == apply->hidden ||
               partly_overlaps(apply->residual, apply->hidden, bytes))) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: residual at %p and hidden at %p overlap; the epilogue "
                         "writes the residual",
                         apply->residual, apply->hidden);
  }
  return STG_OK;
}

/* The norm's weight: hidden_size elements, read while out and residual are written. */
static stg_status check_weight(const stg_frame *frame, const stg_apply *apply, int64_t stride,
                               stg_error *reterr) {
  const struct stg_steer_decl *decl = &frame->steer->decl;
  const void *out = apply->out != NULL ? apply->out : apply->hidden;
  const struct {
    const char *name;
    const void *at;
  } written[] = {{"out", out}, {"residual", apply->residual}};
  const size_t bytes = tensor_bytes(frame, stride);
  const size_t own = (size_t)decl->hidden_size * stg_dtype_bytes(decl->dtype);
  for (size_t i = 0; apply->weight != NULL && i < sizeof written / sizeof written[0]; i++) {
    if (meets(apply->weight, own, written[i].at, bytes)) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_steer_apply: weight at %p and %s at %p overlap; the weight is "
                           "read while %s is written",
                           apply->weight, written[i].name, written[i].at, written[i].name);
    }
  }
  return STG_OK;
}

/* Cells lie apart from what is read and written beside them. */
static stg_status check_probes(const stg_frame *frame, const stg_apply *apply, int64_t stride,
                               stg_error *reterr) {
  const struct stg_steer_decl *decl = &frame->steer->decl;
  if (apply->probes == NULL || frame->rows == 0) {
    return STG_OK;
  }
  if ((uintptr_t)apply->probes % sizeof(float) != 0) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "stg_steer_apply: probes at %p lies between elements of 4 bytes",
                         (const void *)apply->probes);
  }
  const int64_t cells = (frame->rows - 1) * probe_stride_of(decl, apply) + decl->probes;
  const size_t rows = tensor_bytes(frame, stride);
  const struct {
    const char *name;
    const void *at;
    size_t bytes;
  } others[] = {
      {"hidden", apply->hidden, rows},
      {"out", apply->out, rows},
      {"residual", apply->residual, rows},
      {"weight", apply->weight, (size_t)decl->hidden_size * stg_dtype_bytes(decl->dtype)}};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    if (others[i].at != NULL &&
        meets(apply->probes, (size_t)cells * sizeof(float), others[i].at, others[i].bytes)) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "stg_steer_apply: probes at %p and %s at %p overlap; give it memory of "
                           "its own",
                           (const void *)apply->probes, others[i].name, others[i].at);
    }
  }
  return STG_OK;
}

static bool is_aligned(const void *pointer) {
  return ((uintptr_t)pointer & 15u) == 0;
}

static void fill_args(const stg_frame *frame, const stg_apply *apply, int64_t stride,
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
      .probe_stride = probe_stride_of(decl, apply),
      .counts = steer->counters.device_counts,
      .layers = decl->layers,
  };
}

/* In a capture the row bucket alone picks the tile: replays of any mixture use one kernel, which
 * runs all that was declared. */
static stg_status capture_kernel(const stg_frame *frame, const struct stg_kernel **ret_kernel,
                                 stg_error *reterr) {
  const struct stg_kernel_set *set = frame->steer->kernels;
  const enum stg_tile tile = stg_steer_capture_tile(frame->plan->shape.rows);
  const struct stg_kernel *declared = &set->kernels[STG_TIER_DECLARED][tile];
  *ret_kernel = stg_kernels_for_capture(set, tile);
  if (*ret_kernel != NULL) {
    return STG_OK;
  }
  if (stg_kernel_state(declared) == STG_KERNEL_FAILED) {
    return stg_error_set(reterr, STG_E_COMPILE,
                         "kernel '%s' could not be made, as slot_set and the log say: without it "
                         "nothing can be captured with this table",
                         declared->signature);
  }
  return stg_error_set(reterr, STG_E_NOT_WARM,
                       "kernel '%s' is not there yet: capture when no slot_set is pending",
                       declared->signature);
}

/* The host's graph keeps the frame and its table, with one pin for all layers. */
static stg_status pin_frame(stg_frame *frame, stg_stream stream, stg_error *reterr) {
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

/* Adds one kernel node to the host's graph and nothing else; refused, it adds none. */
static stg_status apply_captured(stg_frame *frame, struct stg_plan_launch *launch,
                                 const struct stg_steer_args *args, stg_error *reterr) {
  stg_status status = capture_kernel(frame, &launch->kernel, reterr);
  if (status == STG_OK) {
    status = pin_frame(frame, launch->stream, reterr);
  }
  return status == STG_OK
             ? stg_plan_capture(frame->steer->engine, launch, frame->plan->shape.rows, args, reterr)
             : status;
}

static stg_status apply_cuda(stg_frame *frame, const stg_apply *apply, int64_t stride,
                             stg_stream stream, stg_error *reterr) {
  struct stg_engine *engine = frame->steer->engine;
  struct stg_steer_args args;
  fill_args(frame, apply, stride, &args);
  bool capturing = false;
  stg_status status = stg_stream_is_capturing(engine->device, stream, &capturing, reterr);
  if (status != STG_OK) {
    return status;
  }
  /* what the step put on the stream must have ended before the kernel reads the map: the first
   * launch waits for it, and whatever comes later waits for that */
  struct stg_plan_launch launch = {
      .kernel = frame->kernel,
      .chain_bytes = stg_steer_chain_bytes(frame->steer),
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
  status = stg_plan_launch(engine, &launch, &args, reterr);
  if (status == STG_OK) {
    frame->fresh = false;
    stg_usage_launch(&engine->usage, stg_kernel_tier(frame->kernel));
    stg_usage_apply(&engine->usage, &frame->tally, apply->layer);
  }
  return status;
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
static stg_status apply_cpu(stg_frame *frame, const stg_apply *apply, int64_t stride,
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
      .probe_stride = probe_stride_of(decl, apply),
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

static stg_status check_tensors(const stg_frame *frame, const stg_apply *apply, int64_t stride,
                                stg_error *reterr) {
  stg_status status = check_elements(frame, apply, reterr);
  if (status == STG_OK) {
    status = check_overlap(frame, apply, stride, reterr);
  }
  if (status == STG_OK) {
    status = check_weight(frame, apply, stride, reterr);
  }
  return status == STG_OK ? check_probes(frame, apply, stride, reterr) : status;
}

stg_status stg_steer_apply(stg_frame *frame, const stg_apply *apply, stg_stream stream,
                           stg_error *reterr) {
  int64_t stride = 0;
  stg_status status = check_apply(frame, apply, &stride, reterr);
  if (status == STG_OK) {
    status = check_tensors(frame, apply, stride, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  struct stg_engine *engine = frame->steer->engine;
  atomic_fetch_add_explicit(&engine->counters.applies, 1, memory_order_relaxed);
  stg_nvtx_push_layer("apply", apply->layer);
  status = stg_engine_is_cuda(engine) ? apply_cuda(frame, apply, stride, stream, reterr)
                                      : apply_cpu(frame, apply, stride, reterr);
  stg_nvtx_pop();
  return status;
}

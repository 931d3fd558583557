/*
 * apply_check.c: see apply_check.h.
 */
#include "engine/apply_check.h"

#include "runtime/base/dtype.h"

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

int64_t stg_apply_probe_stride(const struct stg_steer_decl *decl, const stg_apply *apply) {
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
  const int64_t probe_stride = stg_apply_probe_stride(decl, apply);
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
  const int64_t cells = (frame->rows - 1) * stg_apply_probe_stride(decl, apply) + decl->probes;
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

stg_status stg_apply_check(const stg_frame *frame, const stg_apply *apply, int64_t *ret_stride,
                           stg_error *reterr) {
  int64_t stride = 0;
  stg_status status = check_apply(frame, apply, &stride, reterr);
  if (status == STG_OK) {
    status = check_tensors(frame, apply, stride, reterr);
  }
  if (status == STG_OK) {
    *ret_stride = stride;
  }
  return status;
}

/*
 * raw_read.c: a file of float32 elements, little-endian, and nothing else.
 *
 * It says nothing of itself, so the caller's hint says what part of it is the tensor. Nothing is
 * allocated but the description.
 */
#include <inttypes.h>

#include "specs/tensor_readers.h"

/* The part that is asked for must be there. */
static stg_status check_range(const struct stg_tensor_file *file,
                              const struct stg_tensor_hint *hint, uint64_t n_elems,
                              stg_error *reterr) {
  uint64_t offset = (uint64_t)hint->offset_elems;
  uint64_t count = (uint64_t)hint->count_elems;
  if (offset <= n_elems && count <= n_elems - offset) {
    return STG_OK;
  }
  if (count == 0) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: elements from %" PRIu64 " on were asked for, it has %" PRIu64,
                         file->path, offset, n_elems);
  }
  return stg_error_set(reterr, STG_E_FORMAT,
                       "%s: elements %" PRIu64 " to %" PRIu64 " were asked for, it has %" PRIu64,
                       file->path, offset, offset + count - 1, n_elems);
}

stg_status stg_raw_read(struct stg_tensor_file *file, const struct stg_tensor_hint *hint,
                        stg_error *reterr) {
  if (file->size % sizeof(float) != 0) {
    return stg_error_set(
        reterr, STG_E_FORMAT,
        "%s: %zu bytes are no whole number of float32 elements; it is cut short, or "
        "of another type",
        file->path, file->size);
  }
  uint64_t n_elems = file->size / sizeof(float);
  stg_status status = check_range(file, hint, n_elems, reterr);
  if (status != STG_OK) {
    return status;
  }
  uint64_t left = n_elems - (uint64_t)hint->offset_elems;
  if (hint->count_elems == 0 && left % (uint64_t)hint->width_elems != 0) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: %" PRIu64 " float32 elements are no whole number of rows of %" PRId64
                         "; it is cut short, or of another width",
                         file->path, left, hint->width_elems);
  }
  struct stg_tensor_info *tensor = stg_arena_alloc(&file->arena, 1, sizeof *tensor);
  if (tensor == NULL) {
    return stg_arena_status(&file->arena, reterr);
  }
  *tensor = (struct stg_tensor_info){.name = "raw", .dtype_name = "F32", .elem = STG_ELEM_F32};
  /* of an empty file there are no bytes to point behind */
  tensor->data = hint->offset_elems == 0 ? file->bytes
                                         : file->bytes + (size_t)hint->offset_elems * sizeof(float);
  if (hint->count_elems > 0) {
    tensor->n_dims = 1;
    tensor->shape[0] = hint->count_elems;
    tensor->n_elems = (size_t)hint->count_elems;
  } else {
    tensor->n_dims = 2;
    tensor->shape[0] = (int64_t)(left / (uint64_t)hint->width_elems);
    tensor->shape[1] = hint->width_elems;
    tensor->n_elems = (size_t)left;
  }
  file->format = STG_FILE_RAW;
  file->format_text = "raw float32";
  file->tensors = tensor;
  file->n_tensors = 1;
  return STG_OK;
}

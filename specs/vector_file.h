/*
 * vector_file.h: tensors in files people have. This version: safetensors (F32, F16, BF16).
 *
 * A hostile header costs no more memory than the file's own size justifies: lengths are checked
 * against the file before anything is allocated; offsets must be in range, in order of use, without
 * overlap.
 */
#ifndef STG_SPECS_VECTOR_FILE_H
#define STG_SPECS_VECTOR_FILE_H

#include <steergraph/dtype.h>

#include "runtime/base/arena.h"
#include "runtime/base/file.h"

#define STG_TENSOR_MAX_DIMS 8
#define STG_SAFETENSORS_MAX_HEADER_BYTES ((uint64_t)100 << 20)

/* One tensor of a file; borrowed from the file. `dtype` is STG_DTYPE_NONE for an element type that
 * this version cannot use: such a tensor is checked and listed, and stg_tensor_find refuses it. */
struct stg_tensor_info {
  const char *name;
  const char *dtype_name; /* as the file spells it: "BF16", "I64" */
  stg_dtype dtype;
  uint32_t n_dims;
  int64_t shape[STG_TENSOR_MAX_DIMS];
  size_t n_elems;
  const void *data; /* little-endian elements in the mapped file; may be unaligned */
};

/* An open, mapped file. Read-only after open: any thread. */
struct stg_tensor_file {
  struct stg_arena arena;
  struct stg_file_map map;
  const char *path;
  const struct stg_tensor_info *tensors;
  size_t n_tensors;
  const char *const *metadata; /* key, value, key, value, ... */
  size_t n_metadata;           /* pairs */
};

/**
 * Map a file and check all of its header. STG_E_FORMAT names file, tensor and values;
 * STG_E_UNSUPPORTED for a file of another format (GGUF, NumPy, PyTorch), with the remedy.
 */
STG_NODISCARD stg_status stg_tensor_file_open(const char *path, struct stg_tensor_file *ret_file,
                                              stg_error *reterr);
void stg_tensor_file_close(struct stg_tensor_file *file);
/** The named tensor; STG_E_NOT_FOUND lists the nearest names, STG_E_UNSUPPORTED names the dtype. */
STG_NODISCARD stg_status stg_tensor_find(const struct stg_tensor_file *file, const char *name,
                                         const struct stg_tensor_info **ret_tensor,
                                         stg_error *reterr);

/* What to write. Data are `dtype` elements, row-major. */
struct stg_tensor_out {
  const char *name;
  stg_dtype dtype;
  uint32_t n_dims;
  int64_t shape[STG_TENSOR_MAX_DIMS];
  const void *data;
};
/**
 * Write a safetensors file atomically; `metadata` is key, value pairs. The bytes depend on the
 * arguments alone, in their order; data begin at a multiple of 8 bytes.
 * @return STG_E_INVALID for an empty, reserved or repeated name, a wrong dtype or shape.
 */
STG_NODISCARD stg_status stg_safetensors_write(const char *path,
                                               const struct stg_tensor_out *tensors,
                                               size_t n_tensors, const char *const *metadata,
                                               size_t n_metadata, stg_error *reterr);

#endif

/*
 * vector_file.h: tensors in files people have, whatever their format.
 *
 * The format is told by a file's content, not by its name. A hostile file costs no more memory than
 * its own size justifies: lengths are checked against the file before anything is allocated;
 * tensors must lie in the file, without overlap.
 */
#ifndef STG_SPECS_VECTOR_FILE_H
#define STG_SPECS_VECTOR_FILE_H

#include "runtime/base/arena.h"
#include "runtime/base/file.h"
#include "runtime/base/key.h"
#include "specs/tensor_elems.h"

#define STG_SAFETENSORS_MAX_HEADER_BYTES ((uint64_t)100 << 20)

enum stg_vector_format {
  STG_FILE_SAFETENSORS = 1,
  STG_FILE_GGUF,
  STG_FILE_NPY,
  STG_FILE_RAW,
  STG_FILE_DIRECTIONS
};

/*
 * What the caller knows of a file that says nothing of itself: raw float32 elements. {0}: the file
 * is not raw, but may be called so; no hint at all: it cannot be. Raw is never guessed.
 */
struct stg_tensor_hint {
  int64_t offset_elems; /* where the tensor begins */
  int64_t count_elems;  /* > 0: a tensor [count_elems] */
  int64_t width_elems;  /* > 0, and no count: a tensor [rows, width_elems] to the end of the file */
};

/* An open file. Read-only after open: any thread. */
struct stg_tensor_file {
  struct stg_arena arena;
  struct stg_file_map map; /* {0} where the bytes are the caller's */
  const unsigned char *bytes;
  size_t size;
  const char *path;
  enum stg_vector_format format;
  const char *format_text; /* "safetensors", ".npy 1.0" */
  const struct stg_tensor_info *tensors;
  size_t n_tensors;
  const char *const *metadata; /* key, value, key, value, ... */
  size_t n_metadata;           /* pairs */
};

/**
 * Map a file, tell its format and check all of its header. `hint` may be NULL. STG_E_FORMAT names
 * file, tensor and values; STG_E_UNSUPPORTED, with the remedy, for what is known and not read.
 */
STG_NODISCARD stg_status stg_tensor_file_open(const char *path, const struct stg_tensor_hint *hint,
                                              struct stg_tensor_file *ret_file, stg_error *reterr);
/**
 * The same of `size` bytes in memory, at any address, borrowed until the file is closed. `path`
 * names them in messages, and its suffix counts as a file's does.
 */
STG_NODISCARD stg_status stg_tensor_file_parse(const char *path, const void *bytes, size_t size,
                                               const struct stg_tensor_hint *hint,
                                               struct stg_tensor_file *ret_file, stg_error *reterr);
/** {0} is closed. */
void stg_tensor_file_close(struct stg_tensor_file *file);
/**
 * The named tensor. NULL names the only one of a format whose tensors have no names of their own
 * (.npy, raw). STG_E_NOT_FOUND lists the nearest names, STG_E_UNSUPPORTED names the dtype,
 * STG_E_FORMAT says that a name is missing.
 */
STG_NODISCARD stg_status stg_tensor_find(const struct stg_tensor_file *file, const char *name,
                                         const struct stg_tensor_info **ret_tensor,
                                         stg_error *reterr);
/** XXH3-128 of all bytes of the file. */
struct stg_key stg_tensor_file_key(const struct stg_tensor_file *file);

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
 * @return STG_E_INVALID for an empty, reserved or repeated name, a wrong dtype or shape, and names
 *         and metadata beyond 64 MiB, which stg_tensor_file_open would refuse.
 */
STG_NODISCARD stg_status stg_safetensors_write(const char *path,
                                               const struct stg_tensor_out *tensors,
                                               size_t n_tensors, const char *const *metadata,
                                               size_t n_metadata, stg_error *reterr);

#endif

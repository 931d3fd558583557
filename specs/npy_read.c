/*
 * npy_read.c: NumPy's .npy files: one array without a name.
 *
 * The layout: "\x93NUMPY", the version's two bytes, the length of the header (uint16 in 1.0,
 * uint32 in 2.0 and 3.0, little-endian), the header, the elements. Nothing may follow them: an
 * array saved behind another would be passed over in silence. Allocates the description alone.
 */
#include <string.h>

#include "runtime/base/intmath.h"
#include "specs/npy_header.h"
#include "specs/tensor_readers.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define VERSION_BYTES 2
#define MAX_HEADER_BYTES ((uint64_t)64 << 10)

/* The versions that there are, and how long the length of their header is. */
static const struct version {
  unsigned char major;
  unsigned char length_bytes;
  const char *text;
} versions[] = {{1, 2, ".npy 1.0"}, {2, 4, ".npy 2.0"}, {3, 4, ".npy 3.0"}};

/* What numpy.float16, float32 and float64 are saved as. */
static const struct descr {
  const char *text;
  enum stg_elem elem;
} descrs[] = {{"<f2", STG_ELEM_F16}, {"<f4", STG_ELEM_F32}, {"<f8", STG_ELEM_F64}};

bool stg_npy_is(const unsigned char *bytes, size_t size) {
  return size >= MAGIC_BYTES && memcmp(bytes, MAGIC, MAGIC_BYTES) == 0;
}

static stg_status find_version(const struct stg_tensor_file *file,
                               const struct version **ret_version, stg_error *reterr) {
  const unsigned char *bytes = file->bytes;
  if (!stg_npy_is(bytes, file->size)) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: does not begin as a .npy file does",
                         file->path);
  }
  if (file->size < MAGIC_BYTES + VERSION_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: %zu bytes, a .npy file begins with 10",
                         file->path, file->size);
  }
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
    if (versions[i].major == bytes[MAGIC_BYTES] && bytes[MAGIC_BYTES + 1] == 0) {
      *ret_version = &versions[i];
      return STG_OK;
    }
  }
  return stg_error_set(reterr, STG_E_UNSUPPORTED,
                       "%s: .npy version %u.%u; 1.0, 2.0 and 3.0 are read", file->path,
                       bytes[MAGIC_BYTES], bytes[MAGIC_BYTES + 1]);
}

/* Where the header's text lies, checked against the file. */
static stg_status find_header(const struct stg_tensor_file *file, const struct version *version,
                              size_t *ret_begin, size_t *ret_size, stg_error *reterr) {
  size_t begin = MAGIC_BYTES + VERSION_BYTES + version->length_bytes;
  if (file->size < begin) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: %zu bytes, a %s file begins with %zu",
                         file->path, file->size, version->text, begin);
  }
  uint32_t size = 0;
  memcpy(&size, file->bytes + MAGIC_BYTES + VERSION_BYTES, version->length_bytes);
  if (size > file->size - begin) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: a header of %lu bytes does not fit in a file of %zu; it is cut short",
                         file->path, (unsigned long)size, file->size);
  }
  if (size > MAX_HEADER_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: a header of %lu bytes, at most %lu are read",
                         file->path, (unsigned long)size, (unsigned long)MAX_HEADER_BYTES);
  }
  *ret_begin = begin;
  *ret_size = size;
  return STG_OK;
}

static stg_status find_elem(const struct stg_tensor_file *file, const char *descr,
                            struct stg_tensor_info *info, stg_error *reterr) {
  for (size_t i = 0; i < sizeof descrs / sizeof descrs[0]; i++) {
    if (strcmp(descrs[i].text, descr) == 0) {
      info->elem = descrs[i].elem;
      info->dtype_name = descrs[i].text;
      return STG_OK;
    }
    if (descr[0] == '>' && strcmp(descrs[i].text + 1, descr + 1) == 0) {
      return stg_error_set(reterr, STG_E_UNSUPPORTED,
                           "%s: descr '%s' is big-endian; write it again with little-endian byte "
                           "order",
                           file->path, descr);
    }
  }
  if (strcmp(descr, "|O") == 0 || strcmp(descr, "O") == 0) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "%s: descr '%s' holds Python objects, a pickle; save numbers", file->path,
                         descr);
  }
  return stg_error_set(reterr, STG_E_UNSUPPORTED,
                       "%s: descr '%s'; '<f2', '<f4' and '<f8' are read; save it with "
                       "astype('<f4')",
                       file->path, descr);
}

/* The elements must fill the rest of the file exactly. */
static stg_status check_bytes(const struct stg_tensor_file *file, struct stg_tensor_info *info,
                              size_t left, stg_error *reterr) {
  char shape[STG_TENSOR_SHAPE_BYTES];
  size_t needed = 0;
  stg_tensor_print_shape(info, shape);
  if (!stg_tensor_count_elems(info) ||
      !stg_mul_size(info->n_elems, stg_elem_bytes(info->elem), &needed)) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: shape %s: the number of elements overflows",
                         file->path, shape);
  }
  if (needed == left) {
    return STG_OK;
  }
  if (needed > left) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: shape %s of '%s' needs %zu bytes, the file has %zu behind its "
                         "header; it is cut short",
                         file->path, shape, info->dtype_name, needed, left);
  }
  return stg_error_set(reterr, STG_E_FORMAT,
                       "%s: shape %s of '%s' needs %zu bytes, the file has %zu behind its header; "
                       "%zu bytes too many",
                       file->path, shape, info->dtype_name, needed, left, left - needed);
}

/* Describe the array that `header` declares, whose elements begin at byte `begin`. */
static stg_status read_array(const struct stg_tensor_file *file,
                             const struct stg_npy_header *header, size_t begin,
                             struct stg_tensor_info *info, stg_error *reterr) {
  char shape[STG_TENSOR_SHAPE_BYTES];
  info->name = "array";
  info->n_dims = header->n_dims;
  memcpy(info->shape, header->shape, sizeof info->shape);
  info->data = file->bytes + begin;
  stg_status status = find_elem(file, header->descr, info, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (header->fortran_order && info->n_dims > 1) {
    stg_tensor_print_shape(info, shape);
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "%s: fortran_order is True for shape %s; save it with "
                         "numpy.ascontiguousarray",
                         file->path, shape);
  }
  return check_bytes(file, info, file->size - begin, reterr);
}

stg_status stg_npy_read(struct stg_tensor_file *file, stg_error *reterr) {
  const struct version *version = NULL;
  struct stg_npy_header header = {0};
  struct stg_tensor_info info = {0};
  size_t begin = 0;
  size_t size = 0;
  stg_status status = find_version(file, &version, reterr);
  if (status == STG_OK) {
    status = find_header(file, version, &begin, &size, reterr);
  }
  if (status == STG_OK) {
    status = stg_npy_header_parse(file->path, file->bytes + begin, size, &header, reterr);
  }
  if (status == STG_OK) {
    status = read_array(file, &header, begin + size, &info, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  file->tensors = stg_arena_memdup(&file->arena, &info, sizeof info);
  file->n_tensors = 1;
  file->format = STG_FILE_NPY;
  file->format_text = version->text;
  return stg_arena_status(&file->arena, reterr);
}

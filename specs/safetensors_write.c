/*
 * safetensors_write.c: tensors in memory to a safetensors file, the same bytes every time.
 *
 * The header is padded with spaces so that the data begin at a multiple of 8 bytes, as readers that
 * map the file like it. Must not know what a tensor is for.
 */
#include "specs/tensor_readers.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/dtype.h"
#include "runtime/base/intmath.h"
#include "runtime/base/strbuf.h"
#include "specs/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie");

#define ALIGNMENT 8
#define FILE_MODE 0644

/* The format's own spelling of our types. */
static const char *spelling(stg_dtype dtype) {
  switch (dtype) {
  case STG_BF16:
    return "BF16";
  case STG_F16:
    return "F16";
  case STG_F32:
    return "F32";
  case STG_DTYPE_NONE:
    break;
  }
  return NULL;
}

static stg_status tensor_bytes(const struct stg_tensor_out *tensor, size_t *ret_bytes,
                               stg_error *reterr) {
  if (spelling(tensor->dtype) == NULL) {
    return stg_error_set(reterr, STG_E_INVALID, "tensor '%s': dtype %d, expected f32, f16 or bf16",
                         tensor->name, (int)tensor->dtype);
  }
  if (tensor->n_dims > STG_TENSOR_MAX_DIMS) {
    return stg_error_set(reterr, STG_E_INVALID, "tensor '%s': %u dimensions, at most %d",
                         tensor->name, tensor->n_dims, STG_TENSOR_MAX_DIMS);
  }
  size_t bytes = stg_dtype_bytes(tensor->dtype);
  for (uint32_t i = 0; i < tensor->n_dims; i++) {
    int64_t extent = tensor->shape[i];
    if (extent < 0 || !stg_mul_size(bytes, (size_t)extent, &bytes)) {
      return stg_error_set(reterr, STG_E_INVALID, "tensor '%s': shape[%u] = %lld", tensor->name, i,
                           (long long)extent);
    }
  }
  *ret_bytes = bytes;
  return STG_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No two names are equal; `names` are sorted. The metadata of a vocabulary can be many. */
static stg_status check_unique(const char **names, size_t n, const char *what, stg_error *reterr) {
  qsort(names, n, sizeof *names, compare_names);
  for (size_t i = 1; i < n; i++) {
    if (strcmp(names[i - 1], names[i]) == 0) {
      return stg_error_set(reterr, STG_E_INVALID, "%s '%s' is given twice; keep one", what,
                           names[i]);
    }
  }
  return STG_OK;
}

static stg_status check_tensor_names(const struct stg_tensor_out *tensors, size_t n,
                                     const char **names, stg_error *reterr) {
  for (size_t i = 0; i < n; i++) {
    names[i] = tensors[i].name;
    if (names[i][0] == '\0' || strcmp(names[i], STG_SAFETENSORS_METADATA) == 0) {
      return stg_error_set(reterr, STG_E_INVALID,
                           "a tensor cannot be named '%s' in safetensors; give it another name",
                           names[i]);
    }
  }
  return check_unique(names, n, "tensor", reterr);
}

static stg_status check_names(const struct stg_tensor_out *tensors, size_t n_tensors,
                              const char *const *metadata, size_t n_metadata, stg_error *reterr) {
  const size_t room = (n_tensors > n_metadata ? n_tensors : n_metadata) + 1;
  const char **names = stg_calloc(room, sizeof *names);
  if (names == NULL) {
    return stg_error_memory(reterr, "the names of a safetensors file", room * sizeof *names);
  }
  stg_status status = check_tensor_names(tensors, n_tensors, names, reterr);
  if (status == STG_OK) {
    for (size_t i = 0; i < n_metadata; i++) {
      names[i] = metadata[2 * i];
    }
    status = check_unique(names, n_metadata, "metadata key", reterr);
  }
  stg_free(names);
  return status;
}

static void append_metadata(struct stg_strbuf *header, const char *const *metadata, size_t n) {
  stg_strbuf_str(header, "\"" STG_SAFETENSORS_METADATA "\":{");
  for (size_t i = 0; i < n; i++) {
    stg_strbuf_str(header, i == 0 ? "" : ",");
    stg_strbuf_json(header, metadata[2 * i]);
    stg_strbuf_char(header, ':');
    stg_strbuf_json(header, metadata[2 * i + 1]);
  }
  stg_strbuf_char(header, '}');
}

static void append_tensor(struct stg_strbuf *header, const struct stg_tensor_out *tensor,
                          size_t begin, size_t end) {
  stg_strbuf_json(header, tensor->name);
  stg_strbuf_printf(header, ":{\"dtype\":\"%s\",\"shape\":[", spelling(tensor->dtype));
  for (uint32_t i = 0; i < tensor->n_dims; i++) {
    stg_strbuf_printf(header, "%s%lld", i == 0 ? "" : ",", (long long)tensor->shape[i]);
  }
  stg_strbuf_printf(header, "],\"data_offsets\":[%zu,%zu]}", begin, end);
}

static stg_status write_header(const struct stg_tensor_out *tensors, size_t n_tensors,
                               const char *const *metadata, size_t n_metadata,
                               struct stg_strbuf *ret_header, stg_error *reterr) {
  const char *comma = "";
  size_t end = 0;
  stg_strbuf_char(ret_header, '{');
  if (n_metadata != 0) {
    append_metadata(ret_header, metadata, n_metadata);
    comma = ",";
  }
  for (size_t i = 0; i < n_tensors; i++) {
    size_t bytes = 0;
    size_t begin = end;
    stg_status status = tensor_bytes(&tensors[i], &bytes, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (!stg_add_size(begin, bytes, &end)) {
      return stg_error_set(reterr, STG_E_INVALID, "tensor '%s': the file's size overflows",
                           tensors[i].name);
    }
    stg_strbuf_str(ret_header, comma);
    append_tensor(ret_header, &tensors[i], begin, end);
    comma = ",";
  }
  stg_strbuf_char(ret_header, '}');
  while (ret_header->len % ALIGNMENT != 0 && !ret_header->failed) {
    stg_strbuf_char(ret_header, ' ');
  }
  if (ret_header->len > STG_JSON_MAX_BYTES) {
    return stg_error_set(reterr, STG_E_INVALID,
                         "names and metadata take %zu bytes, and more than %llu are not read",
                         ret_header->len, (unsigned long long)STG_JSON_MAX_BYTES);
  }
  return stg_strbuf_status(ret_header, reterr);
}

/* The whole file: size of the header, header, data. */
static stg_status assemble(const struct stg_strbuf *header, const struct stg_tensor_out *tensors,
                           size_t n_tensors, struct stg_strbuf *ret_file, stg_error *reterr) {
  uint64_t header_size = header->len;
  stg_strbuf_mem(ret_file, &header_size, sizeof header_size);
  stg_strbuf_mem(ret_file, header->data, header->len);
  for (size_t i = 0; i < n_tensors; i++) {
    size_t bytes = 0;
    stg_status status = tensor_bytes(&tensors[i], &bytes, reterr);
    if (status != STG_OK) {
      return status;
    }
    if (bytes != 0) {
      stg_strbuf_mem(ret_file, tensors[i].data, bytes);
    }
  }
  return stg_strbuf_status(ret_file, reterr);
}

stg_status stg_safetensors_write(const char *path, const struct stg_tensor_out *tensors,
                                 size_t n_tensors, const char *const *metadata, size_t n_metadata,
                                 stg_error *reterr) {
  struct stg_strbuf header = {0};
  struct stg_strbuf file = {0};
  stg_status status = check_names(tensors, n_tensors, metadata, n_metadata, reterr);
  if (status == STG_OK) {
    status = write_header(tensors, n_tensors, metadata, n_metadata, &header, reterr);
  }
  if (status != STG_OK) {
    stg_error_prefix(reterr, "'%s': ", path);
  }
  if (status == STG_OK) {
    status = assemble(&header, tensors, n_tensors, &file, reterr);
  }
  if (status == STG_OK) {
    status = stg_file_write_atomic(path, file.data, file.len, FILE_MODE, reterr);
  }
  stg_strbuf_finish(&file);
  stg_strbuf_finish(&header);
  return status;
}

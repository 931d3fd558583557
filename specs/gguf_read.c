/*
 * gguf_read.c: the header and the tensors of a GGUF file, checked against the file around them.
 *
 * As its other readers demand, the tensors cover the data: each begins at the alignment behind the
 * one before, whatever their order in the header; padding behind the last may be missing. Must not
 * know what a tensor is for.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bytes.h"
#include "runtime/base/intmath.h"
#include "specs/gguf.h"

#define MAGIC "GGUF"
#define MAGIC_BYTES 4
#define MAX_NAME_BYTES 64
#define MAX_DIMS 4
#define FIRST_VERSION 2
#define LAST_VERSION 3

/* The part of the data that a tensor claims. */
struct span {
  uint64_t begin;
  uint64_t end;
  const char *name;
};

/* What is being filled, with what its checks need. */
struct reader {
  struct stg_tensor_file *file;
  struct stg_gguf_cursor cursor;
  size_t alignment;
  size_t n_tensors;
  struct stg_tensor_info *tensors;
  struct span *spans;
  char *names; /* where the next name goes */
  size_t names_left;
};

bool stg_gguf_is(const unsigned char *bytes, size_t size) {
  return size >= MAGIC_BYTES && memcmp(bytes, MAGIC, MAGIC_BYTES) == 0;
}

static stg_status check_version(const struct stg_tensor_file *file, stg_error *reterr) {
  const uint32_t version = (uint32_t)stg_le_load(file->bytes + MAGIC_BYTES, 4);
  if (version == FIRST_VERSION || version == LAST_VERSION) {
    return STG_OK;
  }
  if (version != 0 && (version & 0xffffu) == 0) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "%s: big-endian; write it again with little-endian byte order",
                         file->path);
  }
  return stg_error_set(reterr, STG_E_UNSUPPORTED,
                       "%s: GGUF version %" PRIu32 "; versions %d and %d are read; %s", file->path,
                       version, FIRST_VERSION, LAST_VERSION,
                       version < FIRST_VERSION ? "write it again with a newer gguf package"
                                               : "write it again as one of them");
}

/* How many of something the header declares, and whether the file can hold as many. */
static stg_status check_count(const struct reader *reader, const char *what, uint64_t count,
                              size_t least_bytes, stg_error *reterr) {
  size_t left = stg_gguf_left(&reader->cursor);
  if (count <= left / least_bytes) {
    return STG_OK;
  }
  return stg_error_set(reterr, STG_E_FORMAT,
                       "%s: %" PRIu64 " %s declared, the %zu bytes left hold at most %zu; it is "
                       "cut short or damaged",
                       reader->file->path, count, what, left, left / least_bytes);
}

static stg_status read_header(struct reader *reader, uint64_t *ret_n_metadata, stg_error *reterr) {
  const struct stg_tensor_file *file = reader->file;
  if (file->size < STG_GGUF_HEADER_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: %zu bytes, a GGUF file begins with %d",
                         file->path, file->size, STG_GGUF_HEADER_BYTES);
  }
  if (!stg_gguf_is(file->bytes, file->size)) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: it does not begin with '" MAGIC "'; it is no GGUF file", file->path);
  }
  stg_status status = check_version(file, reterr);
  if (status != STG_OK) {
    return status;
  }
  const uint64_t n_tensors = stg_le_load(file->bytes + 8, 8);
  const uint64_t n_metadata = stg_le_load(file->bytes + 16, 8);
  reader->cursor = (struct stg_gguf_cursor){
      .path = file->path, .bytes = file->bytes, .size = file->size, .at = STG_GGUF_HEADER_BYTES};
  status = check_count(reader, "tensors", n_tensors, STG_GGUF_LEAST_TENSOR_BYTES, reterr);
  if (status == STG_OK) {
    status =
        check_count(reader, "metadata entries", n_metadata, STG_GGUF_LEAST_VALUE_BYTES, reterr);
  }
  reader->n_tensors = (size_t)n_tensors;
  *ret_n_metadata = n_metadata;
  return status;
}

/* Dimensions are the fastest first in the file, the slowest first with us. */
static stg_status read_shape(struct reader *reader, struct stg_tensor_info *info,
                             stg_error *reterr) {
  uint64_t n_dims = 0;
  stg_status status = stg_gguf_number(&reader->cursor, 4, &n_dims, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (n_dims > MAX_DIMS) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: tensor '%s': %" PRIu64 " dimensions, at most %d", reader->file->path,
                         info->name, n_dims, MAX_DIMS);
  }
  info->n_dims = (uint32_t)n_dims;
  bool fits = true;
  for (uint32_t i = 0; i < info->n_dims; i++) {
    uint64_t extent = 0;
    status = stg_gguf_number(&reader->cursor, 8, &extent, reterr);
    if (status != STG_OK) {
      return status;
    }
    fits = fits && extent <= INT64_MAX;
    info->shape[info->n_dims - 1 - i] = (int64_t)(extent & INT64_MAX);
  }
  if (!fits || !stg_tensor_count_elems(info)) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: tensor '%s': the number of elements overflows",
                         reader->file->path, info->name);
  }
  return STG_OK;
}

/* The type, and the bytes that so many elements of it take: whole blocks in each row. */
static stg_status read_type(struct reader *reader, struct stg_tensor_info *info, size_t *ret_bytes,
                            stg_error *reterr) {
  const char *path = reader->file->path;
  uint64_t id = 0;
  stg_status status = stg_gguf_number(&reader->cursor, 4, &id, reterr);
  if (status != STG_OK) {
    return status;
  }
  const struct stg_gguf_type *type = stg_gguf_type_find(id);
  if (type == NULL) {
    return stg_error_set(reterr, STG_E_UNSUPPORTED,
                         "%s: tensor '%s': type %" PRIu64
                         " is unknown; F32, F16, BF16 and F64 are read",
                         path, info->name, id);
  }
  info->dtype_name = type->name;
  info->elem = stg_elem_of_name(type->name);
  size_t width = stg_tensor_width(info);
  if (width % type->block_elems != 0) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: tensor '%s': a row of %zu elements is no whole number of blocks of "
                         "%zu (%s)",
                         path, info->name, width, type->block_elems, type->name);
  }
  if (!stg_mul_size(info->n_elems / type->block_elems, type->block_bytes, ret_bytes)) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: tensor '%s': the number of bytes overflows",
                         path, info->name);
  }
  return STG_OK;
}

static stg_status read_offset(struct reader *reader, const char *name, size_t bytes,
                              struct span *span, stg_error *reterr) {
  stg_status status = stg_gguf_number(&reader->cursor, 8, &span->begin, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (span->begin % reader->alignment != 0) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: tensor '%s' begins at byte %" PRIu64
                         " of the data, no multiple of the alignment %zu",
                         reader->file->path, name, span->begin, reader->alignment);
  }
  span->name = name;
  span->end = span->begin + bytes;
  if (span->end < span->begin) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: tensor '%s' begins at byte %" PRIu64
                         " of the data, and its %zu bytes end beyond any file",
                         reader->file->path, name, span->begin, bytes);
  }
  return STG_OK;
}

static stg_status read_tensor(struct reader *reader, size_t index, stg_error *reterr) {
  struct stg_tensor_info *info = &reader->tensors[index];
  struct stg_gguf_text name = {0};
  size_t bytes = 0;
  const size_t begin = reader->cursor.at;
  reader->cursor.index = index + 1;
  stg_status status = stg_gguf_name(&reader->cursor, "name", MAX_NAME_BYTES, &name, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (name.len >= reader->names_left) {
    return stg_gguf_error(&reader->cursor, reterr, STG_E_FORMAT, begin,
                          "a name of %zu bytes leaves too few for the tensors behind it; it is cut "
                          "short or damaged",
                          name.len);
  }
  memcpy(reader->names, name.data, name.len); /* its NUL is there */
  info->name = reader->names;
  reader->names += name.len + 1;
  reader->names_left -= name.len + 1;
  status = read_shape(reader, info, reterr);
  if (status == STG_OK) {
    status = read_type(reader, info, &bytes, reterr);
  }
  if (status == STG_OK) {
    status = read_offset(reader, info->name, bytes, &reader->spans[index], reterr);
  }
  return status;
}

/* One piece of memory for the tensors and, behind them, their names, which are short and lie in
 * what is left of the file: it can ask for little more than the file has. */
static stg_status make_room(struct reader *reader, stg_error *reterr) {
  const size_t n = reader->n_tensors;
  stg_status status = check_count(reader, "tensors", n, STG_GGUF_LEAST_TENSOR_BYTES, reterr);
  if (status != STG_OK) {
    return status;
  }
  const size_t in_file = stg_gguf_left(&reader->cursor) - n * STG_GGUF_LEAST_TENSOR_BYTES;
  const size_t names = n * MAX_NAME_BYTES < in_file ? n * MAX_NAME_BYTES : in_file;
  const size_t bytes = n * sizeof *reader->tensors + names + n;
  reader->tensors = stg_arena_alloc(&reader->file->arena, bytes, 1);
  reader->spans = stg_calloc(n, sizeof *reader->spans);
  if (reader->tensors == NULL || reader->spans == NULL) {
    return stg_error_memory(reterr, "the list of tensors", bytes);
  }
  reader->names = (char *)(reader->tensors + n);
  reader->names_left = names + n;
  return STG_OK;
}

static stg_status read_tensors(struct reader *reader, stg_error *reterr) {
  stg_status status = make_room(reader, reterr);
  reader->cursor.part = "tensor";
  reader->cursor.count = reader->n_tensors;
  for (size_t i = 0; status == STG_OK && i < reader->n_tensors; i++) {
    status = read_tensor(reader, i, reterr);
  }
  return status;
}

static stg_status check_names(const struct reader *reader, stg_error *reterr) {
  const char **names = stg_calloc(reader->n_tensors, sizeof *names);
  if (names == NULL) {
    return stg_error_memory(reterr, "tensor names", reader->n_tensors * sizeof *names);
  }
  for (size_t i = 0; i < reader->n_tensors; i++) {
    names[i] = reader->tensors[i].name;
  }
  stg_status status =
      stg_gguf_unique(reader->file->path, "tensor", names, reader->n_tensors, reterr);
  stg_free(names);
  return status;
}

static int compare_spans(const void *a, const void *b) {
  const struct span *x = a;
  const struct span *y = b;
  if (x->begin != y->begin) {
    return x->begin < y->begin ? -1 : 1;
  }
  return (x->end > y->end) - (x->end < y->end);
}

/* The tensors, sorted by place, must follow each other, each at the alignment behind the one
 * before, to the end of the data. */
static stg_status check_cover(const struct reader *reader, size_t data_size, stg_error *reterr) {
  const char *path = reader->file->path;
  const char *before = "the header";
  uint64_t end = 0;
  qsort(reader->spans, reader->n_tensors, sizeof reader->spans[0], compare_spans);
  for (size_t i = 0; i < reader->n_tensors; i++) {
    const struct span *span = &reader->spans[i];
    if (span->begin < end) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "%s: tensors '%s' and '%s' overlap: one ends at byte %" PRIu64
                           ", the other begins at %" PRIu64,
                           path, before, span->name, end, span->begin);
    }
    const uint64_t next = stg_round_up(end, reader->alignment);
    if (span->begin > next) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "%s: hole of %" PRIu64
                           " bytes before tensor '%s', which begins at byte %" PRIu64,
                           path, span->begin - next, span->name, span->begin);
    }
    if (span->end > data_size) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "%s: tensor '%s' ends at byte %" PRIu64
                           " of the data, the file has %zu; it is cut short",
                           path, span->name, span->end, data_size);
    }
    end = span->end;
    before = span->name;
  }
  if (data_size - end > reader->alignment) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: %" PRIu64
                         " bytes behind the last tensor; it is damaged, or two files in one",
                         path, data_size - end);
  }
  return STG_OK;
}

/* Say where the tensors lie; their spans are in the order of the header. */
static stg_status place(struct reader *reader, stg_error *reterr) {
  const struct stg_tensor_file *file = reader->file;
  size_t begin = stg_round_up(reader->cursor.at, reader->alignment);
  begin = begin < file->size ? begin : file->size; /* where there are no data, no padding either */
  const size_t data_size = file->size - begin;
  for (size_t i = 0; i < reader->n_tensors; i++) {
    const uint64_t at = reader->spans[i].begin;
    reader->tensors[i].data = file->bytes + begin + (at < data_size ? (size_t)at : data_size);
  }
  return check_cover(reader, data_size, reterr);
}

stg_status stg_gguf_read(struct stg_tensor_file *file, stg_error *reterr) {
  struct reader reader = {.file = file};
  uint64_t n_metadata = 0;
  stg_status status = read_header(&reader, &n_metadata, reterr);
  if (status == STG_OK) {
    status = stg_gguf_read_metadata(&reader.cursor, n_metadata, file, &reader.alignment, reterr);
  }
  if (status == STG_OK) {
    status = read_tensors(&reader, reterr);
  }
  if (status == STG_OK) {
    status = check_names(&reader, reterr);
  }
  if (status == STG_OK) {
    status = place(&reader, reterr);
  }
  stg_free(reader.spans);
  if (status != STG_OK) {
    return status;
  }
  file->format = STG_FILE_GGUF;
  file->format_text = stg_le_load(file->bytes + MAGIC_BYTES, 4) == 2 ? "GGUF v2" : "GGUF v3";
  file->tensors = reader.tensors;
  file->n_tensors = reader.n_tensors;
  return STG_OK;
}

/*
 * safetensors_read.c: the header of a safetensors file, checked against the file around it.
 *
 * Nothing is allocated for a size that the file itself does not have. As the format demands, the
 * tensors cover the data exactly: no overlap, no hole, no bytes left over. Values may be anything,
 * NaN too. Must not know what a tensor is for.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"
#include "specs/json.h"
#include "specs/tensor_readers.h"

#define MAX_HEADER_BYTES                                                                           \
  (STG_SAFETENSORS_MAX_HEADER_BYTES < STG_JSON_MAX_BYTES ? STG_SAFETENSORS_MAX_HEADER_BYTES        \
                                                         : STG_JSON_MAX_BYTES)
/* The shortest values of a header, the 1s of long shapes, take more than this with their tensor's
 * other bytes; a list of "1," would become a tree of 40 times its size before it is refused. */
#define LEAST_VALUE_BYTES 4
#define FREE_VALUES 64 /* so that a small header is refused by what is wrong in it */
#define MAX_EXTENT (((int64_t)1 << 53) - 1) /* JSON numbers are exact up to here */

/* The element types of the format. Those that stg_elem does not have can be checked but not used; a
 * name that is not here has an unknown width. */
static const struct element_type {
  const char *name;
  size_t bits;
} element_types[] = {
    {"F32", 32},        {"F16", 16},    {"BF16", 16},   {"F64", 64},        {"C64", 64},
    {"I64", 64},        {"U64", 64},    {"I32", 32},    {"U32", 32},        {"I16", 16},
    {"U16", 16},        {"I8", 8},      {"U8", 8},      {"BOOL", 8},        {"F8_E4M3", 8},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
    {"F6_E3M2", 6},     {"F4", 4},
};

/* The part of the data that a tensor claims. */
struct span {
  size_t begin, end;
  const char *name;
};

/* What is being filled, with what its checks need. */
struct reader {
  struct stg_tensor_file *file;
  const unsigned char *data;
  size_t data_size;
  struct stg_tensor_info *tensors;
  struct span *spans;
  size_t n_tensors;
};

static const struct element_type *find_type(const char *name) {
  for (size_t i = 0; i < sizeof element_types / sizeof element_types[0]; i++) {
    if (strcmp(element_types[i].name, name) == 0) {
      return &element_types[i];
    }
  }
  return NULL;
}

static stg_status read_shape(const struct stg_json *shape, struct stg_tensor_info *info,
                             stg_error *reterr) {
  stg_status status = stg_json_expect_array(shape, reterr);
  if (status != STG_OK) {
    return status;
  }
  size_t rank = stg_json_count(shape);
  if (rank > STG_TENSOR_MAX_DIMS) {
    return stg_json_error(reterr, STG_E_UNSUPPORTED, shape, "%zu dimensions, at most %d are read",
                          rank, STG_TENSOR_MAX_DIMS);
  }
  struct stg_json extent;
  for (bool more = stg_json_first(shape, &extent); more; more = stg_json_next(&extent)) {
    int64_t value = 0;
    status = stg_json_int(&extent, 0, MAX_EXTENT, &value, reterr);
    if (status != STG_OK) {
      return status;
    }
    info->shape[info->n_dims++] = value;
  }
  if (!stg_tensor_count_elems(info)) {
    return stg_json_error(reterr, STG_E_FORMAT, shape, "the number of elements overflows");
  }
  return STG_OK;
}

static stg_status read_offsets(const struct reader *reader, const struct stg_json *offsets,
                               struct span *span, stg_error *reterr) {
  stg_status status = stg_json_expect_array(offsets, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (stg_json_count(offsets) != 2) {
    return stg_json_error(reterr, STG_E_FORMAT, offsets, "expected [begin, end], found %zu values",
                          stg_json_count(offsets));
  }
  int64_t values[2] = {0, 0};
  size_t n = 0;
  struct stg_json value;
  for (bool more = stg_json_first(offsets, &value); more; more = stg_json_next(&value)) {
    status = stg_json_int(&value, 0, MAX_EXTENT, &values[n++], reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  if (values[0] > values[1]) {
    return stg_json_error(reterr, STG_E_FORMAT, offsets, "begin %lld is after end %lld",
                          (long long)values[0], (long long)values[1]);
  }
  if ((uint64_t)values[1] > reader->data_size) {
    return stg_json_error(reterr, STG_E_FORMAT, offsets,
                          "the tensor ends at byte %lld of the data, the file has %zu; it is cut "
                          "short",
                          (long long)values[1], reader->data_size);
  }
  span->begin = (size_t)values[0];
  span->end = (size_t)values[1];
  return STG_OK;
}

/* The bytes must be what dtype and shape say; for an unknown dtype nobody can tell. */
static stg_status check_bytes(const struct stg_json *offsets, const struct stg_tensor_info *info,
                              const struct span *span, stg_error *reterr) {
  const struct element_type *type = find_type(info->dtype_name);
  size_t bytes = span->end - span->begin;
  size_t bits = 0;
  if (type == NULL) {
    return STG_OK;
  }
  if (!stg_mul_size(info->n_elems, type->bits, &bits) || bits % 8 != 0 || bits / 8 != bytes) {
    return stg_json_error(reterr, STG_E_FORMAT, offsets,
                          "%zu bytes, but %zu elements of %s have %zu bits each", bytes,
                          info->n_elems, type->name, type->bits);
  }
  return STG_OK;
}

static stg_status read_tensor(struct reader *reader, const struct stg_json *at, stg_error *reterr) {
  static const char *const allowed[] = {"dtype", "shape", "data_offsets", NULL};
  struct stg_tensor_info info = {0};
  struct span span = {0};
  struct stg_json dtype = {0};
  struct stg_json shape = {0};
  struct stg_json offsets = {0};
  const char *dtype_name = "";
  stg_status status = stg_json_expect_object(at, reterr);
  if (status == STG_OK) {
    status = stg_json_check_keys(at, allowed, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "dtype", &dtype, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "shape", &shape, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_get(at, "data_offsets", &offsets, reterr);
  }
  if (status == STG_OK) {
    status = stg_json_string(&dtype, &dtype_name, reterr);
  }
  if (status == STG_OK) {
    status = read_shape(&shape, &info, reterr);
  }
  if (status == STG_OK) {
    status = read_offsets(reader, &offsets, &span, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  info.elem = stg_elem_of_name(dtype_name);
  info.dtype_name = stg_arena_strdup(&reader->file->arena, dtype_name);
  info.name = stg_arena_strdup(&reader->file->arena, at->key);
  info.data = reader->data + span.begin;
  status = stg_arena_status(&reader->file->arena, reterr);
  if (status == STG_OK) {
    status = check_bytes(&offsets, &info, &span, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  span.name = info.name;
  reader->tensors[reader->n_tensors] = info;
  reader->spans[reader->n_tensors++] = span;
  return STG_OK;
}

static stg_status read_metadata(struct reader *reader, const struct stg_json *at,
                                stg_error *reterr) {
  struct stg_arena *arena = &reader->file->arena;
  stg_status status = stg_json_expect_object(at, reterr);
  if (status != STG_OK) {
    return status;
  }
  size_t n = 0;
  const char **pairs = stg_arena_alloc(arena, stg_json_count(at), 2 * sizeof *pairs);
  status = stg_arena_status(arena, reterr);
  if (status != STG_OK) {
    return status;
  }
  struct stg_json member;
  for (bool more = stg_json_first(at, &member); more; more = stg_json_next(&member)) {
    const char *value = "";
    status = stg_json_string(&member, &value, reterr);
    if (status != STG_OK) {
      return status;
    }
    pairs[2 * n] = stg_arena_strdup(arena, member.key);
    pairs[2 * n + 1] = stg_arena_strdup(arena, value);
    n++;
  }
  reader->file->metadata = pairs;
  reader->file->n_metadata = n;
  return stg_arena_status(arena, reterr);
}

static int compare_spans(const void *a, const void *b) {
  const struct span *x = a;
  const struct span *y = b;
  if (x->begin != y->begin) {
    return x->begin < y->begin ? -1 : 1;
  }
  return (x->end > y->end) - (x->end < y->end);
}

/* The tensors, sorted by place, must follow each other without overlap or hole to the last byte. */
static stg_status check_cover(const struct reader *reader, stg_error *reterr) {
  const char *path = reader->file->path;
  const char *before = "the header";
  size_t end = 0;
  qsort(reader->spans, reader->n_tensors, sizeof reader->spans[0], compare_spans);
  for (size_t i = 0; i < reader->n_tensors; i++) {
    const struct span *span = &reader->spans[i];
    if (span->begin < end) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "%s: tensors '%.96s' and '%.96s' overlap: one ends at byte %zu, the "
                           "other begins at %zu",
                           path, before, span->name, end, span->begin);
    }
    if (span->begin > end) {
      return stg_error_set(reterr, STG_E_FORMAT,
                           "%s: hole of %zu bytes before tensor '%.96s', which begins at byte %zu",
                           path, span->begin - end, span->name, span->begin);
    }
    end = span->end;
    before = span->name;
  }
  if (end != reader->data_size) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: the tensors end at byte %zu, but the file has %zu bytes of data",
                         path, end, reader->data_size);
  }
  return STG_OK;
}

static stg_status read_header(struct reader *reader, const struct stg_json *root,
                              stg_error *reterr) {
  stg_status status = stg_json_expect_object(root, reterr);
  if (status != STG_OK) {
    return status;
  }
  size_t capacity = stg_json_count(root);
  reader->tensors = stg_arena_alloc(&reader->file->arena, capacity, sizeof *reader->tensors);
  reader->spans = stg_calloc(capacity, sizeof *reader->spans);
  if (reader->tensors == NULL || reader->spans == NULL) {
    return stg_error_memory(reterr, "the list of tensors", capacity * sizeof *reader->tensors);
  }
  struct stg_json member;
  for (bool more = stg_json_first(root, &member); more; more = stg_json_next(&member)) {
    status = strcmp(member.key, STG_SAFETENSORS_METADATA) == 0
                 ? read_metadata(reader, &member, reterr)
                 : read_tensor(reader, &member, reterr);
    if (status != STG_OK) {
      return status;
    }
  }
  return check_cover(reader, reterr);
}

/* The header's text, whose size is the file's first word. */
static stg_status find_header(const struct stg_tensor_file *file, size_t *ret_size,
                              stg_error *reterr) {
  const unsigned char *bytes = file->bytes;
  if (file->size < STG_SAFETENSORS_SIZE_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: %zu bytes, a safetensors file begins with 8 bytes of header size",
                         file->path, file->size);
  }
  uint64_t size = 0;
  memcpy(&size, bytes, sizeof size);
  if (size > file->size - STG_SAFETENSORS_SIZE_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: a header of %llu bytes does not fit in a file of %zu; it is not "
                         "safetensors, or cut short",
                         file->path, (unsigned long long)size, file->size);
  }
  if (size > MAX_HEADER_BYTES) {
    return stg_error_set(reterr, STG_E_FORMAT, "%s: a header of %llu bytes, at most %llu are read",
                         file->path, (unsigned long long)size,
                         (unsigned long long)MAX_HEADER_BYTES);
  }
  if (size == 0 || bytes[STG_SAFETENSORS_SIZE_BYTES] != '{') {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: the header of %llu bytes does not begin with '{'; it is not "
                         "safetensors",
                         file->path, (unsigned long long)size);
  }
  *ret_size = (size_t)size;
  return STG_OK;
}

/* So many values as a header of that size can have. */
static struct stg_json_limit limit_of(size_t header_size) {
  const size_t values = FREE_VALUES + header_size / LEAST_VALUE_BYTES;
  if (values >= STG_JSON_MAX_VALUES) {
    return (struct stg_json_limit){STG_JSON_MAX_VALUES, "split it into files of fewer tensors"};
  }
  return (struct stg_json_limit){
      values, "those of tensors take more bytes of a header, so it is not safetensors"};
}

stg_status stg_safetensors_read(struct stg_tensor_file *file, stg_error *reterr) {
  size_t header_size = 0;
  struct stg_json_doc doc = {0};
  struct reader reader = {.file = file};
  stg_status status = find_header(file, &header_size, reterr);
  if (status != STG_OK) {
    return status;
  }
  const unsigned char *header = file->bytes + STG_SAFETENSORS_SIZE_BYTES;
  status = stg_json_parse_within(file->path, (const char *)header, header_size,
                                 limit_of(header_size), &doc, reterr);
  if (status != STG_OK) {
    return status;
  }
  reader.data = header + header_size;
  reader.data_size = file->size - STG_SAFETENSORS_SIZE_BYTES - header_size;
  struct stg_json root = stg_json_root(&doc);
  status = read_header(&reader, &root, reterr);
  if (status == STG_OK) {
    file->format = STG_FILE_SAFETENSORS;
    file->format_text = "safetensors";
    file->tensors = reader.tensors;
    file->n_tensors = reader.n_tensors;
  }
  stg_free(reader.spans);
  stg_json_finish(&doc);
  return status;
}

/*
 * vector_file.c: tell a tensor file's format by its content, and open it.
 *
 * The formats themselves are read elsewhere (tensor_readers.h); tensors are found by tensor_find.c.
 * Must not know what a tensor is for.
 */
#include "specs/vector_file.h"

#include <string.h>

#include "specs/tensor_readers.h"

#define PICKLE_PROTOCOL 0x80 /* the first byte of a pickle, the protocol's number is the second */
#define PICKLE_FIRST 2
#define PICKLE_LAST 5

/* Not any file whose ninth byte is '{': a GGUF file of 123 tensors has that byte too, but its first
 * word, read as a size, is beyond any file. Of one that is cut short the header may be missing. */
static bool begins_as_safetensors(const unsigned char *bytes, size_t size, uint64_t *ret_header) {
  if (size <= STG_SAFETENSORS_SIZE_BYTES || bytes[STG_SAFETENSORS_SIZE_BYTES] != '{') {
    return false;
  }
  memcpy(ret_header, bytes, sizeof *ret_header);
  return *ret_header <= STG_SAFETENSORS_MAX_HEADER_BYTES;
}

static bool is_safetensors(const unsigned char *bytes, size_t size) {
  uint64_t header = 0;
  return begins_as_safetensors(bytes, size, &header) && header <= size - STG_SAFETENSORS_SIZE_BYTES;
}

/* The formats that are read. The first whose `is` agrees has the file; where none does, the one of
 * the suffix says what is wrong. */
static const struct format {
  const char *suffix;
  bool (*is)(const unsigned char *bytes, size_t size);
  stg_status (*read)(struct stg_tensor_file *file, stg_error *reterr);
} formats[] = {
    {".safetensors", is_safetensors, stg_safetensors_read},
    {".gguf", stg_gguf_is, stg_gguf_read},
    {".npy", stg_npy_is, stg_npy_read},
    {".json", stg_directions_is, stg_directions_read},
};

#define N_FORMATS (sizeof formats / sizeof formats[0])

static bool is_zip(const unsigned char *bytes, size_t size) {
  return size >= 4 && memcmp(bytes, "PK\003\004", 4) == 0;
}

/* PyTorch wrote protocol 2; Python itself writes 4 or 5. */
static bool is_pickle(const unsigned char *bytes, size_t size) {
  return size >= 2 && bytes[0] == PICKLE_PROTOCOL && bytes[1] >= PICKLE_FIRST &&
         bytes[1] <= PICKLE_LAST;
}

/* Formats that people will try, and what to do about them. */
static const struct {
  bool (*is)(const unsigned char *bytes, size_t size);
  const char *name;
  const char *remedy;
} other_formats[] = {
    {is_zip, "a zip archive (.pt, .pth or .npz)",
     "convert a file of PyTorch with tools/pt_to_safetensors.py, save an array with numpy.save"},
    {is_pickle, "a Python pickle, which is never read",
     "convert a file of PyTorch with tools/pt_to_safetensors.py"},
};

static stg_status refuse_other_formats(const struct stg_tensor_file *file, stg_error *reterr) {
  for (size_t i = 0; i < sizeof other_formats / sizeof other_formats[0]; i++) {
    if (other_formats[i].is(file->bytes, file->size)) {
      return stg_error_set(reterr, STG_E_UNSUPPORTED, "'%s' is %s; %s", file->path,
                           other_formats[i].name, other_formats[i].remedy);
    }
  }
  return STG_OK;
}

static const struct format *format_of_suffix(const struct stg_tensor_file *file) {
  for (size_t i = 0; i < N_FORMATS; i++) {
    if (strcmp(formats[i].suffix, stg_path_suffix(file->path)) == 0) {
      return &formats[i];
    }
  }
  return NULL;
}

static const struct format *format_of_content(const struct stg_tensor_file *file) {
  for (size_t i = 0; i < N_FORMATS; i++) {
    if (formats[i].is(file->bytes, file->size)) {
      return &formats[i];
    }
  }
  return NULL;
}

/* Choose a reader for the bytes of `file` and let it fill the rest. */
static stg_status read_content(struct stg_tensor_file *file, const struct stg_tensor_hint *hint,
                               stg_error *reterr) {
  if (hint != NULL && (hint->count_elems > 0 || hint->width_elems > 0)) {
    return stg_raw_read(file, hint, reterr);
  }
  const struct format *format = format_of_content(file);
  if (format != NULL) {
    return format->read(file, reterr);
  }
  stg_status status = refuse_other_formats(file, reterr);
  if (status != STG_OK) {
    return status;
  }
  uint64_t header = 0;
  if (begins_as_safetensors(file->bytes, file->size, &header)) {
    return stg_safetensors_read(file, reterr);
  }
  format = format_of_suffix(file);
  if (format != NULL) {
    return format->read(file, reterr);
  }
  return stg_error_set(
      reterr, STG_E_FORMAT, "'%s' is none of safetensors, GGUF, .npy and JSON directions; %s",
      file->path,
      hint == NULL ? "save it as safetensors"
                   : "to read it as raw float32 say how wide it is (\"count\" in a "
                     "spec, --width in a command)");
}

/* Read `file`, of which map, bytes and size are set; on failure it is closed. */
static stg_status fill(const char *path, const struct stg_tensor_hint *hint,
                       struct stg_tensor_file *file, struct stg_tensor_file *ret_file,
                       stg_error *reterr) {
  file->path = stg_arena_strdup(&file->arena, path);
  stg_status status = stg_arena_status(&file->arena, reterr);
  if (status == STG_OK) {
    status = read_content(file, hint, reterr);
  }
  if (status != STG_OK) {
    stg_tensor_file_close(file);
    return status;
  }
  *ret_file = *file;
  return STG_OK;
}

stg_status stg_tensor_file_open(const char *path, const struct stg_tensor_hint *hint,
                                struct stg_tensor_file *ret_file, stg_error *reterr) {
  struct stg_tensor_file file = {0};
  stg_status status = stg_file_map(path, &file.map, reterr);
  if (status != STG_OK) {
    return status;
  }
  file.bytes = file.map.data;
  file.size = file.map.size;
  return fill(path, hint, &file, ret_file, reterr);
}

stg_status stg_tensor_file_parse(const char *path, const void *bytes, size_t size,
                                 const struct stg_tensor_hint *hint,
                                 struct stg_tensor_file *ret_file, stg_error *reterr) {
  struct stg_tensor_file file = {.bytes = bytes, .size = size};
  return fill(path, hint, &file, ret_file, reterr);
}

void stg_tensor_file_close(struct stg_tensor_file *file) {
  stg_file_unmap(&file->map);
  stg_arena_finish(&file->arena);
  *file = (struct stg_tensor_file){0};
}

struct stg_key stg_tensor_file_key(const struct stg_tensor_file *file) {
  return stg_key_of(file->bytes, file->size);
}

/*
 * vector_bytes.h: GGUF files in memory, written field by field, so that any of them can be wrong.
 *
 * Nothing is checked: what a test asks for is written. Where each number lies is kept, so that it
 * can be changed afterwards.
 */
#ifndef STG_TESTS_SUPPORT_VECTOR_BYTES_H
#define STG_TESTS_SUPPORT_VECTOR_BYTES_H

#include <stdint.h>

#include "runtime/base/strbuf.h"

#define GGUF_MAX_FIELDS 256

/* Numbers of the value types. */
enum {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_STRING,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64
};
/* And of some tensor types. */
enum { GGUF_TENSOR_F32 = 0, GGUF_TENSOR_F16 = 1, GGUF_TENSOR_Q4_0 = 2, GGUF_TENSOR_F64 = 28 };

/* A file that is being written; {0} is empty. */
struct gguf_bytes {
  struct stg_strbuf text;
  struct gguf_field {
    size_t at, width;
  } fields[GGUF_MAX_FIELDS]; /* the numbers, in order */
  size_t n_fields;
};

/** A number of `width` bytes. */
void gguf_number(struct gguf_bytes *out, uint64_t value, size_t width);
/** Its length, and the bytes. */
void gguf_text(struct gguf_bytes *out, const char *text, size_t len);
/** Magic, version, the two counts. */
void gguf_header(struct gguf_bytes *out, uint32_t version, uint64_t n_tensors, uint64_t n_metadata);
/** The key and the type; the value must follow. */
void gguf_key(struct gguf_bytes *out, const char *key, uint32_t type);
void gguf_key_text(struct gguf_bytes *out, const char *key, const char *value);
/** Zero bytes to a multiple of `alignment`. */
void gguf_pad(struct gguf_bytes *out, size_t alignment);
/** Name, dimensions (the fastest first, as in the file), type and offset. */
void gguf_tensor(struct gguf_bytes *out, const char *name, uint32_t n_dims, const uint64_t *dims,
                 uint32_t type, uint64_t offset);
/** So many zero bytes. */
void gguf_zeros(struct gguf_bytes *out, size_t n_bytes);
void gguf_finish(struct gguf_bytes *out);

/* A control vector; no key is written for what is NULL or negative. */
struct gguf_control {
  const char *architecture, *model_hint;
  int64_t layer_count;
  const char *key, *value; /* one more of text */
  const char *const *names;
  size_t n_names;
  uint64_t width;    /* of each tensor, float32, 1.0 in all elements */
  size_t zero_names; /* so many of the first are 0 instead */
};
/** Replace what `out` holds by such a file. */
void gguf_write_control(struct gguf_bytes *out, const struct gguf_control *control);

#endif

/*
 * vector_bytes.c: the fields of GGUF, one after the other.
 */
#include "tests/support/vector_bytes.h"

#include <string.h>

#include "runtime/base/bytes.h"

#define ALIGNMENT 32

void gguf_number(struct gguf_bytes *out, uint64_t value, size_t width) {
  if (out->n_fields < GGUF_MAX_FIELDS) {
    out->fields[out->n_fields++] = (struct gguf_field){out->text.len, width};
  }
  stg_le_append(&out->text, value, width);
}

void gguf_text(struct gguf_bytes *out, const char *text, size_t len) {
  gguf_number(out, len, 8);
  stg_strbuf_mem(&out->text, text, len);
}

void gguf_header(struct gguf_bytes *out, uint32_t version, uint64_t n_tensors,
                 uint64_t n_metadata) {
  stg_strbuf_str(&out->text, "GGUF");
  gguf_number(out, version, 4);
  gguf_number(out, n_tensors, 8);
  gguf_number(out, n_metadata, 8);
}

void gguf_key(struct gguf_bytes *out, const char *key, uint32_t type) {
  gguf_text(out, key, strlen(key));
  gguf_number(out, type, 4);
}

void gguf_key_text(struct gguf_bytes *out, const char *key, const char *value) {
  gguf_key(out, key, GGUF_STRING);
  gguf_text(out, value, strlen(value));
}

void gguf_zeros(struct gguf_bytes *out, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i++) {
    stg_strbuf_char(&out->text, '\0');
  }
}

void gguf_pad(struct gguf_bytes *out, size_t alignment) {
  gguf_zeros(out, (alignment - out->text.len % alignment) % alignment);
}

void gguf_tensor(struct gguf_bytes *out, const char *name, uint32_t n_dims, const uint64_t *dims,
                 uint32_t type, uint64_t offset) {
  gguf_text(out, name, strlen(name));
  gguf_number(out, n_dims, 4);
  for (uint32_t i = 0; i < n_dims; i++) {
    gguf_number(out, dims[i], 8);
  }
  gguf_number(out, type, 4);
  gguf_number(out, offset, 8);
}

void gguf_finish(struct gguf_bytes *out) {
  stg_strbuf_finish(&out->text);
  out->n_fields = 0;
}

/* Data of a control vector: float32 of 1, or of 0 in the first ones. */
static void write_values(struct gguf_bytes *out, const struct gguf_control *control) {
  const uint32_t one = UINT32_C(0x3f800000);
  for (size_t i = 0; i < control->n_names; i++) {
    gguf_pad(out, ALIGNMENT);
    for (uint64_t k = 0; k < control->width; k++) {
      stg_le_append(&out->text, i < control->zero_names ? 0 : one, 4);
    }
  }
}

void gguf_write_control(struct gguf_bytes *out, const struct gguf_control *control) {
  const uint64_t tensor_bytes = (4 * control->width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  const uint64_t n_metadata = (control->architecture != NULL) + (control->model_hint != NULL) +
                              (control->layer_count >= 0) + (control->key != NULL);
  gguf_finish(out);
  gguf_header(out, 3, control->n_names, n_metadata);
  if (control->architecture != NULL) {
    gguf_key_text(out, "general.architecture", control->architecture);
  }
  if (control->model_hint != NULL) {
    gguf_key_text(out, "controlvector.model_hint", control->model_hint);
  }
  if (control->layer_count >= 0) {
    gguf_key(out, "controlvector.layer_count", GGUF_I32);
    gguf_number(out, (uint64_t)control->layer_count, 4);
  }
  if (control->key != NULL) {
    gguf_key_text(out, control->key, control->value);
  }
  for (size_t i = 0; i < control->n_names; i++) {
    gguf_tensor(out, control->names[i], 1, &control->width, GGUF_TENSOR_F32, i * tensor_bytes);
  }
  write_values(out, control);
}

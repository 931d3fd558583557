/*
 * gguf_values.c: the metadata of a GGUF file, each value as text.
 *
 * Arrays (the vocabulary of a model) are walked, not kept, on a stack of fixed depth: nothing is
 * allocated that a short file could multiply. Only general.alignment is known here.
 */
#include <inttypes.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/intmath.h"
#include "runtime/base/utf8.h"
#include "specs/gguf.h"

#define MAX_KEY_BYTES 65535
#define MAX_ARRAY_DEPTH 4
#define ALIGNMENT_KEY "general.alignment"
#define MIN_ALIGNMENT 8
#define MAX_ALIGNMENT (1 << 20)

/* The value types, in the order of their numbers: name, the least bytes that one takes. */
#define VALUE_TYPE_LIST(X)                                                                         \
  X(U8, "u8", 1)                                                                                   \
  X(I8, "i8", 1)                                                                                   \
  X(U16, "u16", 2)                                                                                 \
  X(I16, "i16", 2)                                                                                 \
  X(U32, "u32", 4)                                                                                 \
  X(I32, "i32", 4)                                                                                 \
  X(F32, "f32", 4)                                                                                 \
  X(BOOL, "bool", 1)                                                                               \
  X(STRING, "string", 8)                                                                           \
  X(ARRAY, "array", 12)                                                                            \
  X(U64, "u64", 8)                                                                                 \
  X(I64, "i64", 8)                                                                                 \
  X(F64, "f64", 8)

enum value_type {
#define VALUE_ENUM(name, text, bytes) VALUE_##name,
  VALUE_TYPE_LIST(VALUE_ENUM)
#undef VALUE_ENUM
      N_VALUE_TYPES
};

static const struct {
  const char *name;
  size_t bytes;
} value_types[] = {
#define VALUE_ROW(name, text, bytes) {text, bytes},
    VALUE_TYPE_LIST(VALUE_ROW)
#undef VALUE_ROW
};

/* The entry that is being read. */
struct entry {
  struct stg_gguf_cursor *cursor;
  struct stg_strbuf *printed; /* what stands for a value that is no text */
  const char *key;
  enum value_type type;
};

/* What is still to come of an array. */
struct array {
  enum value_type type;
  uint64_t left;
};

static stg_status read_type(const struct entry *entry, enum value_type *ret_type,
                            stg_error *reterr) {
  uint64_t type = 0;
  stg_status status = stg_gguf_number(entry->cursor, 4, &type, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (type >= N_VALUE_TYPES) {
    return stg_error_set(
        reterr, STG_E_FORMAT,
        "%s: metadata '%.*s': value type %" PRIu64 " is unknown; 0 to %d are known",
        entry->cursor->path, STG_GGUF_NAME_CHARS, entry->key, type, N_VALUE_TYPES - 1);
  }
  *ret_type = (enum value_type)type;
  return STG_OK;
}

/* The head of an array: the type of its elements and their number, which the file can hold. */
static stg_status read_array(const struct entry *entry, struct array *ret_array,
                             stg_error *reterr) {
  stg_status status = read_type(entry, &ret_array->type, reterr);
  if (status == STG_OK) {
    status = stg_gguf_number(entry->cursor, 8, &ret_array->left, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  size_t left = stg_gguf_left(entry->cursor);
  if (ret_array->left > left / value_types[ret_array->type].bytes) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: metadata '%.*s': an array of %" PRIu64
                         " %s does not fit in the %zu bytes left; it is cut short or damaged",
                         entry->cursor->path, STG_GGUF_NAME_CHARS, entry->key, ret_array->left,
                         value_types[ret_array->type].name, left);
  }
  return STG_OK;
}

/* Pass over one element of an array of arrays or texts, or over all elements of another. */
static stg_status skip_elements(const struct entry *entry, struct array *stack, size_t *depth,
                                stg_error *reterr) {
  struct array *array = &stack[*depth - 1];
  struct stg_gguf_text text;
  if (array->type == VALUE_STRING) {
    array->left--;
    return stg_gguf_text(entry->cursor, &text, reterr);
  }
  if (array->type != VALUE_ARRAY) {
    entry->cursor->at += (size_t)array->left * value_types[array->type].bytes;
    array->left = 0;
    return STG_OK;
  }
  array->left--;
  if (*depth == MAX_ARRAY_DEPTH) {
    return stg_error_set(
        reterr, STG_E_FORMAT, "%s: metadata '%.*s': arrays nested %d deep, at most %d are read",
        entry->cursor->path, STG_GGUF_NAME_CHARS, entry->key, MAX_ARRAY_DEPTH + 1, MAX_ARRAY_DEPTH);
  }
  stg_status status = read_array(entry, &stack[*depth], reterr);
  *depth += 1;
  return status;
}

static stg_status read_array_value(const struct entry *entry, stg_error *reterr) {
  struct array stack[MAX_ARRAY_DEPTH];
  size_t depth = 1;
  stg_status status = read_array(entry, &stack[0], reterr);
  if (status != STG_OK) {
    return status;
  }
  stg_strbuf_printf(entry->printed, "[%s x %" PRIu64 "]", value_types[stack[0].type].name,
                    stack[0].left);
  while (status == STG_OK && depth > 0) {
    if (stack[depth - 1].left == 0) {
      depth--;
    } else {
      status = skip_elements(entry, stack, &depth, reterr);
    }
  }
  return status;
}

static void print_float(enum value_type type, uint64_t bits, struct stg_strbuf *out) {
  if (type == VALUE_F64) {
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    stg_strbuf_double(out, value);
    return;
  }
  const uint32_t low = (uint32_t)bits;
  float value = 0;
  memcpy(&value, &low, sizeof value);
  stg_strbuf_float(out, value);
}

/* A number's sign is in the highest of its bytes. */
static int64_t widen(uint64_t bits, size_t bytes) {
  const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  return (int64_t)((bits ^ sign) - sign);
}

static void print_number(enum value_type type, uint64_t bits, struct stg_strbuf *out) {
  if (type == VALUE_F32 || type == VALUE_F64) {
    print_float(type, bits, out);
  } else if (type == VALUE_BOOL) {
    stg_strbuf_str(out, bits != 0 ? "true" : "false");
  } else if (type == VALUE_I8 || type == VALUE_I16 || type == VALUE_I32 || type == VALUE_I64) {
    stg_strbuf_printf(out, "%" PRId64, widen(bits, value_types[type].bytes));
  } else {
    stg_strbuf_printf(out, "%" PRIu64, bits);
  }
}

static stg_status read_number_value(const struct entry *entry, stg_error *reterr) {
  uint64_t bits = 0;
  stg_status status = stg_gguf_number(entry->cursor, value_types[entry->type].bytes, &bits, reterr);
  if (status != STG_OK) {
    return status;
  }
  if (entry->type == VALUE_BOOL && bits > 1) {
    return stg_error_set(reterr, STG_E_FORMAT,
                         "%s: metadata '%.*s': byte %" PRIu64 " is no bool; 0 and 1 are",
                         entry->cursor->path, STG_GGUF_NAME_CHARS, entry->key, bits);
  }
  print_number(entry->type, bits, entry->printed);
  return STG_OK;
}

static stg_status read_value(const struct entry *entry, struct stg_arena *arena,
                             const char **ret_value, stg_error *reterr) {
  struct stg_gguf_text text = {0};
  stg_status status = STG_OK;
  entry->printed->len = 0;
  if (entry->type == VALUE_STRING) {
    status = stg_gguf_text(entry->cursor, &text, reterr);
    if (status == STG_OK && !stg_utf8_is_text(text.data, text.len)) {
      stg_strbuf_printf(entry->printed, "[%zu bytes that are no text]", text.len);
      text.data = NULL;
    }
  } else if (entry->type == VALUE_ARRAY) {
    status = read_array_value(entry, reterr);
  } else {
    status = read_number_value(entry, reterr);
  }
  if (status == STG_OK) {
    status = stg_strbuf_status(entry->printed, reterr);
  }
  if (status != STG_OK) {
    return status;
  }
  *ret_value = text.data != NULL ? stg_arena_strndup(arena, text.data, text.len)
                                 : stg_arena_strdup(arena, stg_strbuf_text(entry->printed));
  return stg_arena_status(arena, reterr);
}

static stg_status check_alignment(const struct entry *entry, const char *value,
                                  size_t *ret_alignment, stg_error *reterr) {
  size_t alignment = 0;
  if (entry->type == VALUE_U32) {
    for (const char *digit = value; *digit != '\0'; digit++) {
      alignment = alignment * 10 + (size_t)(*digit - '0');
    }
    if (stg_is_pow2(alignment) && alignment >= MIN_ALIGNMENT && alignment <= MAX_ALIGNMENT) {
      *ret_alignment = alignment;
      return STG_OK;
    }
  }
  return stg_error_set(reterr, STG_E_FORMAT,
                       "%s: metadata '" ALIGNMENT_KEY "' is %s%s; needed: a power of two from %d "
                       "to %d, as uint32",
                       entry->cursor->path, entry->type == VALUE_U32 ? "" : "of type ",
                       entry->type == VALUE_U32 ? value : value_types[entry->type].name,
                       MIN_ALIGNMENT, MAX_ALIGNMENT);
}

/* `entry` has a cursor and a buffer; the rest is filled. */
static stg_status read_entry(struct entry *entry, struct stg_arena *arena, const char **ret_pair,
                             size_t *ret_alignment, stg_error *reterr) {
  struct stg_gguf_text key = {0};
  stg_status status = stg_gguf_name(entry->cursor, "key", MAX_KEY_BYTES, &key, reterr);
  if (status != STG_OK) {
    return status;
  }
  entry->key = stg_arena_strndup(arena, key.data, key.len);
  status = stg_arena_status(arena, reterr);
  if (status == STG_OK) {
    status = read_type(entry, &entry->type, reterr);
  }
  if (status == STG_OK) {
    status = read_value(entry, arena, &ret_pair[1], reterr);
  }
  if (status == STG_OK && strcmp(entry->key, ALIGNMENT_KEY) == 0) {
    status = check_alignment(entry, ret_pair[1], ret_alignment, reterr);
  }
  ret_pair[0] = entry->key;
  return status;
}

static stg_status check_keys(const struct stg_tensor_file *file, stg_error *reterr) {
  const char **keys = stg_calloc(file->n_metadata, sizeof *keys);
  if (keys == NULL) {
    return stg_error_memory(reterr, "metadata keys", file->n_metadata * sizeof *keys);
  }
  for (size_t i = 0; i < file->n_metadata; i++) {
    keys[i] = file->metadata[2 * i];
  }
  stg_status status = stg_gguf_unique(file->path, "metadata", keys, file->n_metadata, reterr);
  stg_free(keys);
  return status;
}

stg_status stg_gguf_read_metadata(struct stg_gguf_cursor *cursor, uint64_t count,
                                  struct stg_tensor_file *file, size_t *ret_alignment,
                                  stg_error *reterr) {
  const char **pairs = stg_arena_alloc(&file->arena, (size_t)count, 2 * sizeof *pairs);
  struct stg_strbuf printed = {0};
  struct entry entry = {.cursor = cursor, .printed = &printed};
  stg_status status = stg_arena_status(&file->arena, reterr);
  *ret_alignment = STG_GGUF_ALIGNMENT;
  cursor->part = "metadata";
  cursor->count = count;
  for (size_t i = 0; status == STG_OK && i < count; i++) {
    cursor->index = i + 1;
    status = read_entry(&entry, &file->arena, &pairs[2 * i], ret_alignment, reterr);
  }
  stg_strbuf_finish(&printed);
  if (status != STG_OK) {
    return status;
  }
  file->metadata = pairs;
  file->n_metadata = (size_t)count;
  return check_keys(file, reterr);
}

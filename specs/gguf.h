/*
 * gguf.h: what the parts of the GGUF reader share: a cursor that knows where it is, metadata and
 * tensor types.
 *
 * The layout, all little-endian: "GGUF" | u32 version | u64 tensors | u64 metadata entries | the
 * entries: key, u32 value type, value | the tensors: name, u32 dimensions, u64 each (the fastest
 * first), u32 type, u64 offset | padding to the alignment | data. A text is u64 bytes, then those.
 * Versions 2 and 3 are the same. Private to the reader.
 */
#ifndef STG_SPECS_GGUF_H
#define STG_SPECS_GGUF_H

#include "specs/tensor_readers.h"

#define STG_GGUF_HEADER_BYTES 24
#define STG_GGUF_LEAST_VALUE_BYTES 14  /* of a metadata entry: a key of one byte, one byte */
#define STG_GGUF_LEAST_TENSOR_BYTES 24 /* of a tensor without name or dimensions */
#define STG_GGUF_ALIGNMENT 32          /* where no key says otherwise */
#define STG_GGUF_NAME_CHARS 96         /* of a name or key in a message */

/* Where the reader stands. `part`, `index` and `count` are for messages: "tensor 3 of 5". */
struct stg_gguf_cursor {
  const char *path;
  const unsigned char *bytes;
  size_t size;
  size_t at;
  const char *part;
  uint64_t index;
  uint64_t count;
};

/* A text in the file; no NUL ends it. */
struct stg_gguf_text {
  const char *data;
  size_t len;
};

/** Fill `reterr` with "path: part N of M, byte B: " and the message; returns `code`. */
stg_status stg_gguf_error(const struct stg_gguf_cursor *cursor, stg_error *reterr, stg_status code,
                          size_t at, const char *fmt, ...) STG_PRINTF(5, 6);
size_t stg_gguf_left(const struct stg_gguf_cursor *cursor);
/** The next number of `width` bytes. STG_E_FORMAT where fewer are left. */
STG_NODISCARD stg_status stg_gguf_number(struct stg_gguf_cursor *cursor, size_t width,
                                         uint64_t *ret_value, stg_error *reterr);
/** The next text, of any bytes. */
STG_NODISCARD stg_status stg_gguf_text(struct stg_gguf_cursor *cursor,
                                       struct stg_gguf_text *ret_text, stg_error *reterr);
/** The next text, which is a `what` ("key", "name") of 1 to max_bytes bytes on one line. */
STG_NODISCARD stg_status stg_gguf_name(struct stg_gguf_cursor *cursor, const char *what,
                                       size_t max_bytes, struct stg_gguf_text *ret_text,
                                       stg_error *reterr);
/** STG_E_FORMAT where two of the names, which are sorted on the way, are the same. */
STG_NODISCARD stg_status stg_gguf_unique(const char *path, const char *what, const char **names,
                                         size_t n_names, stg_error *reterr);

/**
 * Read `count` metadata entries into the file's list, values as text; arrays are walked, and given
 * as "[string x 151936]". `*ret_alignment` is what they say of the data's.
 */
STG_NODISCARD stg_status stg_gguf_read_metadata(struct stg_gguf_cursor *cursor, uint64_t count,
                                                struct stg_tensor_file *file, size_t *ret_alignment,
                                                stg_error *reterr);

/* A type of tensor elements: how many make a block, and its bytes. */
struct stg_gguf_type {
  uint32_t id;
  const char *name;
  size_t block_elems;
  size_t block_bytes;
};
/** NULL for an unknown one. */
const struct stg_gguf_type *stg_gguf_type_find(uint64_t id);

#endif

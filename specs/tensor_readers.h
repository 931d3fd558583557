/*
 * tensor_readers.h: the readers that vector_file.c chooses from, one for each format.
 *
 * A reader finds `path`, `bytes`, `size` and an arena in `file`, and fills `format`, `format_text`,
 * tensors and metadata. It borrows nothing but the bytes, and closes nothing when it fails: the
 * caller does. It checks a length against what is left of the file before it allocates for it, and
 * its message begins with the path. Private to specs.
 */
#ifndef STG_SPECS_TENSOR_READERS_H
#define STG_SPECS_TENSOR_READERS_H

#include "specs/vector_file.h"

/* The layout: u64 header size (little-endian) | JSON header, padded with spaces | data. */
#define STG_SAFETENSORS_SIZE_BYTES 8
#define STG_SAFETENSORS_METADATA "__metadata__"

/** STG_E_FORMAT for anything that is not a sound safetensors file; STG_E_UNSUPPORTED for a tensor
 * of too many dimensions. */
STG_NODISCARD stg_status stg_safetensors_read(struct stg_tensor_file *file, stg_error *reterr);
/** Whether the bytes begin as a GGUF file does. */
bool stg_gguf_is(const unsigned char *bytes, size_t size);
/** STG_E_UNSUPPORTED, with the remedy, for another version or byte order, and for an unknown tensor
 * type; STG_E_FORMAT for anything else that is not a sound GGUF file. */
STG_NODISCARD stg_status stg_gguf_read(struct stg_tensor_file *file, stg_error *reterr);
/** Whether the bytes begin as a .npy file does. */
bool stg_npy_is(const unsigned char *bytes, size_t size);
/** One tensor "array". STG_E_UNSUPPORTED, with the remedy, for another version, element type or
 * order; STG_E_FORMAT for a broken header and bytes that are too few or too many. */
STG_NODISCARD stg_status stg_npy_read(struct stg_tensor_file *file, stg_error *reterr);
/** Whether the first byte behind JSON white space is '{'. */
bool stg_directions_is(const unsigned char *bytes, size_t size);
/** One tensor of one dimension for each layer, named by its number. STG_E_FORMAT, with the line or
 * the JSON path, for anything that is not {"directions": {LAYER: [numbers]}}. */
STG_NODISCARD stg_status stg_directions_read(struct stg_tensor_file *file, stg_error *reterr);
/** One tensor "raw", which `hint` describes: its members are not negative, and count_elems or
 * width_elems is above 0. STG_E_FORMAT where the file is too short or has odd bytes. */
STG_NODISCARD stg_status stg_raw_read(struct stg_tensor_file *file,
                                      const struct stg_tensor_hint *hint, stg_error *reterr);

#endif

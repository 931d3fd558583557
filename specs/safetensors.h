/*
 * safetensors.h: the reader that vector_file.c calls once it has mapped a file.
 */
#ifndef STG_SPECS_SAFETENSORS_H
#define STG_SPECS_SAFETENSORS_H

#include "specs/vector_file.h"

/* The layout: u64 header size (little-endian) | JSON header, padded with spaces | data. */
#define STG_SAFETENSORS_SIZE_BYTES 8
#define STG_SAFETENSORS_METADATA "__metadata__"

/** Fill tensors and metadata of `file`, whose map, path and arena are set. STG_E_FORMAT. */
STG_NODISCARD stg_status stg_safetensors_read(struct stg_tensor_file *file, stg_error *reterr);

#endif

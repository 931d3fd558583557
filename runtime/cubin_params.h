/*
 * cubin_params.h: the parameters of a kernel as its cubin describes them.
 */
#ifndef STG_RUNTIME_CUBIN_PARAMS_H
#define STG_RUNTIME_CUBIN_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

struct stg_cubin_param {
  uint32_t ordinal, offset_bytes, size_bytes;
};

/**
 * The parameters of kernel `name` in their order; `*ret_params` is stg_free, NULL where there are
 * none. STG_E_CORRUPT when the image is no cubin of it, or the parameters have gaps in their
 * numbers, overlap, or lie outside of what the kernel takes.
 */
STG_NODISCARD stg_status stg_cubin_params(const void *image, size_t size, const char *name,
                                          struct stg_cubin_param **ret_params, size_t *ret_count,
                                          stg_error *reterr);

#endif

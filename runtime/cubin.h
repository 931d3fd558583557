/*
 * cubin.h: read what a cubin says of itself, from its ELF sections. Needs no CUDA.
 *
 * Hostile input is expected: every offset and size is checked against the image.
 */
#ifndef STG_RUNTIME_CUBIN_H
#define STG_RUNTIME_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* Of one kernel. Byte counts; registers per thread. `sm` is 90 for sm_90 and sm_90a alike. */
struct stg_cubin_info {
  uint32_t sm;
  uint32_t registers;
  uint32_t shared_bytes;   /* static */
  uint32_t local_bytes;    /* per thread: stack frame, which spills live in */
  uint32_t constant_bytes; /* bank 0, kernel parameters included */
  uint32_t param_bytes;
  uint32_t code_bytes;
  uint32_t max_threads; /* of a block, from __launch_bounds__; 0: it says nothing */
};

/** STG_E_CORRUPT when the image is not a well-formed cubin that holds kernel `name`. */
STG_NODISCARD stg_status stg_cubin_read(const void *image, size_t size, const char *name,
                                        struct stg_cubin_info *ret_info, stg_error *reterr);
/** Architecture only; STG_E_CORRUPT when it is no cubin. */
STG_NODISCARD stg_status stg_cubin_sm(const void *image, size_t size, uint32_t *ret_sm,
                                      stg_error *reterr);
/** "sm_90a" -> 90; false for other text. */
bool stg_arch_parse(const char *arch, uint32_t *ret_sm);

#endif

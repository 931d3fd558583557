/*
 * components_apart.h: whether memory of a call's tensors has bytes in common. Rows may interleave,
 * as columns of one buffer do, where none touches another.
 */
#ifndef STG_ENGINE_COMPONENTS_APART_H
#define STG_ENGINE_COMPONENTS_APART_H

#include <stddef.h>
#include <stdint.h>

#include <steergraph/status.h>

/* Of a call. `data` NULL or no rows: no memory at all. */
struct stg_components_memory {
  const char *name;
  const void *data;
  int64_t rows;
  uint64_t row_bytes, step_bytes; /* from a row to the next, row_bytes at least */
};

/** STG_E_INVALID, with both addresses, where `written` meets what is read, or written as well. */
STG_NODISCARD stg_status stg_components_check_apart(const struct stg_components_memory *written,
                                                    const struct stg_components_memory *others,
                                                    size_t n_others, stg_error *reterr);

#endif

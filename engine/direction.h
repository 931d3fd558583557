/*
 * direction.h: whether values are a direction: every element finite, and not all of them zero. A
 * row's edit by anything else would be no edit. Knows no table.
 */
#ifndef STG_ENGINE_DIRECTION_H
#define STG_ENGINE_DIRECTION_H

#include <stddef.h>

#include <steergraph/dtype.h>

#include "runtime/base/error.h"

/** STG_E_NON_FINITE names the first such element; STG_E_INVALID where all are 0. */
STG_NODISCARD stg_status stg_direction_check(stg_dtype dtype, const void *data, size_t length,
                                             stg_error *reterr);

#endif

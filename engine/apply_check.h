/*
 * apply_check.h: whether the tensors of an apply are what its table declares, and apart where one
 * is written while another is read. Reads addresses and sizes, no memory.
 */
#ifndef STG_ENGINE_APPLY_CHECK_H
#define STG_ENGINE_APPLY_CHECK_H

#include "engine/steer.h"

/** Check an apply, also one that is NULL, and give the stride of its rows in elements.
 * STG_E_INVALID, with the member and the values. */
STG_NODISCARD stg_status stg_apply_check(const stg_frame *frame, const stg_apply *apply,
                                         int64_t *ret_stride, stg_error *reterr);
/** Elements from a row's cells to those of the next. */
int64_t stg_apply_probe_stride(const struct stg_steer_decl *decl, const stg_apply *apply);

#endif

/*
 * attn_shape.h: the buckets of the attention side: of rope, of decode and of blocks, the same.
 */
#ifndef STG_ENGINE_ATTN_SHAPE_H
#define STG_ENGINE_ATTN_SHAPE_H

#include "engine/family.h"
#include "engine/signature.h"

/** The shape of a step of so many rows, in the default buckets; a longest request of one row is
 * decode. */
STG_NODISCARD stg_status stg_attn_shape(int64_t rows, uint32_t requests, uint32_t longest,
                                        struct stg_graph_shape *ret_shape, stg_error *reterr);
/** The same as families answer it: whatever is declared, by the one kernel that there is. */
STG_NODISCARD stg_status stg_attn_family_shape(const struct stg_decl *decl, int64_t rows,
                                               uint32_t requests, uint32_t longest,
                                               struct stg_graph_shape *ret_shape,
                                               unsigned *ret_variant, stg_error *reterr);

#endif

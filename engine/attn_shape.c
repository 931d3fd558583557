/*
 * attn_shape.c: see attn_shape.h.
 */
#include "engine/attn_shape.h"

stg_status stg_attn_shape(int64_t rows, uint32_t requests, uint32_t longest,
                          struct stg_graph_shape *ret_shape, stg_error *reterr) {
  static const struct stg_buckets by_default = {NULL, 0};
  struct stg_graph_shape shape = {.seq = 1};
  stg_status status = stg_row_bucket(&by_default, rows, &shape.rows, reterr);
  if (status == STG_OK) {
    status = stg_batch_bucket(&by_default, requests, &shape.batch, reterr);
  }
  if (status == STG_OK && longest > 1) {
    status = stg_row_bucket(&by_default, longest, &shape.seq, reterr);
  }
  if (status == STG_OK) {
    *ret_shape = shape;
  }
  return status;
}

stg_status stg_attn_family_shape(const struct stg_decl *decl, int64_t rows, uint32_t requests,
                                 uint32_t longest, struct stg_graph_shape *ret_shape,
                                 unsigned *ret_variant, stg_error *reterr) {
  (void)decl;
  *ret_variant = 0;
  return stg_attn_shape(rows, requests, longest, ret_shape, reterr);
}

/*
 * components_args.c: what a call's addresses allow; see components_args.h.
 */
#include "codegen/components_args.h"

#include "runtime/base/dtype.h"

#define UNIT_BYTES 16

static uint32_t flag_if(bool is, uint32_t flag) {
  return is ? flag : 0;
}

/* Whether rows of elements of `bytes` begin at multiples of `unit`. */
static bool begin_at(uint64_t unit, uint64_t address, int64_t stride, size_t bytes) {
  return address % unit == 0 && (uint64_t)stride * bytes % unit == 0;
}
static bool is_aligned(uint64_t address, int64_t stride, size_t bytes) {
  return begin_at(UNIT_BYTES, address, stride, bytes);
}

uint32_t stg_components_apply_flags(const struct stg_components_geometry *g, bool turned,
                                    const struct stg_components_apply_args *args) {
  const size_t bytes = stg_dtype_bytes(g->dtype);
  const size_t mask_bytes = g->mask == STG_COMPONENTS_MASK_BOOL ? 1 : bytes;
  const int64_t first = turned ? g->d_out : g->components;
  const int64_t second = turned ? g->components : g->d_out;
  return flag_if(is_aligned(args->in, args->in_stride, bytes), STG_COMPONENTS_ALIGNED_IN) |
         flag_if(is_aligned(args->first, first, bytes), STG_COMPONENTS_ALIGNED_FIRST) |
         flag_if(is_aligned(args->second, second, bytes), STG_COMPONENTS_ALIGNED_SECOND) |
         flag_if(is_aligned(args->delta, g->d_in, bytes), STG_COMPONENTS_ALIGNED_DELTA) |
         flag_if(is_aligned(args->mask, args->mask_stride, mask_bytes),
                 STG_COMPONENTS_ALIGNED_MASK) |
         flag_if(is_aligned(args->out, args->out_stride, bytes), STG_COMPONENTS_ALIGNED_OUT);
}

uint32_t stg_components_weights_flags(const struct stg_components_geometry *g, bool shared_dm,
                                      const struct stg_components_weights_args *args) {
  const size_t bytes = stg_dtype_bytes(g->dtype);
  const size_t mask_bytes = g->mask == STG_COMPONENTS_MASK_BOOL ? 1 : bytes;
  return flag_if(is_aligned(args->x, args->x_stride, bytes), STG_COMPONENTS_ALIGNED_X) |
         flag_if(is_aligned(args->dy, args->dy_stride, bytes), STG_COMPONENTS_ALIGNED_DY) |
         flag_if(is_aligned(args->v, g->components, bytes), STG_COMPONENTS_ALIGNED_V) |
         flag_if(is_aligned(args->u, g->d_out, bytes), STG_COMPONENTS_ALIGNED_U) |
         flag_if(is_aligned(args->mask, args->mask_stride, mask_bytes),
                 STG_COMPONENTS_ALIGNED_MASK) |
         flag_if(begin_at(2 * bytes, args->dm, args->dm_stride, bytes), STG_COMPONENTS_ALIGNED_DM) |
         flag_if(shared_dm, STG_COMPONENTS_SHARED_DM);
}

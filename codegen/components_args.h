/*
 * components_args.h: what the kernels of the components family are given, each one argument, a
 * struct; and the memory in which sums over rows lie in parts.
 *
 * There are three: y of a row, or turned its dx and dd; the parts of the weights' gradients; their
 * sums. prelude/components_args.cuh says the same to the device; the two change together.
 */
#ifndef STG_CODEGEN_COMPONENTS_ARGS_H
#define STG_CODEGEN_COMPONENTS_ARGS_H

#include "codegen/components.h"

/* Whose address and stride are of 16 bytes in whole, one by one: odd sizes leave some of them as
 * they are. Of apply: */
#define STG_COMPONENTS_ALIGNED_IN 1U
#define STG_COMPONENTS_ALIGNED_FIRST 2U
#define STG_COMPONENTS_ALIGNED_SECOND 4U
#define STG_COMPONENTS_ALIGNED_DELTA 8U
#define STG_COMPONENTS_ALIGNED_MASK 16U
#define STG_COMPONENTS_ALIGNED_OUT 32U
/* Of weights, and the mask as above: */
#define STG_COMPONENTS_ALIGNED_X 1U
#define STG_COMPONENTS_ALIGNED_DY 2U
#define STG_COMPONENTS_ALIGNED_V 4U
#define STG_COMPONENTS_ALIGNED_U 8U
#define STG_COMPONENTS_ALIGNED_DM 32U /* of two elements */
/* And that there are parts of dm, of a mask of elements of which rows share rows. */
#define STG_COMPONENTS_SHARED_DM 64U

/* out = ((in first) * mask) second + bias + d * (in delta). Turned, it is dx: in is dy, first U^T,
 * second V^T, and delta has no transpose. Addresses are of device memory; strides in elements. */
struct stg_components_apply_args {
  uint64_t in, out;              /* out 0, with dd: not wanted */
  uint64_t first, second, delta; /* as the tensors stand: the text knows which is turned */
  uint64_t mask, bias, d;
  uint64_t valid; /* int32; 0: every row is live */
  uint64_t x, dd; /* turned, with delta; dd 0: not wanted */
  int64_t in_stride, out_stride, mask_stride, x_stride;
  int32_t rows, sequence, share; /* of the mask */
  uint32_t flags;
};

/* Parts of dV, dU, dDelta, dbias and shared dm, and all of dm of rows. Those that the geometry has
 * are all computed, shared dm where the flags say so. */
struct stg_components_weights_args {
  uint64_t x, dy, v, u, mask, d;
  uint64_t valid;
  uint64_t dm;    /* of a mask of rows; 0: shared, or not wanted */
  uint64_t parts; /* float32, as stg_components_parts says; 0: dm alone is wanted */
  int64_t x_stride, dy_stride, mask_stride, dm_stride;
  int32_t rows, span, sequence, share;
  uint32_t flags, unused;
};

/* Sums of the parts in the order of the spans, rounded once. Address 0: not wanted. */
struct stg_components_sum_args {
  uint64_t parts;
  uint64_t dv, du, ddelta, dbias, dm;
  int64_t dm_stride;
  int32_t rows, span, share;
  uint32_t flags;
};

_Static_assert(sizeof(struct stg_components_apply_args) == 136, "the prelude has the same");
_Static_assert(sizeof(struct stg_components_weights_args) == 128, "the prelude has the same");
_Static_assert(sizeof(struct stg_components_sum_args) == 72, "the prelude has the same");

/*
 * Where parts lie, in floats, each at 16 bytes in whole: dv[span][d_in][C], and du, ddelta and
 * dbias alike. Of dm there is a row of C for each span and group of rows that have rows in common,
 * at span + group: walking down the rows one of them grows at least, so no two have the same.
 */
struct stg_components_parts {
  size_t dv, du, ddelta, dbias, dm;
  size_t floats; /* in all */
};

/** Lay out the parts of a call; false: they are larger than memory. `shared_dm`: dm of a mask of
 * which rows share rows. */
bool stg_components_parts_of(const struct stg_components_geometry *geometry, int64_t rows,
                             int64_t share, bool shared_dm, struct stg_components_parts *ret_parts);

/** The flags that addresses and strides of a call allow; members `flags` and `dd` are not read. */
uint32_t stg_components_apply_flags(const struct stg_components_geometry *geometry, bool turned,
                                    const struct stg_components_apply_args *args);

/** Likewise of weights; `shared_dm` as stg_components_parts_of has it. */
uint32_t stg_components_weights_flags(const struct stg_components_geometry *geometry,
                                      bool shared_dm,
                                      const struct stg_components_weights_args *args);

/** Groups of rows that share a row of the mask. */
static inline int64_t stg_components_groups(int64_t rows, int64_t share) {
  return (rows + share - 1) / share;
}

#endif

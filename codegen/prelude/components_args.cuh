// components_args.cuh: what work=apply is given. codegen/components_args.h says the same to the
// host; the two change together.

// Whose address and stride are of 16 bytes in whole.
#define STG_ALIGNED_IN 1u
#define STG_ALIGNED_FIRST 2u
#define STG_ALIGNED_SECOND 4u
#define STG_ALIGNED_DELTA 8u
#define STG_ALIGNED_MASK 16u
#define STG_ALIGNED_OUT 32u

// out = ((in first) * mask) second + bias + d * (in delta). Turned: first, second and delta stand
// as tensors do, of which the product has the transpose: first and second turned, delta not.
struct stg_components_apply_args {
  const void *in;     // [rows, in_stride]
  void *out;          // [rows, out_stride]; null with dd: not wanted
  const void *first;  // [in, components]; turned [components, in]
  const void *second; // [components, out]; turned [out, components]
  const void *delta;  // [out, in]; turned [in, out]
  const void *mask;   // [rows / share, mask_stride]
  const void *bias;   // [out]
  const void *d;      // [rows]
  const int *valid;   // [rows / sequence], or null
  const void *x;      // [rows, x_stride], turned with delta
  void *dd;           // [rows], or null
  long long in_stride, out_stride, mask_stride, x_stride; // elements
  int rows, sequence, share;
  unsigned flags;
};
static_assert(sizeof(stg_components_apply_args) == 136, "codegen/components_args.h has the same");

// tf32.cuh: products of small matrices of TF32 by a warp, with float sums; and a float as one or
// two of TF32. Knows no op.
//
// TF32 has the exponent of a float and 10 of its 23 bits. A float is the nearest one and what is
// left, the nearest to that; three products of such parts lose 2^-21 of a product, one loses 2^-11.

__device__ __forceinline__ unsigned stg_tf32_nearest(float x) {
  return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
}

template <int N> struct stg_tf32_parts {
  unsigned high[N], low[N];

  template <int products> __device__ __forceinline__ void set(const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
      high[i] = stg_tf32_nearest(x[i]);
      if constexpr (products == 3) {
        low[i] = stg_tf32_nearest(x[i] - __uint_as_float(high[i]));
      }
    }
  }
};

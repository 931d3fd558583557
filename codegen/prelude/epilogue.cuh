// epilogue.cuh: add_rmsnorm: residual <- s, hidden <- s / rms(s) * weight, of steered rows and
// others alike. Every operation is rounded for itself, in the order that is written here.

template <class G> struct stg_norm {
  const stg_steer_args &a;

  // What a row is multiplied by, from the sum of its squares.
  __device__ __forceinline__ float factor(float squares) const {
    const float mean = __fdiv_rn(squares, (float)G::hidden);
    return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, a.epsilon)));
  }

  // Chunk i of the weight; past its end 0.
  __device__ __forceinline__ void weight(int i, bool direct, float (&w)[8]) const {
    typename G::data::raw r;
    stg_load_chunk<G>(a.weight, threadIdx.x + i * G::threads, direct, r);
    stg_widen<typename G::data>(r, w);
  }

  static __device__ __forceinline__ void normalise(const float (&s)[8], float by,
                                                   const float (&w)[8], float (&ret)[8]) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      ret[j] = __fmul_rn(__fmul_rn(by, s[j]), w[j]);
    }
  }
};

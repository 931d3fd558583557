// decode.cuh: the vectors of a tile of one row, several at a time.
//
// Few warps are at work on such a tile, so what counts is the wait for each step: chunks of several
// vectors are asked for together, and their sums folded together.

template <class G> struct stg_few_vectors {
  typedef typename G::bank bank;
  static constexpr int most = 2;
  // with more chunks a thread they would take too many registers
  static constexpr bool apply = G::rows == 1 && G::held && G::chunks_per_thread <= 2;

  int n;
  int v[most];
  typename bank::raw raw[most][apply ? G::chunks_per_thread : 1];

  // Take the lowest of `left`; returns the others.
  __device__ __forceinline__ unsigned take(stg_vector<G> &from, unsigned left) {
    n = 0;
#pragma unroll
    for (int k = 0; k < most; k++) {
      v[k] = 0;
      if (left != 0) {
        left = from.choose(left);
        v[k] = from.v;
        n = k + 1;
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          if (stg_has_chunk<G>(i)) {
            from.ask_chunk(i, raw[k][i]);
          }
        }
      }
    }
    return left;
  }

  // acc[k] = the sum of x . vector k over this thread's chunks.
  __device__ __forceinline__ void dot(const float (&x)[G::chunks_per_thread][8],
                                      float (&acc)[most]) const {
#pragma unroll
    for (int k = 0; k < most; k++) {
      acc[k] = 0.0f;
      if (k < n) {
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          if (stg_has_chunk<G>(i)) {
            float w[8];
            stg_widen<bank>(raw[k][i], w);
#pragma unroll
            for (int j = 0; j < 8; j++) {
              acc[k] = __fmaf_rn(x[i][j], w[j], acc[k]);
            }
          }
        }
      }
    }
  }

  // x += c_k * vector k, in their order; lane i of `c` is coefficient i.
  __device__ __forceinline__ void add(float c, float (&x)[G::chunks_per_thread][8]) const {
#pragma unroll
    for (int k = 0; k < most; k++) {
      const float by = __shfl_sync(STG_ALL, c, v[k]);
      if (k < n) {
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          if (stg_has_chunk<G>(i)) {
            float w[8];
            stg_widen<bank>(raw[k][i], w);
#pragma unroll
            for (int j = 0; j < 8; j++) {
              x[i][j] = __fmaf_rn(by, w[j], x[i][j]);
            }
          }
        }
      }
    }
  }
};

// epilogue.cuh: add_rmsnorm: residual <- s, hidden <- s / rms(s) * weight, of steered rows and
// others alike. Every operation is rounded for itself, in the order that is written here.

template <class G> struct stg_norm {
  const stg_steer_args &a;
  const stg_row<G> &row;
  const stg_dots<G> &dots;
  const stg_update<G> &update;
  stg_sums<G> &sums;

  // What the row is multiplied by, when all squares are there.
  __device__ __forceinline__ float factor() const {
    const float mean = __fdiv_rn(stg_total<G>(sums.square), (float)G::hidden);
    return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, a.epsilon)));
  }

  // Chunk i of s, normalised.
  __device__ __forceinline__ void normalise(int i, const float (&s)[8], float by,
                                            float (&ret)[8]) const {
    typename G::data::raw weight; // past its end 0
    float w[8];
    stg_load_chunk<G>(a.weight, stg_chunk<G>(i), row.aligned, weight);
    stg_widen<typename G::data>(weight, w);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      ret[j] = __fmul_rn(__fmul_rn(by, s[j]), w[j]);
    }
  }

  // A row that is held. Both tensors get every row.
  __device__ __forceinline__ void held() const {
    float x[G::chunks_per_thread][8];
    float acc[G::turns] = {};
    update.held(0, x);
#pragma unroll
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (stg_has_chunk<G>(i)) {
        dots.sum(x[i], x[i], acc[dots.turn_of(i)]);
      }
    }
    dots.put_turns(acc, sums.square);
    __syncthreads();
    const float by = factor();
#pragma unroll
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (stg_has_chunk<G>(i)) {
        float f[8];
        normalise(i, x[i], by, f);
        row.store_held(a.residual, i, x[i]);
        row.store_held(a.out, i, f);
      }
    }
  }

  // A row that is read is updated twice: for its squares, and to be stored.
  __device__ __forceinline__ void read() const {
    dots.read_turns(sums.square, [&](int i, float &acc) {
      float f[8];
      update.read(i, f);
      if (stg_has_chunk<G>(i)) {
        dots.sum(f, f, acc);
      }
    });
    __syncthreads();
    const float by = factor();
#pragma unroll 1
    for (int i = 0; i < G::chunks_per_thread; i++) {
      float f[8], g[8];
      update.read(i, f);
      if (stg_has_chunk<G>(i)) {
        normalise(i, f, by, g);
        row.store_read(a.residual, i, f);
        row.store_read(a.out, i, g);
      }
    }
  }
};

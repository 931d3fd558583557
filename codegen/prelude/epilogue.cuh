// epilogue.cuh: add_rmsnorm: residual <- s, hidden <- s / rms(s) * weight, of steered rows and
// others alike. Every operation is rounded for itself, in the order that is written here.

template <class G> struct stg_norm {
  typedef typename G::data::raw raw;
  static constexpr int pieces = sizeof(raw) / sizeof(uint4);

  const stg_row<G> &row;
  const stg_dots<G> &dots;
  const stg_update<G> &update;
  stg_sums<G> &sums;
  const uint4 *const stage; // of a held row: the weight, where it is staged

  // Begin to bring this thread's chunks of the weight to the stage.
  static __device__ __forceinline__ void bring_weight(const stg_row<G> &row, uint4 *stage) {
    if constexpr (G::weight_staged) {
      if (row.held) {
        const int first = stg_chunk<G>(0) * pieces;
        stg_copy_chunks_async<G, raw>(stage + first, (const uint4 *)row.a.weight + first);
      }
    }
  }

  __device__ __forceinline__ void load_weight(int i, raw &to) const {
    if (G::weight_staged && row.held) {
      stg_load_wide(stage + stg_chunk<G>(i) * pieces, to);
    } else {
      stg_load_chunk<G>(row.a.weight, stg_chunk<G>(i), row.aligned, to);
    }
  }

  // What the row is multiplied by, when all squares are there.
  __device__ __forceinline__ float factor() const {
    const float mean = __fdiv_rn(stg_total<G>(sums.square), (float)G::hidden);
    return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, row.a.epsilon)));
  }

  // Chunk i of s, normalised.
  __device__ __forceinline__ void normalise(int i, const float (&s)[8], float by,
                                            float (&ret)[8]) const {
    raw weight; // past its end 0
    float w[8];
    load_weight(i, weight);
    stg_widen<typename G::data>(weight, w);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      ret[j] = __fmul_rn(__fmul_rn(by, s[j]), w[j]);
    }
  }

  // What chunk i of s changes the rounded sum by.
  __device__ __forceinline__ void note(int i, const float (&s)[8]) const {
    float sum[8];
    row.read_state(i, sum);
    update.tally.note(row.stored(sum), row.stored(s), stg_chunk<G>(i));
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
        if constexpr (G::counters) {
          note(i, x[i]);
        }
        row.store_held(row.a.residual, i, x[i]);
        row.store_held(row.a.out, i, f);
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
        if constexpr (G::counters) {
          note(i, f);
        }
        row.store_read(row.a.residual, i, f);
        row.store_read(row.a.out, i, g);
      }
    }
  }
};

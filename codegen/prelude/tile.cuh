// tile.cuh: what a block keeps: its rows in registers, its sums and chains in shared memory.

// What the warps of a block tell each other. Coefficient slot 32 is a; `used` has bit i where c_i
// is not 0. The chains of the tile's rows stand behind it: [G::rows, chain_words].
template <class G> struct stg_tile {
  float part[G::threads / STG_LANES][G::rows][STG_NORM_SLOT + 1];
  float coef[G::rows][STG_NORM_SLOT + 1];
  unsigned used[G::rows];
};

// The rows of the tile: in registers where they fit, otherwise read again where they are needed.
template <class G, bool held = G::held> struct stg_rows;

template <class G> struct stg_rows<G, true> {
  typename G::data::raw x[G::rows][G::chunks_per_thread];
  typename G::data::raw y[G::pair ? G::rows : 1][G::pair ? G::chunks_per_thread : 1];

  __device__ __forceinline__ void load(const stg_steer_args &a, long long row0, unsigned mask,
                                       bool aligned) {
    typedef typename G::data::element element;
#pragma unroll
    for (int r = 0; r < G::rows; r++) {
      if (!(mask >> r & 1u)) {
        continue;
      }
      const long long at = (row0 + r) * a.row_stride;
#pragma unroll
      for (int i = 0; i < G::chunks_per_thread; i++) {
        const int chunk = threadIdx.x + i * G::threads;
        if (chunk < G::chunks) {
          stg_load_chunk<G>((const element *)a.hidden + at, chunk, aligned, x[r][i]);
          if (G::pair) {
            stg_load_chunk<G>((const element *)a.residual + at, chunk, aligned, y[r][i]);
          }
        }
      }
    }
  }
  __device__ __forceinline__ void hidden(const stg_steer_args &, long long, bool, int r, int i,
                                         typename G::data::raw &raw) const {
    raw = x[r][i];
  }
  __device__ __forceinline__ void residual(const stg_steer_args &, long long, bool, int r, int i,
                                           typename G::data::raw &raw) const {
    raw = y[G::pair ? r : 0][G::pair ? i : 0];
  }
};

template <class G> struct stg_rows<G, false> {
  __device__ __forceinline__ void load(const stg_steer_args &, long long, unsigned, bool) {
  }
  __device__ __forceinline__ void hidden(const stg_steer_args &a, long long row0, bool aligned,
                                         int r, int i, typename G::data::raw &raw) const {
    typedef typename G::data::element element;
    const long long at = (row0 + r) * a.row_stride;
    stg_load_chunk<G>((const element *)a.hidden + at, threadIdx.x + i * G::threads, aligned, raw);
  }
  __device__ __forceinline__ void residual(const stg_steer_args &a, long long row0, bool aligned,
                                           int r, int i, typename G::data::raw &raw) const {
    typedef typename G::data::element element;
    const long long at = (row0 + r) * a.row_stride;
    stg_load_chunk<G>((const element *)a.residual + at, threadIdx.x + i * G::threads, aligned, raw);
  }
};

// Up to G::group vectors whose chunks are asked for together: one wait instead of several.
template <class G> struct stg_vector_group {
  unsigned v[G::group];
  unsigned count;

  // Take the lowest bits of `left`.
  __device__ __forceinline__ unsigned take(unsigned left) {
    count = 0;
#pragma unroll
    for (int k = 0; k < G::group; k++) {
      v[k] = 0;
      if (left != 0) {
        v[k] = __ffs(left) - 1;
        left &= left - 1;
        count = k + 1;
      }
    }
    return left;
  }
  __device__ __forceinline__ void load(const stg_steer_args &a, const unsigned *words, int chunk,
                                       typename G::bank::raw (&raw)[G::group]) const {
#pragma unroll
    for (int k = 0; k < G::group; k++) {
      if (k < count) {
        stg_bank_chunk<G>(a, words[4 + v[k]], chunk, raw[k]);
      }
    }
  }
};

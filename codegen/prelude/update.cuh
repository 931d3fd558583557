// update.cuh: the rank-k update of the row: h = a*h + sum c_i v_i, each vector in its order; and
// the store.

// Chunks of a row that a thread may have in float32, with 64 registers in all.
#define STG_CHUNKS_AT_ONCE 4

// What a chain came to.
struct stg_outcome {
  float c;       // lane i has coefficient i,
  float a;       // every lane the scale
  unsigned used; // coefficients that are not 0

  __device__ __forceinline__ bool changes() const {
    return used != 0 || a != 1.0f;
  }
};

template <class G> struct stg_update {
  typedef typename G::bank bank;

  const stg_row<G> &row;
  const stg_vectors<G> &vectors;
  const stg_outcome &end;
  stg_tally<G> &tally;

  static __device__ __forceinline__ void add(const typename bank::raw &vector, float c,
                                             float (&f)[8]) {
    float w[8];
    stg_widen<bank>(vector, w);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      f[j] = __fmaf_rn(c, w[j], f[j]);
    }
  }

  // The N chunks from `first` on of a row that is held, updated.
  template <int N> __device__ __forceinline__ void held(int first, float (&x)[N][8]) const {
#pragma unroll
    for (int i = 0; i < N; i++) {
      row.held_state(first + i, x[i]);
      row.begin(x[i], end.a);
      stg_keep(x[i]);
    }
#pragma unroll 1
    for (unsigned left = end.used; left != 0; left &= left - 1) {
      const stg_vector<G> vector(vectors, __ffs(left) - 1);
      const float c = __shfl_sync(STG_ALL, end.c, vector.v);
#pragma unroll
      for (int i = 0; i < N; i++) {
        if (stg_has_chunk<G>(first + i)) {
          typename bank::raw raw;
          vector.load(first + i, raw);
          add(raw, c, x[i]);
        }
      }
    }
  }

  // What chunk i changes by. It is read again, also of a row that is held: few registers are left.
  __device__ __forceinline__ void note(int i, const float (&f)[8]) const {
    typename G::data::raw before;
    row.read(row.a.hidden, i, before);
    tally.note(before, row.stored(f), stg_chunk<G>(i));
  }

  // At once where there are registers for it: each part waits for the vectors anew.
  __device__ __forceinline__ void store_held() const {
    constexpr bool at_once = !stg_row<G>::adds_hidden && G::chunks_per_thread <= STG_CHUNKS_AT_ONCE;
    constexpr int n = at_once ? G::chunks_per_thread : G::chunks_per_turn;
#pragma unroll
    for (int first = 0; first < G::chunks_per_thread; first += n) {
      float x[n][8];
      held(first, x);
#pragma unroll
      for (int i = 0; i < n; i++) {
        const int chunk = first + i;
        if (stg_has_chunk<G>(chunk)) {
          if (row.adds_hidden) {
            row.add(row.hidden[chunk], x[i]);
          }
          if constexpr (G::counters) {
            note(chunk, x[i]);
          }
          row.store_held(row.a.out, chunk, x[i]);
        }
      }
    }
  }

  // Chunk i, read and updated. All lanes come here, also those that are outside.
  __device__ __forceinline__ void read(int i, float (&f)[8]) const {
    const bool inside = stg_has_chunk<G>(i);
    if (inside) {
      row.read_state(i, f);
      row.begin(f, end.a);
    }
#pragma unroll 1
    for (unsigned left = end.used; left != 0; left &= left - 1) {
      const stg_vector<G> vector(vectors, __ffs(left) - 1);
      const float c = __shfl_sync(STG_ALL, end.c, vector.v);
      if (inside) {
        typename bank::raw raw;
        vector.load(i, raw);
        add(raw, c, f);
      }
    }
  }

  __device__ __forceinline__ void store_read() const {
#pragma unroll 1
    for (int i = 0; i < G::chunks_per_thread; i++) {
      float f[8];
      read(i, f);
      if (stg_has_chunk<G>(i)) {
        if (row.adds_hidden) {
          typename G::data::raw g;
          row.read(row.a.hidden, i, g);
          row.add(g, f);
        }
        if constexpr (G::counters) {
          note(i, f);
        }
        row.store_read(row.a.out, i, f);
      }
    }
  }
};

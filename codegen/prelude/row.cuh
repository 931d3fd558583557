// row.cuh: a block's row. Where it is aligned and short enough it is held in registers as it was
// given, which is half of what its float32 state would take; or, by an epilogue, as the state,
// which takes no more than both tensors. Otherwise it is read again wherever it is needed.

template <class G> struct stg_row {
  typedef typename G::data data;
  typedef typename data::raw raw;
  typedef typename data::element element;
  static constexpr int held_chunks = G::held ? G::chunks_per_thread : 1;
  static constexpr bool adds_hidden = G::pair && !G::epilogue; // an update is of hidden alone

  const stg_steer_args &a;
  const int index;    // in the tensors
  const bool aligned; // by 16 bytes, and of whole chunks
  const bool held;
  raw hidden[held_chunks];
  raw residual[G::pair ? held_chunks : 1];
  float state[G::epilogue ? held_chunks : 1][8]; // when it has settled

  __device__ __forceinline__ stg_row(const stg_steer_args &args, int row)
      : a(args), index(row), aligned((args.flags & STG_ALIGNED) != 0), held(G::held && aligned) {
  }

  __device__ __forceinline__ element *in(const void *tensor) const {
    return (element *)tensor + (long long)index * a.row_stride;
  }
  __device__ __forceinline__ uint4 *chunk_in(const void *tensor, int i) const {
    return (uint4 *)(in(tensor) + stg_chunk<G>(i) * 8);
  }

  // Ask for the row, where it is to be held.
  __device__ __forceinline__ void ask() {
    if constexpr (G::held) {
      if (held) {
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          if (stg_has_chunk<G>(i)) {
            stg_load_now(chunk_in(a.hidden, i), hidden[i]);
            if constexpr (G::pair) {
              stg_load_now(chunk_in(a.residual, i), residual[i]);
            }
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void add(const raw &g, float (&f)[8]) {
    float e[8];
    stg_widen<data>(g, e);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      f[j] += e[j];
    }
  }

  __device__ __forceinline__ void sum_held(int i, float (&f)[8]) const {
    stg_widen<data>(hidden[i], f);
    if constexpr (G::pair) {
      add(residual[i], f);
    }
  }

  // When what was asked for is needed: an epilogue wants nothing of the tensors but their sum.
  __device__ __forceinline__ void settle() {
    if constexpr (G::held && G::epilogue) {
      if (held) {
#pragma unroll
        for (int i = 0; i < G::chunks_per_thread; i++) {
          sum_held(i, state[i]);
          stg_keep(state[i]);
        }
      }
    }
  }

  // Chunk i of the state, from registers.
  __device__ __forceinline__ void held_state(int i, float (&f)[8]) const {
    if constexpr (G::epilogue) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] = state[i][j];
      }
    } else {
      sum_held(i, f);
    }
  }

  // The same from memory.
  __device__ __forceinline__ void read(const void *tensor, int i, raw &to) const {
    stg_load_chunk<G>(in(tensor), stg_chunk<G>(i), aligned, to);
  }
  __device__ __forceinline__ void read_state(int i, float (&f)[8]) const {
    raw g;
    read(a.hidden, i, g);
    stg_widen<data>(g, f);
    if constexpr (G::pair) {
      read(a.residual, i, g);
      add(g, f);
    }
  }

  // What the vectors are added to: a*state, or where hidden is added at the end, (a-1)*state.
  static __device__ __forceinline__ void begin(float (&f)[8], float scale) {
    if (adds_hidden) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] = scale != 1.0f ? (scale - 1.0f) * f[j] : 0.0f;
      }
    } else if (scale != 1.0f) {
#pragma unroll
      for (int j = 0; j < 8; j++) {
        f[j] *= scale;
      }
    }
  }

  __device__ __forceinline__ void store_held(void *tensor, int i, const float (&f)[8]) const {
    raw g;
    stg_narrow<data>(f, g);
    stg_store_wide(chunk_in(tensor, i), g);
  }
  __device__ __forceinline__ void store_read(void *tensor, int i, const float (&f)[8]) const {
    raw g;
    stg_narrow<data>(f, g);
    stg_store_chunk<G>(in(tensor), stg_chunk<G>(i), aligned, g);
  }

  // Store the row as it is.
  __device__ __forceinline__ void copy() const {
#pragma unroll 1
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (stg_has_chunk<G>(i)) {
        raw g;
        read(a.hidden, i, g);
        stg_store_chunk<G>(in(a.out), stg_chunk<G>(i), aligned, g);
      }
    }
  }
};

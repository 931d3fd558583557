// tile.cuh: what the warps of a block tell each other, and a chain's vectors on their way.

// In shared memory. Rows beside vectors, so that a sum's parts and a vector's coefficients lie
// together. Entry 32 of `coef` is the scale a, of `part` h.h.
template <class G> struct stg_tile {
  alignas(16) float part[STG_NORM_SLOT + 1][G::rows][G::warps];
  float coef[STG_NORM_SLOT + 1][G::rows];
  unsigned used[G::rows]; // bit i: coefficient i is not 0
  // squares of an epilogue, by turns: a tile's are read while the next one's are written
  float square[2][G::epilogue ? G::rows : 1][G::warps];
};

// The sum of what the warps put down, in their order.
template <class G> __device__ __forceinline__ float stg_total(const float (&part)[G::warps]) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < G::warps; w++) {
    sum += part[w];
  }
  return sum;
}

// This thread's chunks of one vector of a chain, asked for ahead of their use. A decode tile has
// too few warps to hide one wait after the other: it brings a chain's first vectors to shared
// memory, all at once. Every thread brings its own chunks.
template <class G> struct stg_vector {
  typedef typename G::bank bank;
  typedef typename bank::raw raw;
  typedef typename bank::element element;
  static constexpr int pieces = sizeof(raw) / sizeof(uint4);

  const stg_steer_args &a;
  uint4 *stage; // [staged_vectors, chunks_per_thread, pieces, threads]
  int record;
  unsigned head; // the chain's first words, one a lane
  int v = -1;    // which of the chain's is at hand, -1: none
  unsigned row;  // where in the bank
  raw kept[G::kept_chunks];

  __device__ __forceinline__ uint4 *slot(int vector, int i) const {
    return stage + (vector * G::chunks_per_thread + i) * pieces * G::threads + threadIdx.x;
  }
  __device__ __forceinline__ const uint4 *bank_chunk(unsigned bank_row, int i) const {
    const element *from = (const element *)a.bank + (unsigned long long)bank_row * G::padded;
    return (const uint4 *)(from + (threadIdx.x + i * G::threads) * 8);
  }

  // The head is there: begin to bring the first vectors to shared memory.
  __device__ __forceinline__ void bring() const {
    const int n = __shfl_sync(STG_ALL, head, 0) >> 8 & 0xffu;
#pragma unroll 1
    for (int k = 0; k < n && k < G::staged_vectors; k++) {
      const unsigned bank_row = __shfl_sync(STG_ALL, head, 4 + k);
#pragma unroll
      for (int i = 0; i < G::chunks_per_thread; i++) {
        if (stg_has_chunk<G>(i)) {
#pragma unroll
          for (int p = 0; p < pieces; p++) {
            stg_copy_async(slot(k, i) + p * G::threads, bank_chunk(bank_row, i) + p);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void take_staged(int i, stg_raw16 &r) const {
    r.w = slot(v, i)[0];
  }
  __device__ __forceinline__ void take_staged(int i, stg_raw32 &r) const {
    r.lo = slot(v, i)[0], r.hi = slot(v, i)[G::threads];
  }

  __device__ __forceinline__ void ask_chunk(int i, raw &to) const {
    if (v < G::staged_vectors) {
      take_staged(i, to);
    } else {
      stg_bank_wide(bank_chunk(row, i), to);
    }
  }

  // Turn to the lowest of `left`, which is not 0; returns the others.
  __device__ __forceinline__ unsigned choose(unsigned left) {
    v = __ffs(left) - 1;
    if (v >= G::staged_vectors) {
      row = __shfl_sync(STG_ALL, head, (4 + v) % STG_LANES);
      if (4 + v >= STG_LANES) {
        row = __ldg(stg_chain_of(a, record) + 4 + v);
      }
    }
    return left & (left - 1);
  }

  // The same, and ask for its chunks.
  __device__ __forceinline__ unsigned ask(unsigned left) {
    left = choose(left);
    if constexpr (G::kept_chunks == G::chunks_per_thread) {
#pragma unroll
      for (int i = 0; i < G::chunks_per_thread; i++) {
        if (stg_has_chunk<G>(i)) {
          ask_chunk(i, kept[i]);
        }
      }
    }
    return left;
  }

  __device__ __forceinline__ void chunk(int i, float (&w)[8]) const {
    if constexpr (G::kept_chunks == G::chunks_per_thread) {
      stg_widen<bank>(kept[i], w);
    } else {
      raw r;
      ask_chunk(i, r);
      stg_widen<bank>(r, w);
    }
  }
};

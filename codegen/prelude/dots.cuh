// dots.cuh: the one reduction: the dots of the row with its chain's vectors, and h.h.

// What the warps of a block tell each other, in shared memory: their parts of the sums, entry 32 of
// `part` those of h.h; and of an epilogue's sum of squares. Besides, what a chain came to.
template <class G> struct stg_sums {
  alignas(16) float part[STG_NORM_SLOT + 1][G::row_warps];
  alignas(16) float square[G::row_warps];
  float coef[STG_LANES];
  float scale;
};

// The sum of what the warps put down, in their order.
template <class G> __device__ __forceinline__ float stg_total(const float (&part)[G::row_warps]) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < G::row_warps; w++) {
    sum += part[w];
  }
  return sum;
}

template <class G> struct stg_dots {
  typedef typename G::bank bank;

  const stg_row<G> &row;
  stg_sums<G> &sums;
  const int lane, warp;

  static __device__ __forceinline__ int turn_of(int i) {
    return i / G::chunks_per_turn;
  }

  // acc += f . w
  static __device__ __forceinline__ void sum(const float (&f)[8], const float (&w)[8], float &acc) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      acc = __fmaf_rn(f[j], w[j], acc);
    }
  }

  // Put down the sum of a turn, which is that of one warp of the row.
  static __device__ __forceinline__ void put(float total, int row_warp,
                                             float (&part)[G::row_warps]) {
    if (G::turns * G::warps == G::row_warps || row_warp < G::row_warps) {
      part[row_warp] = total;
    }
  }

  // Sum acc over the warp and put it down: acc[h] is of turn h.
  __device__ __forceinline__ void put_turns(float (&acc)[G::turns],
                                            float (&part)[G::row_warps]) const {
    const float total = stg_fold<G::turns>(acc, lane);
    constexpr int lanes_per_sum = STG_LANES / G::turns;
    if (lane % lanes_per_sum == 0) {
      put(total, warp + lane / lanes_per_sum * G::warps, part);
    }
  }
  __device__ __forceinline__ void put_turn(float acc, int h, float (&part)[G::row_warps]) const {
    const float total = stg_warp_sum(acc);
    if (lane == 0) {
      put(total, warp + h * G::warps, part);
    }
  }

  // The same of two vectors, or of one where both are the same: acc[turns + h] is the other's.
  __device__ __forceinline__ void put_turns_of(float (&acc)[2 * G::turns], int one,
                                               int other) const {
    const float total = stg_fold<2 * G::turns>(acc, lane);
    constexpr int lanes_per_sum = STG_LANES / (2 * G::turns);
    const int k = lane / lanes_per_sum;
    if (lane % lanes_per_sum == 0 && (k < G::turns || other != one)) {
      put(total, warp + k % G::turns * G::warps, sums.part[k < G::turns ? one : other]);
    }
  }

  // A row that is held, with the vectors `left`, two at a time, so that both are on their way
  // together.
  __device__ __forceinline__ void held(const stg_vectors<G> &vectors, unsigned left) const {
#pragma unroll 1
    while (left != 0) {
      const stg_vector<G> one(vectors, __ffs(left) - 1);
      left &= left - 1;
      const bool two = left != 0;
      const stg_vector<G> other(vectors, two ? __ffs(left) - 1 : one.v);
      left &= left - 1;
      float acc[2 * G::turns] = {};
#pragma unroll
      for (int i = 0; i < G::chunks_per_thread; i++) {
        if (stg_has_chunk<G>(i)) {
          typename bank::raw raw[2];
          float f[8], w[8];
          one.load(i, raw[0]);
          if (two) {
            other.load(i, raw[1]);
          }
          row.held_state(i, f);
          stg_widen<bank>(raw[0], w);
          sum(f, w, acc[turn_of(i)]);
          if (two) {
            stg_widen<bank>(raw[1], w);
            sum(f, w, acc[G::turns + turn_of(i)]);
          }
        }
      }
      put_turns_of(acc, one.v, other.v);
    }
  }
  __device__ __forceinline__ void held_squares() const {
    float acc[G::turns] = {};
#pragma unroll
    for (int i = 0; i < G::chunks_per_thread; i++) {
      if (stg_has_chunk<G>(i)) {
        float f[8];
        row.held_state(i, f);
        sum(f, f, acc[turn_of(i)]);
      }
    }
    put_turns(acc, sums.part[STG_NORM_SLOT]);
  }

  // A row that is read where it is needed: the sums over its turns of what `add` adds for chunk i.
  template <class Add>
  __device__ __forceinline__ void read_turns(float (&part)[G::row_warps], const Add &add) const {
#pragma unroll 1
    for (int h = 0; h < G::turns; h++) {
      float acc = 0.0f;
#pragma unroll 1
      for (int i = h * G::chunks_per_turn; i < (h + 1) * G::chunks_per_turn; i++) {
        add(i, acc);
      }
      put_turn(acc, h, part);
    }
  }
  __device__ __forceinline__ void read(const stg_vectors<G> &vectors, unsigned left) const {
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const stg_vector<G> vector(vectors, __ffs(left) - 1);
      read_turns(sums.part[vector.v], [&](int i, float &acc) {
        if (stg_has_chunk<G>(i)) {
          typename bank::raw raw;
          float f[8], w[8];
          vector.load(i, raw);
          stg_widen<bank>(raw, w);
          row.read_state(i, f);
          sum(f, w, acc);
        }
      });
    }
  }
  __device__ __forceinline__ void read_squares() const {
    read_turns(sums.part[STG_NORM_SLOT], [&](int i, float &acc) {
      if (stg_has_chunk<G>(i)) {
        float f[8];
        row.read_state(i, f);
        sum(f, f, acc);
      }
    });
  }

  // Everything that the chain reads of the row.
  __device__ __forceinline__ void run(const stg_vectors<G> &vectors, unsigned wanted,
                                      bool wants_norm) const {
    if (!row.held) {
      read(vectors, wanted);
      if (wants_norm) {
        read_squares();
      }
    } else if constexpr (G::held) {
      held(vectors, wanted);
      if (wants_norm) {
        held_squares();
      }
    }
  }
};

// strips32.cuh: what strips16.cuh has, of float32: the depth of a product is 8. Knows no op.
//
// In TF32 factors have been rounded in shared memory; exact ones are split as they are read.

template <> struct stg_mma<stg_f32> {
  static __device__ __forceinline__ void add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    stg_add_tf32(d, a, b0, b1);
  }
};

template <int Pitch, bool Turned, int Apart> struct stg_tiles32 {
  static constexpr unsigned step = Turned ? 8u * Pitch * 16u : 32u;
  static constexpr unsigned tile = Apart * (Turned ? 64u : 16u * Pitch * 16u);

  static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return Turned ? stg_lane_of_words<Pitch>(lane) : stg_lane_by_k<Pitch>(lane);
  }
  static __device__ __forceinline__ void load(unsigned at, unsigned (&r)[4]) {
    if constexpr (Turned) {
      r[0] = stg_load_word(at), r[1] = stg_load_word(at + 32u);
      r[2] = stg_load_word(at + 4u * Pitch * 16u),
      r[3] = stg_load_word(at + 4u * Pitch * 16u + 32u);
    } else {
      stg_load_matrices<false>(at, r);
    }
  }
};

template <int Pitch, bool ByK> struct stg_strips32 {
  static constexpr int halves = ByK ? 1 : 2;
  static constexpr unsigned step = ByK ? 8u * Pitch * 16u : 32u;
  static constexpr unsigned strip = ByK ? 32u : 8u * Pitch * 16u;

  static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return ByK ? stg_lane_of_words<Pitch>(lane) : stg_lane_of_strip_by_n<Pitch>(lane);
  }
  template <int Halves, int Strips>
  static __device__ __forceinline__ void load(unsigned at, int strips, unsigned (&r)[Strips][4]) {
#pragma unroll
    for (int n = 0; n < Strips; n++) {
      if (n < strips) {
        const unsigned from = at + n * strip;
        if constexpr (ByK) {
          r[n][0] = stg_load_word(from), r[n][1] = stg_load_word(from + 4u * Pitch * 16u);
        } else if constexpr (Halves == 2) {
          stg_load_matrices<false>(from, r[n]);
        } else {
          stg_load_two_matrices<false>(from, r[n][0], r[n][1]);
        }
      }
    }
  }
};

// Of both kinds.
struct stg_factors32 {
  static constexpr int depth = 8;
  template <int Pitch, bool Turned, int Apart> using tiles = stg_tiles32<Pitch, Turned, Apart>;
  template <int Pitch, bool ByK> using strips = stg_strips32<Pitch, ByK>;
  template <int Pitch> using rows = stg_strips32<Pitch, true>;
};

template <> struct stg_factors<stg_f32> : stg_factors32 {
  template <class A, class B, int Steps, int Last, int Tiles, int Strips>
  static __device__ __forceinline__ void multiply(float (&acc)[Tiles][Strips][4], unsigned a,
                                                  unsigned b, int tiles, int strips) {
    stg_multiply_strips<stg_f32, A, B, Steps, Last>(acc, a, b, tiles, strips);
  }
};

template <> struct stg_factors<stg_f32_exact> : stg_factors32 {
  template <class A, class B, int Steps, int, int Tiles, int Strips>
  static __device__ __forceinline__ void multiply(float (&acc)[Tiles][Strips][4], unsigned a,
                                                  unsigned b, int tiles, int strips) {
    constexpr int part = STG_EXACT_PART / depth, whole = Steps / part;
#pragma unroll 1
    for (int k = 0; k < whole; k++) {
      add_part<A, B, part>(acc, a + k * part * A::step, b + k * part * B::step, tiles, strips);
    }
    if constexpr (Steps % part != 0) {
      add_part<A, B, Steps % part>(acc, a + whole * part * A::step, b + whole * part * B::step,
                                   tiles, strips);
    }
  }

private:
  template <class A, class B, int Steps, int Tiles, int Strips>
  static __device__ __forceinline__ void add_part(float (&acc)[Tiles][Strips][4], unsigned a,
                                                  unsigned b, int tiles, int strips) {
    unsigned of_b[Steps][Strips][4]; // of each the first two
#pragma unroll
    for (int k = 0; k < Steps; k++) {
      B::template load<1>(b + k * B::step, strips, of_b[k]);
    }
#pragma unroll
    for (int m = 0; m < Tiles; m++) {
      if (m + 1 < Tiles || m < tiles) {
        float sums[Strips][4] = {};
#pragma unroll
        for (int k = 0; k < Steps; k++) {
          add_row<A>(sums, a + k * A::step + m * A::tile, of_b[k], strips);
        }
#pragma unroll
        for (int i = 0; i < 4 * Strips; i++) {
          acc[m][i / 4][i % 4] += sums[i / 4][i % 4];
        }
      }
    }
  }
  template <class A, int Strips>
  static __device__ __forceinline__ void add_row(float (&sums)[Strips][4], unsigned a,
                                                 const unsigned (&of_b)[Strips][4], int strips) {
    unsigned of_a[4], upper[4], lower[4];
    A::load(a, of_a);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      stg_split_tf32(of_a[i], upper[i], lower[i]);
    }
#pragma unroll
    for (int n = 0; n < Strips; n++) {
      if (n < strips) {
        unsigned high[2], low[2];
        stg_split_tf32(of_b[n][0], high[0], low[0]);
        stg_split_tf32(of_b[n][1], high[1], low[1]);
        stg_add_exact(sums[n], upper, lower, high, low);
      }
    }
  }
};

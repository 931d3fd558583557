// strips32.cuh: what strips16.cuh has, of float32 in TF32: the depth of a product is 8. Knows no op.
//
// Second factors have been rounded in shared memory; first ones are rounded as they are read.

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
  static __device__ __forceinline__ void load_as_is(unsigned at, unsigned (&r)[4]) {
    if constexpr (Turned) {
      r[0] = stg_load_word(at), r[1] = stg_load_word(at + 32u);
      r[2] = stg_load_word(at + 4u * Pitch * 16u), r[3] = stg_load_word(at + 4u * Pitch * 16u + 32u);
    } else {
      stg_load_matrices<false>(at, r);
    }
  }
  static __device__ __forceinline__ void load(unsigned at, unsigned (&r)[4]) {
    load_as_is(at, r);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      r[i] = stg_round_to_tf32(r[i]);
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

template <> struct stg_factors<stg_f32> {
  static constexpr int depth = 8;
  template <int Pitch, bool Turned, int Apart> using tiles = stg_tiles32<Pitch, Turned, Apart>;
  template <int Pitch, bool ByK> using strips = stg_strips32<Pitch, ByK>;
  template <int Pitch> using rows = stg_strips32<Pitch, true>;
};

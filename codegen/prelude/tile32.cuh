// tile32.cuh: matrices of float32 in shared memory as tile16.cuh has those of 16 bits, by pieces of
// 4 elements, and products of them in TF32, or exact by three of them. Knows no op.
//
// A piece is a row of what ldmatrix takes for a matrix of 8 x 8: so a lane (g, t) has of 8 rows by
// 4 columns the element (g, t), which is what a product wants of a first factor, and of a second
// one that stands by rows of n. One that stands by rows of k is read word by word: there the rows
// are 8 or 24 banks apart, so that 4 rows by 8 columns lie in 32 banks.

__device__ __forceinline__ unsigned stg_round_to_tf32(unsigned bits) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
  return rounded;
}

// [16 x 8] += [16 x 8] . [8 x 8], with sums as those of 16 bits have them.
__device__ __forceinline__ void stg_add_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Exact products are those of an upper and a lower part of each factor, but for the two lower ones:
// (a + a') (b + b') without a' b', which is below 2^-22 of ab. Sums have parts of STG_EXACT_PART of
// k, which are then added: what a tensor core cuts off of a sum does not pile up.
struct stg_f32_exact : stg_f32 {};
#define STG_EXACT_PART 32

__device__ __forceinline__ void stg_split_tf32(unsigned bits, unsigned &high, unsigned &low) {
  high = stg_round_to_tf32(bits);
  low = stg_round_to_tf32(__float_as_uint(__uint_as_float(bits) - __uint_as_float(high)));
}
// The smaller ones first.
__device__ __forceinline__ void stg_add_exact(float (&d)[4], const unsigned (&a)[4],
                                              const unsigned (&rest)[4], const unsigned (&b)[2],
                                              const unsigned (&rest_of_b)[2]) {
  stg_add_tf32(d, rest, b[0], b[1]);
  stg_add_tf32(d, a, rest_of_b[0], rest_of_b[1]);
  stg_add_tf32(d, a, b[0], b[1]);
}

// Where a lane's first element is, of a second factor that stands by rows of k.
template <int Pitch> __device__ __forceinline__ unsigned stg_lane_of_words(unsigned lane) {
  return (lane & 3u) * (Pitch * 16u) + (lane >> 2) * 4u;
}

// `Rounds`: to operands in TF32, wherever they are stored; otherwise they stay as they are.
template <bool Rounds> struct stg_operands32 {
  typedef unsigned element;
  static constexpr int of_piece = 4;
  static constexpr bool rounds = Rounds; // what products read has been rounded

  static constexpr __device__ int pitch_by_k(int pieces) {
    return (pieces + 1) / 4 * 4 + 2;
  }
  template <int Pitch, bool ByK> static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return ByK ? stg_lane_of_words<Pitch>(lane) : stg_lane_by_n<Pitch>(lane);
  }
  static __device__ __forceinline__ void load_pair(unsigned at, float &x, float &y) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(at) : "memory");
  }
  static __device__ __forceinline__ void store_pair(unsigned at, float x, float y) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(operand(x)), "r"(operand(y))
                 : "memory");
  }
  static __device__ __forceinline__ void store(element *to, float x) {
    *to = __float_as_uint(x);
  }
  static __device__ __forceinline__ void store_two(element *to, float x, float y, bool aligned) {
    if (aligned) {
      *(uint2 *)to = make_uint2(__float_as_uint(x), __float_as_uint(y));
    } else {
      store(to, x);
      store(to + 1, y);
    }
  }
  static __device__ __forceinline__ void scale_piece(unsigned at, float d) {
    uint4 w;
    stg_load_piece(at, w);
    w.x = scaled(w.x, d), w.y = scaled(w.y, d), w.z = scaled(w.z, d), w.w = scaled(w.w, d);
    stg_store_piece(at, w);
  }
  // A piece in its place.
  static __device__ __forceinline__ void round_piece(unsigned at) {
    uint4 w;
    stg_load_piece(at, w);
    w.x = stg_round_to_tf32(w.x), w.y = stg_round_to_tf32(w.y);
    w.z = stg_round_to_tf32(w.z), w.w = stg_round_to_tf32(w.w);
    stg_store_piece(at, w);
  }
  // 8 of k by 16 columns, as they are: (t, g), (t + 4, g), and those of column g + 8.
  template <int Pitch, bool ByK>
  static __device__ __forceinline__ void load(unsigned at, unsigned (&r)[4]) {
    if constexpr (ByK) {
      r[0] = stg_load_word(at), r[1] = stg_load_word(at + 4u * Pitch * 16u);
      r[2] = stg_load_word(at + 32u), r[3] = stg_load_word(at + 4u * Pitch * 16u + 32u);
    } else {
      stg_load_matrices<false>(at, r);
    }
  }

private:
  static __device__ __forceinline__ unsigned operand(float x) {
    return Rounds ? stg_round_to_tf32(__float_as_uint(x)) : __float_as_uint(x);
  }
  static __device__ __forceinline__ unsigned scaled(unsigned bits, float d) {
    return operand(__fmul_rn(__uint_as_float(bits), d));
  }
};

template <> struct stg_operands<stg_f32> : stg_operands32<true> {
  template <int Tiles, int Columns, int Steps, int PitchA, int PitchB, bool ByK>
  static __device__ __forceinline__ void multiply(float (&acc)[Tiles][2 * Columns][4], unsigned a,
                                                  unsigned b) {
    constexpr int steps = 2 * Steps; // of 8
    constexpr unsigned step = ByK ? 8u * PitchB * 16u : 32u;
    constexpr unsigned column = ByK ? 64u : 16u * PitchB * 16u;
#pragma unroll(steps <= 8 ? steps : 4)
    for (int k = 0; k < steps; k++) {
      unsigned of_a[Tiles][4];
#pragma unroll
      for (int m = 0; m < Tiles; m++) {
        stg_load_matrices<false>(a + k * 32u + m * (16u * PitchA * 16u), of_a[m]);
      }
#pragma unroll
      for (int n = 0; n < Columns; n++) {
        unsigned of_b[4];
        stg_operands32<true>::load<PitchB, ByK>(b + k * step + n * column, of_b);
#pragma unroll
        for (int m = 0; m < Tiles; m++) {
          stg_add_tf32(acc[m][2 * n], of_a[m], of_b[0], of_b[1]);
          stg_add_tf32(acc[m][2 * n + 1], of_a[m], of_b[2], of_b[3]);
        }
      }
    }
  }
};

template <> struct stg_operands<stg_f32_exact> : stg_operands32<false> {
  template <int Tiles, int Columns, int Steps, int PitchA, int PitchB, bool ByK>
  static __device__ __forceinline__ void multiply(float (&acc)[Tiles][2 * Columns][4], unsigned a,
                                                  unsigned b) {
    constexpr int part = STG_EXACT_PART / 16, whole = Steps / part;
#pragma unroll(whole == 2 ? 2 : 1)
    for (int k = 0; k < whole; k++) {
      add_part<Tiles, Columns, 2 * part, PitchA, PitchB, ByK>(acc, a + k * part * 64u,
                                                              b + k * part * step<PitchB, ByK>());
    }
    if constexpr (Steps % part != 0) {
      add_part<Tiles, Columns, 2, PitchA, PitchB, ByK>(acc, a + whole * part * 64u,
                                                       b + whole * part * step<PitchB, ByK>());
    }
  }

private:
  // Of 16 of k.
  template <int Pitch, bool ByK> static constexpr __device__ unsigned step() {
    return ByK ? 16u * Pitch * 16u : 64u;
  }
  // Steps of 8 of k.
  template <int Tiles, int Columns, int Steps, int PitchA, int PitchB, bool ByK>
  static __device__ __forceinline__ void add_part(float (&acc)[Tiles][2 * Columns][4], unsigned a,
                                                  unsigned b) {
    constexpr unsigned column = ByK ? 64u : 16u * PitchB * 16u;
    unsigned of_a[Steps][Tiles][4];
#pragma unroll
    for (int k = 0; k < Steps; k++) {
#pragma unroll
      for (int m = 0; m < Tiles; m++) {
        stg_load_matrices<false>(a + k * 32u + m * (16u * PitchA * 16u), of_a[k][m]);
      }
    }
#pragma unroll
    for (int n = 0; n < Columns; n++) {
      float sums[Tiles][2][4] = {};
#pragma unroll
      for (int k = 0; k < Steps; k++) {
        add_column<Tiles, PitchB, ByK>(sums, of_a[k],
                                       b + k * (step<PitchB, ByK>() / 2) + n * column);
      }
#pragma unroll
      for (int m = 0; m < Tiles; m++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
          acc[m][2 * n + i / 4][i % 4] += sums[m][i / 4][i % 4];
        }
      }
    }
  }
  template <int Tiles, int PitchB, bool ByK>
  static __device__ __forceinline__ void add_column(float (&sums)[Tiles][2][4],
                                                    const unsigned (&of_a)[Tiles][4], unsigned b) {
    unsigned of_b[4], high[2][2], low[2][2];
    load<PitchB, ByK>(b, of_b);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      stg_split_tf32(of_b[i], high[i / 2][i % 2], low[i / 2][i % 2]);
    }
#pragma unroll
    for (int m = 0; m < Tiles; m++) {
      unsigned upper[4], lower[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        stg_split_tf32(of_a[m][i], upper[i], lower[i]);
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        stg_add_exact(sums[m][i], upper, lower, high[i], low[i]);
      }
    }
  }
};

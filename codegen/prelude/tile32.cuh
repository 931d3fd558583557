// tile32.cuh: matrices of float32 in shared memory as tile16.cuh has those of 16 bits, by pieces of 4
// elements, and products of them in TF32. Knows no op.
//
// A piece is a row of what ldmatrix takes for a matrix of 8 x 8: so a lane (g, t) has of 8 rows by 4
// columns the element (g, t), which is what a product wants of a first factor, and of a second one
// that stands by rows of n. One that stands by rows of k is read word by word: there the rows are 8
// or 24 banks apart, so that 4 rows by 8 columns lie in 32 banks.

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

// Where a lane's first element is, of a second factor that stands by rows of k.
template <int Pitch> __device__ __forceinline__ unsigned stg_lane_of_words(unsigned lane) {
  return (lane & 3u) * (Pitch * 16u) + (lane >> 2) * 4u;
}

template <> struct stg_operands<stg_f32> {
  typedef unsigned element;
  static constexpr int of_piece = 4;
  static constexpr bool rounds = true; // what is read of a first factor has been rounded

  static constexpr __device__ int pitch_by_k(int pieces) {
    return (pieces + 1) / 4 * 4 + 2;
  }
  template <int Pitch, bool ByK> static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return ByK ? stg_lane_of_words<Pitch>(lane) : stg_lane_by_n<Pitch>(lane);
  }
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
        load<PitchB, ByK>(b + k * step + n * column, of_b);
#pragma unroll
        for (int m = 0; m < Tiles; m++) {
          stg_add_tf32(acc[m][2 * n], of_a[m], of_b[0], of_b[1]);
          stg_add_tf32(acc[m][2 * n + 1], of_a[m], of_b[2], of_b[3]);
        }
      }
    }
  }

  static __device__ __forceinline__ void load_pair(unsigned at, float &x, float &y) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(at) : "memory");
  }
  static __device__ __forceinline__ void store_pair(unsigned at, float x, float y) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at),
                 "r"(stg_round_to_tf32(__float_as_uint(x))),
                 "r"(stg_round_to_tf32(__float_as_uint(y)))
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

private:
  static __device__ __forceinline__ unsigned scaled(unsigned bits, float d) {
    return stg_round_to_tf32(__float_as_uint(__fmul_rn(__uint_as_float(bits), d)));
  }
  // 8 of k by 16 columns: (t, g), (t + 4, g), and those of column g + 8.
  template <int Pitch, bool ByK>
  static __device__ __forceinline__ void load(unsigned at, unsigned (&r)[4]) {
    if constexpr (ByK) {
      r[0] = stg_load_word(at), r[1] = stg_load_word(at + 4u * Pitch * 16u);
      r[2] = stg_load_word(at + 32u), r[3] = stg_load_word(at + 4u * Pitch * 16u + 32u);
    } else {
      stg_load_matrices<false>(at, r);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      r[i] = stg_round_to_tf32(r[i]);
    }
  }
};

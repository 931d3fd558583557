// strips16.cuh: products of 16-bit matrices in shared memory, as tile16.cuh has them there, by
// strips of 8 columns; and of a first factor that stands by rows of k. Knows no op.

// Two matrices of 8 x 8 from shared memory, of which lanes 0-15 say where the rows begin.
template <bool turned>
__device__ __forceinline__ void stg_load_two_matrices(unsigned at, unsigned &r0, unsigned &r1) {
  if constexpr (turned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(at)
                 : "memory");
  }
}

// Where a lane's row of ldmatrix begins, of a strip of 32 by 8: that stands by rows of k, and by
// columns, rows of n.
template <int Pitch> __device__ __forceinline__ unsigned stg_lane_of_strip_by_k(unsigned lane) {
  return lane * Pitch * 16u;
}
template <int Pitch> __device__ __forceinline__ unsigned stg_lane_of_strip_by_n(unsigned lane) {
  return ((lane & 7u) * Pitch + (lane >> 3)) * 16u;
}

// A first factor: tiles of 16 rows, `Apart` from one to the next of a warp, in a matrix that stands
// by rows, or turned by rows of k.
template <int Pitch, bool Turned, int Apart> struct stg_tiles16 {
  static constexpr unsigned step = Turned ? 16u * Pitch * 16u : 32u;
  static constexpr unsigned tile = Apart * (Turned ? 32u : 16u * Pitch * 16u);

  static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return Turned ? stg_lane_by_n<Pitch>(lane) : stg_lane_by_k<Pitch>(lane);
  }
  static __device__ __forceinline__ void load(unsigned at, unsigned (&r)[4]) {
    stg_load_matrices<Turned>(at, r);
  }
};

// A second factor: strips beside each other, in a matrix that stands by rows of k, or of n. Each is
// read for 32 of k at once, so that a load has four matrices whichever number of strips there is.
template <int Pitch, bool ByK> struct stg_strips16 {
  static constexpr int halves = 2; // of 16 of k, at once
  static constexpr unsigned step = ByK ? 16u * Pitch * 16u : 32u;
  static constexpr unsigned strip = ByK ? 16u : 8u * Pitch * 16u;

  static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return ByK ? stg_lane_of_strip_by_k<Pitch>(lane) : stg_lane_of_strip_by_n<Pitch>(lane);
  }
  template <int Halves, int Strips>
  static __device__ __forceinline__ void load(unsigned at, int strips, unsigned (&r)[Strips][4]) {
#pragma unroll
    for (int n = 0; n < Strips; n++) {
      if (n < strips) {
        if constexpr (Halves == 2) {
          stg_load_matrices<ByK>(at + n * strip, r[n]);
        } else {
          stg_load_two_matrices<ByK>(at + n * strip, r[n][0], r[n][1]);
        }
      }
    }
  }
};

// The same by rows of k, two of them for 16 of k at once, and all that there are: half as many
// registers, for who has few.
template <int Pitch> struct stg_pairs16 {
  static constexpr int halves = 1;
  static constexpr unsigned step = 16u * Pitch * 16u, strip = 16u;

  static __device__ __forceinline__ unsigned of_lane(unsigned lane) {
    return stg_lane_by_k<Pitch>(lane);
  }
  template <int Halves, int Strips>
  static __device__ __forceinline__ void load(unsigned at, int, unsigned (&r)[Strips][4]) {
#pragma unroll
    for (int n = 0; n + 1 < Strips; n += 2) {
      unsigned both[4];
      stg_load_matrices<true>(at + n * strip, both);
      r[n][0] = both[0], r[n][1] = both[1];
      r[n + 1][0] = both[2], r[n + 1][1] = both[3];
    }
    if constexpr (Strips % 2 != 0) {
      stg_load_two_matrices<true>(at + (Strips - 1) * strip, r[Strips - 1][0], r[Strips - 1][1]);
    }
  }
};

// acc += A . B over Halves products' depth: 16 of k, of float32 8; of Tiles and Strips the first
// ones.
template <class D, class A, class B, int Halves, int SomeTiles, int SomeStrips, int Tiles,
          int Strips>
__device__ __forceinline__ void stg_multiply_halves(float (&acc)[Tiles][Strips][4], unsigned a,
                                                    unsigned b) {
  unsigned of_b[Strips][4];
  B::template load<Halves>(b, SomeStrips, of_b);
#pragma unroll
  for (int half = 0; half < Halves; half++) {
#pragma unroll
    for (int m = 0; m < SomeTiles; m++) {
      unsigned of_a[4];
      A::load(a + half * A::step + m * A::tile, of_a);
#pragma unroll
      for (int n = 0; n < SomeStrips; n++) {
        stg_mma<D>::add(acc[m][n], of_a, of_b[n][2 * half], of_b[n][2 * half + 1]);
      }
    }
  }
}

// The same over Steps of them, in the order of k, in one accumulator for each sum.
template <class D, class A, class B, int Steps, int SomeTiles, int SomeStrips, int Tiles,
          int Strips>
__device__ __forceinline__ void stg_multiply_some(float (&acc)[Tiles][Strips][4], unsigned a,
                                                  unsigned b) {
  constexpr int halves = B::halves, whole = Steps / halves;
#pragma unroll(whole <= 4 ? whole : 4)
  for (int k = 0; k < whole; k++) {
    stg_multiply_halves<D, A, B, halves, SomeTiles, SomeStrips>(acc, a + k * halves * A::step,
                                                                b + k * halves * B::step);
  }
  if constexpr (Steps % halves != 0) {
    stg_multiply_halves<D, A, B, Steps % halves, SomeTiles, SomeStrips>(
        acc, a + whole * halves * A::step, b + whole * halves * B::step);
  }
}

// Of Tiles there are `tiles`, all or all but one; of Strips `strips`, all, or Last, or none. All
// lanes have them alike. A text for each, so that nothing is asked between the products.
template <class D, class A, class B, int Steps, int Last, int Tiles, int Strips>
__device__ __forceinline__ void stg_multiply_strips(float (&acc)[Tiles][Strips][4], unsigned a,
                                                    unsigned b, int tiles, int strips) {
  if (strips == Strips) {
    if (tiles == Tiles) {
      stg_multiply_some<D, A, B, Steps, Tiles, Strips>(acc, a, b);
    } else if constexpr (Tiles > 1) {
      stg_multiply_some<D, A, B, Steps, Tiles - 1, Strips>(acc, a, b);
    }
  } else if constexpr (Last > 0) {
    if (strips == Last) {
      stg_multiply_some<D, A, B, Steps, Tiles, Last>(acc, a, b);
    }
  }
}

// The factors of a type.
template <class D> struct stg_factors {
  static constexpr int depth = 16; // of a product
  template <class A, class B, int Steps, int Last, int Tiles, int Strips>
  static __device__ __forceinline__ void multiply(float (&acc)[Tiles][Strips][4], unsigned a,
                                                  unsigned b, int tiles, int strips) {
    stg_multiply_strips<D, A, B, Steps, Last>(acc, a, b, tiles, strips);
  }
  template <int Pitch, bool Turned, int Apart> using tiles = stg_tiles16<Pitch, Turned, Apart>;
  template <int Pitch, bool ByK> using strips = stg_strips16<Pitch, ByK>;
  template <int Pitch> using rows = stg_pairs16<Pitch>;
};

// mma.cuh: products of small matrices of 16-bit elements by a warp, with float sums; and a float as
// two such elements. Knows no op.
//
// Thread (g, t), lane 4g + t, holds of a matrix of 8 x 8 the elements (g, 2t) and (g, 2t + 1) as
// one word. A product is [16 x 8] += [16 x 16] . [16 x 8]. Of the first factor a thread has the
// words of its quarters, by (rows, columns): (0-7, 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15); of
// the second, transposed, those of rows 0-7 and of rows 8-15; of the sum the elements (g, 2t),
// (g, 2t + 1), and those of row g + 8.

// Four matrices of 8 x 8 from shared memory: lane l says where row l % 8 of matrix l / 8 begins, 16
// bytes. `turned`: each of them transposed.
template <bool turned>
__device__ __forceinline__ void stg_load_matrices(unsigned at, unsigned (&r)[4]) {
  if constexpr (turned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  }
}

// A matrix of 8 x 8, transposed.
__device__ __forceinline__ unsigned stg_turn_matrix(unsigned word) {
  unsigned turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word));
  return turned;
}

// What a type's products are, and weights in them. A weight of 0 to 1 is `whole` times as large as
// it is, so that the lower of its two parts lies in the type's range as well. The upper part is cut
// and not rounded, and none is less than `least` where the weight is not 0: so both have one sign,
// neither is 0, and Inf in V stays Inf. What is lost is 2^-16 of a weight in bf16 and 2^-22 in f16,
// and twice `least`.
template <class D> struct stg_mma;

template <> struct stg_mma<stg_bf16> {
  static constexpr float whole = 1.0f;
  static constexpr float least = 1.17549435e-38f; // 2^-126

  static __device__ __forceinline__ void add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ unsigned cut2(float a, float b) {
    return __byte_perm(__float_as_uint(a), __float_as_uint(b), 0x7632);
  }
};

template <> struct stg_mma<stg_f16> {
  static constexpr float whole = 32768.0f;
  static constexpr float least = 5.96046448e-8f; // 2^-24

  static __device__ __forceinline__ void add(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ unsigned cut2(float a, float b) {
    unsigned w;
    asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
  }
};

// Two weights as upper and lower parts; NaN is NaN in the upper one.
template <class D>
__device__ __forceinline__ void stg_split2(float a, float b, unsigned &high, unsigned &low) {
  constexpr float whole = stg_mma<D>::whole, least = stg_mma<D>::least;
  const float x = a > 0.0f ? fmaxf(a * whole, least) : a;
  const float y = b > 0.0f ? fmaxf(b * whole, least) : b;
  float cut_x, cut_y;
  high = stg_mma<D>::cut2(x, y);
  D::widen2(high, cut_x, cut_y);
  low = D::narrow2(fmaxf(x - cut_x, least), fmaxf(y - cut_y, least));
}
